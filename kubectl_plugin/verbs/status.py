"""`status`: where a rollout is, why it waits, what to do; with `-w`, until it is done, stuck or held."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from rich.text import Text

from controller.api.base import JSONObject
from controller.api.daemonset import Phase
from controller.api.meta import Key
from kubectl_plugin.cluster import controller, reads
from kubectl_plugin.cluster.last_words import LastWords
from kubectl_plugin.failures import CommandError
from kubectl_plugin.flags import Many, Output
from kubectl_plugin.paint.document import as_text
from kubectl_plugin.paint.sight import Sight
from kubectl_plugin.paint.status_block import outline, status_block
from kubectl_plugin.report.documents import API_VERSION
from kubectl_plugin.report.endings import Ending, Wanted, ending_of, unfinished
from kubectl_plugin.report.rollout_reading import rollout_status
from kubectl_plugin.report.rollout_status import RolloutStatus
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated_status import stated_status
from kubectl_plugin.report.survey import Survey, survey
from kubectl_plugin.report.words import runs_without_words, with_words
from kubectl_plugin.running import USAGE, Invocation
from kubectl_plugin.terminal import WIDEST


@dataclass(frozen=True)
class Asked:
    """The command line."""

    names: tuple[str, ...]
    many: Many
    watch: bool
    timeout: str
    revision: int | None
    require_full: bool
    fail_fast: bool
    by: str
    logs: bool
    plain: bool
    files: tuple[Path, ...]
    recursive: bool
    kustomize: Path | None
    exit_code: bool

    @property
    def wanted(self) -> Wanted:
        return Wanted(revision=self.revision, require_full=self.require_full, fail_fast=self.fail_fast)


@dataclass(frozen=True)
class Look:
    """One object at one moment."""

    survey: Survey
    status: RolloutStatus
    absence: str = ""
    """Why no controller seems to be active; asked only while it is Pending."""


class ObscureError(CommandError):
    """Its nodes cannot be told one by one; the message says why."""


@dataclass(frozen=True)
class Outline:
    """What is left to say then."""

    snapshot: Snapshot
    status: RolloutStatus
    error: ObscureError


async def status(invocation: Invocation, asked: Asked) -> int:
    if asked.watch:
        from kubectl_plugin.verbs.status_watch import watch

        return await watch(invocation, asked)
    looks: list[Look | Outline] = []
    for snapshot in await chosen(invocation, asked):
        try:
            looks.append(await look(invocation, asked, snapshot))
        except ObscureError as error:
            looks.append(Outline(snapshot, stated_status(snapshot), error))
    show(invocation, looks, single=len(asked.names) == 1)
    return _exit_code(invocation, asked, looks) if asked.exit_code else 0


async def chosen(invocation: Invocation, asked: Asked, *, everything: bool = True) -> tuple[Snapshot, ...]:
    """The objects of the command line, or all of the namespace. `everything`: with their pods and nodes."""
    if not asked.files and asked.kustomize is None:
        return await reads.snapshots(invocation, asked.names, asked.many, nodes=everything, pods=everything)
    if asked.names or asked.many.selector or asked.many.all_namespaces:
        raise CommandError("give names, -l and -A, or -f and -k, not both", exit_code=USAGE)
    from kubectl_plugin.cluster import manifests

    found = await manifests.read(asked.files, recursive=asked.recursive, kustomize=asked.kustomize, stdin=sys.stdin)
    keys = dict.fromkeys(Key(one.namespace or invocation.session.namespace, one.name) for one in found)
    return tuple(
        [
            await reads.snapshot(invocation, key.name, namespace=key.namespace, nodes=everything, pods=everything)
            for key in keys
        ]
    )


async def look(
    invocation: Invocation,
    asked: Asked,
    snapshot: Snapshot,
    *,
    words: LastWords | None = None,
    attendance: Callable[[float], Awaitable[str | None]] | None = None,
) -> Look:
    """`words`, `attendance`: what remembers from one look to the next. Raises ObscureError."""
    name = snapshot.daemonset.name
    if any(one.startswith("pods:") for one in snapshot.missing_rights):
        raise ObscureError(f"the nodes of {name} cannot be told without the right to list pods")
    try:
        surveyed = survey(snapshot, asked.by)
    except (ValueError, msgspec.MsgspecError) as error:
        raise ObscureError(f"cannot make sense of the spec of {name}: {error}") from error
    told = rollout_status(surveyed)
    runs = runs_without_words(told)
    if asked.logs and runs:
        told = with_words(told, await (words or LastWords(invocation.session)).of(runs))
    elif runs:
        told = with_words(told, {})
    absence = ""
    if surveyed.phase is Phase.PENDING:
        ask = attendance or partial(controller.absence, invocation.session)
        absence = await ask(snapshot.now) or ""
    return Look(surveyed, told, absence)


def show(invocation: Invocation, looks: Sequence[Look | Outline], *, single: bool) -> None:
    """`single`: one was asked for by name, so a document is not a list."""
    terminal, output = invocation.terminal, invocation.output
    if output is Output.NAME:
        terminal.say(*(f"daemonset.apps.kruise.io/{one.status.name}" for one in looks))
    elif output in (Output.JSON, Output.YAML):
        terminal.say(as_text(looks[0].status.document if single else _listed(looks), output))
    elif not looks:
        terminal.note(f"no Advanced DaemonSets in namespace {invocation.session.namespace}")
    for index, one in enumerate(looks if output in (None, Output.WIDE) else ()):
        terminal.say(*([""] if index else []))
        if isinstance(one, Outline):
            terminal.show(outline(one.status, width=terminal.width, only_ascii=terminal.ascii))
            terminal.warn(one.error.message)
        else:
            block = Text("\n").join(status_block(sight(invocation, one)))
            terminal.console.print(block, soft_wrap=output is Output.WIDE, no_wrap=True)
    for missing in dict.fromkeys(missing for one in looks for missing in one.status.unreadable):
        terminal.note(f"not everything could be read: {missing}")


def sight(invocation: Invocation, one: Look) -> Sight:
    """As it is painted on this terminal."""
    terminal, wide = invocation.terminal, invocation.output is Output.WIDE
    return Sight(
        survey=one.survey,
        status=one.status,
        width=WIDEST if wide else terminal.width,
        only_ascii=terminal.ascii,
        wide=wide,
        absence=one.absence,
    )


def _listed(looks: Sequence[Look | Outline]) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": "RolloutStatusList", "items": [one.status.document for one in looks]}


def _exit_code(invocation: Invocation, asked: Asked, looks: Sequence[Look | Outline]) -> int:
    """What waiting would end with; for what still moves, 3."""
    endings = [_ending(one, asked) for one in looks]
    for ending in endings:
        if ending.error is not None:
            invocation.terminal.fail(ending.error)
    return max((ending.code for ending in endings), default=0)


def _ending(one: Look | Outline, asked: Asked) -> Ending:
    if isinstance(one, Outline):
        return Ending(code=one.error.exit_code, error=one.error)
    return ending_of(one.survey, asked.wanted) or unfinished(one.survey)
