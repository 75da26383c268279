"""`status`, up to what is known: which objects, and what one look at each tells."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from controller.api.daemonset import Phase
from controller.api.meta import Key
from kubectl_plugin.cluster import controller, reads
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.last_words import LastWords
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.flags import Many, Output
from kubectl_plugin.paint.sight import Sight
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.status.document import RolloutStatus
from kubectl_plugin.report.status.endings import Ending, Wanted, ending_of, is_another, overtaken_by, unfinished
from kubectl_plugin.report.status.line import milestone, progress, status_line
from kubectl_plugin.report.status.reading import rollout_status
from kubectl_plugin.report.status.stated import (
    stated_ending,
    stated_line,
    stated_progress,
    stated_status,
    stated_unfinished,
    untold_revision,
)
from kubectl_plugin.report.status.words import runs_without_words, with_words
from kubectl_plugin.report.survey import Survey, UnreadableSpecError, survey
from kubectl_plugin.terminal import WIDEST


@dataclass(frozen=True)
class Asked:
    """The command line."""

    names: tuple[str, ...] = ()
    many: Many = field(default_factory=Many)
    watch: bool = True
    timeout: str = ""
    revision: int | None = None
    generation: int | None = None
    require_full: bool = False
    fail_fast: bool = False
    by: str = "zone"
    logs: bool = True
    plain: bool = False
    files: tuple[Path, ...] = ()
    recursive: bool = False
    kustomize: Path | None = None
    exit_code: bool = False

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            revision=self.revision,
            generation=self.generation,
            require_full=self.require_full,
            fail_fast=self.fail_fast,
        )


@dataclass(frozen=True)
class Look:
    """One object at one moment."""

    survey: Survey
    status: RolloutStatus
    absence: str = ""
    """Why no controller seems to be active; asked only while it is Pending."""

    @property
    def snapshot(self) -> Snapshot:
        return self.survey.snapshot

    @property
    def phase(self) -> Phase:
        return self.survey.phase

    @property
    def line(self) -> str:
        return status_line(self.survey)

    @property
    def progress(self) -> str:
        return progress(self.survey)

    @property
    def doubtful(self) -> bool:
        return self.survey.doubtful

    @property
    def milestone(self) -> str:
        """Changes when `line` is worth printing again."""
        return milestone(self.survey)

    def ending(self, wanted: Wanted) -> Ending | None:
        if is_another(self.snapshot.daemonset, wanted):
            return overtaken_by(self.snapshot.daemonset, wanted)
        if wanted.revision is not None and self.survey.current is None:
            return untold_revision(self.status.name)
        return ending_of(self.survey, wanted)

    def unfinished(self, after: str = "") -> Ending:
        return unfinished(self.survey, after)


@dataclass(frozen=True)
class Outline:
    """The same of one whose nodes cannot be told one by one: what the controller itself says of it."""

    snapshot: Snapshot
    status: RolloutStatus
    obstacle: str
    """Why they cannot."""
    absence: str = ""
    doubtful: ClassVar = False

    @property
    def phase(self) -> Phase:
        return Phase(self.status.phase)

    @property
    def line(self) -> str:
        return stated_line(self.status)

    @property
    def progress(self) -> str:
        return stated_progress(self.status)

    @property
    def milestone(self) -> str:
        return stated_progress(self.status) if self.phase is Phase.PROGRESSING else self.line

    def ending(self, wanted: Wanted) -> Ending | None:
        if is_another(self.snapshot.daemonset, wanted):
            return overtaken_by(self.snapshot.daemonset, wanted)
        return stated_ending(self.snapshot, self.status, wanted)

    def unfinished(self, after: str = "") -> Ending:
        return stated_unfinished(self.status, after)


@dataclass(frozen=True)
class Chosen:
    """What the command line means."""

    snapshots: tuple[Snapshot, ...]
    absent: tuple[CommandError, ...] = ()
    """What to say of the objects that it names and that do not exist."""


async def chosen(invocation: Invocation, asked: Asked, *, everything: bool = True) -> Chosen:
    """The objects of the command line, or all of the namespace. `everything`: with their pods and nodes."""
    if not asked.files and asked.kustomize is None:
        if not asked.names or asked.many.selector or asked.many.all_namespaces:
            found = await reads.snapshots(invocation, asked.names, asked.many, nodes=everything, pods=everything)
            return Chosen(found)
        keys = [reads.key_of(invocation, name) for name in asked.names]
        return Chosen(*await reads.existing(invocation, keys, nodes=everything, pods=everything))
    if asked.names or asked.many.selector or asked.many.all_namespaces:
        raise CommandError("give names, -l and -A, or -f and -k, not both", exit_code=ExitCode.USAGE)
    from kubectl_plugin.cluster import manifests

    read = await manifests.read(asked.files, recursive=asked.recursive, kustomize=asked.kustomize, stdin=sys.stdin)
    keys = [Key(one.namespace or invocation.session.namespace, one.name) for one in read]
    return Chosen(*await reads.existing(invocation, keys, nodes=everything, pods=everything))


async def look(
    invocation: Invocation,
    asked: Asked,
    snapshot: Snapshot,
    *,
    words: LastWords | None = None,
    attendance: Callable[[float], Awaitable[str | None]] | None = None,
) -> Look | Outline:
    """`words`, `attendance`: what remembers from one look to the next."""
    ask = attendance or partial(controller.absence, invocation.session)
    name = snapshot.daemonset.name
    obstacle = f"the nodes of {name} cannot be told without the right to list pods"
    try:
        surveyed = survey(snapshot, asked.by) if snapshot.pods_readable else None
    except UnreadableSpecError as error:
        surveyed, obstacle = None, error.message
    if surveyed is None:
        stated = stated_status(snapshot)
        absence = await ask(snapshot.now) if stated.phase == Phase.PENDING else None
        return Outline(snapshot, stated, obstacle, absence or "")
    told = rollout_status(surveyed)
    runs = runs_without_words(told)
    if asked.logs and runs:
        told = with_words(told, await (words or LastWords(invocation.session)).of(runs))
    elif runs:
        told = with_words(told, {})
    absence = await ask(snapshot.now) if surveyed.phase is Phase.PENDING else None
    return Look(surveyed, told, absence or "")


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
