"""What all acting verbs share: which objects, the question, one guarded write each, and what is printed.

A verb reads snapshots (`choose`), makes a `Change` of each, which is pure, and has them carried out.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from controller.api import patch
from controller.api.base import JSONObject
from controller.kube.errors import ApiError
from controller.kube.kinds import DAEMONSETS
from kubectl_plugin.cluster import controller, documents, events, reads, writing
from kubectl_plugin.cluster.explain import explained
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.edits.annotations import recorded
from kubectl_plugin.edits.applying import applied
from kubectl_plugin.edits.edit import Caution, Edit
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.flags import Acting, DryRun, Many, Output
from kubectl_plugin.paint.document import as_text
from kubectl_plugin.report import gitops
from kubectl_plugin.report.last_action import Action, action
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.terminal import Terminal

_SUFFIX: Final = {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}


@dataclass(frozen=True)
class Chosen:
    """What the command line says about which objects."""

    names: tuple[str, ...]
    many: Many
    everything: bool = False
    """`--all`: all of the namespace."""


@dataclass(frozen=True)
class Change:
    """An edit of one object, and whether a person at a terminal is asked before."""

    snapshot: Snapshot
    edit: Edit
    ask: str | None = None
    """The question; it may have a preview in the lines before. None: goes ahead."""


async def choose(
    invocation: Invocation, chosen: Chosen, acting: Acting, *, nodes: bool = True, pods: bool = True
) -> tuple[Snapshot, ...]:
    """The objects, at least one. Raises CommandError: (2) when nothing was chosen, (6) for `-A` without `--yes`."""
    if chosen.everything and (chosen.names or chosen.many.selector):
        raise CommandError("give names, -l or --all, not two of them", exit_code=ExitCode.USAGE)
    found = await reads.snapshots(
        invocation, chosen.names, chosen.many, everything=chosen.everything, nodes=nodes, pods=pods
    )
    if not found:
        where = "" if chosen.many.all_namespaces else f" in namespace {invocation.session.namespace}"
        raise CommandError(f"no Advanced DaemonSet was found{where}")
    if chosen.many.all_namespaces and _writes(acting) and not acting.yes:
        raise CommandError(
            f"-A would change {_count(found)} in all namespaces",
            hints=("add --yes if that is what you want",),
            exit_code=ExitCode.REFUSED,
        )
    return found


def will_ask(invocation: Invocation, acting: Acting) -> bool:
    """Whether a change with a question is really asked for: what the question tells need not be told again after."""
    return invocation.terminal.may_ask and _writes(acting) and not acting.yes


async def carry_out(
    invocation: Invocation, snapshot: Snapshot, edit: Edit, acting: Acting, *, verb: str, ask: str | None = None
) -> int:
    """One change, from its cautions to its last line; returns the exit code.

    An edit without operations is told and not written. The edit's operations must keep to the spec: annotations may
    change meanwhile, and those of the verb itself are added here. Raises CommandError and ApiError.
    """
    return await carry_out_all(invocation, (snapshot,), lambda one: Change(one, edit, ask), acting, verb=verb)


async def carry_out_all(
    invocation: Invocation,
    snapshots: Sequence[Snapshot],
    plan: Callable[[Snapshot], Change],
    acting: Acting,
    *,
    verb: str,
) -> int:
    """The same for several objects: one question for all of them, and what fails at one does not stop the others.

    `plan` may raise CommandError for an object that it refuses. Returns the highest of the exit codes.
    """
    if len(snapshots) == 1:
        change = plan(snapshots[0])
        _caution(invocation, change)
        if change.ask is not None and change.edit.operations:
            _agree(invocation, change.ask, acting)
        await _Hand(invocation, acting, verb).carry_out(change)
        return 0
    code, changes = _planned(invocation, snapshots, plan)
    for change in changes:
        _caution(invocation, change)
    if any(change.edit.operations for change in changes):
        _agree_to_all(invocation, changes, acting)
    hand = _Hand(invocation, acting, verb)
    for change in changes:
        try:
            await hand.carry_out(change)
        except (CommandError, ApiError) as error:
            code = max(code, _failed(invocation, error))
    return code


def _planned(
    invocation: Invocation, snapshots: Sequence[Snapshot], plan: Callable[[Snapshot], Change]
) -> tuple[int, list[Change]]:
    code, changes = 0, []
    for snapshot in snapshots:
        try:
            changes.append(plan(snapshot))
        except CommandError as error:
            code = max(code, _failed(invocation, error))
    return code, changes


def _failed(invocation: Invocation, error: CommandError | ApiError) -> int:
    failure = error if isinstance(error, CommandError) else explained(error, invocation.session)
    invocation.terminal.fail(failure)
    return failure.exit_code


def _caution(invocation: Invocation, change: Change) -> None:
    """What to know before; also without a question, since it may still be stopped or taken back."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if change.edit.operations:
        foreign = gitops.caution_about(snapshot.key.name, snapshot.document, snapshot.owners)
        cautions = (*cautions, *([Caution(text=foreign)] if foreign else []))
    for caution in cautions:
        invocation.terminal.warn(_legible(invocation.terminal, caution.text), *caution.hints)


def _agree(invocation: Invocation, question: str, acting: Acting) -> None:
    """Raises CommandError (6) for a no. Nobody there, or nothing to be written: no question."""
    terminal = invocation.terminal
    if will_ask(invocation, acting) and not terminal.ask(_legible(terminal, question)):
        raise CommandError("nothing was changed", exit_code=ExitCode.REFUSED, prefix="")


def _agree_to_all(invocation: Invocation, changes: Sequence[Change], acting: Acting) -> None:
    if _writes(acting) and not acting.yes and not invocation.terminal.may_ask:
        raise CommandError(
            f"{_count(changes)} would be changed, and there is no terminal to ask",
            hints=("add --yes if that is what you want",),
            exit_code=ExitCode.REFUSED,
        )
    lines = (f"  {change.snapshot.key}  {change.edit.result}" for change in changes)
    _agree(invocation, "\n".join((f"{_count(changes)}:", *lines, "Continue?")), acting)


def _writes(acting: Acting) -> bool:
    return acting.dry_run is DryRun.NONE and not acting.print_patch


def _count(objects: Sequence[object]) -> str:
    return "1 DaemonSet" if len(objects) == 1 else f"{len(objects)} DaemonSets"


def _legible(terminal: Terminal, text: str) -> str:
    """The only character beyond ASCII that edits use."""
    return text.replace("…", "...") if terminal.ascii else text


class _Hand:
    """Writes changes one after the other; who we are is asked once, and before the first write."""

    def __init__(self, invocation: Invocation, acting: Acting, verb: str) -> None:
        self._invocation, self._acting, self._verb = invocation, acting, verb
        self._by: str | None = None

    async def carry_out(self, change: Change) -> None:
        snapshot, edit, acting = change.snapshot, change.edit, self._acting
        if not edit.operations:
            self._print(change, snapshot.document, suffix="")
        elif acting.print_patch:
            self._invocation.terminal.say(_kubectl_patch(change))
        elif acting.dry_run is DryRun.CLIENT:
            operations = (*edit.operations, *self._notes(change, await self._action()))
            self._print(change, applied(snapshot.document, operations))
        else:
            await self._write(change, dry_run=acting.dry_run is DryRun.SERVER)

    async def _write(self, change: Change, *, dry_run: bool) -> None:
        invocation, done = self._invocation, await self._action()
        document = await writing.write(
            invocation,
            change.snapshot,
            change.edit,
            done,
            dry_run=dry_run,
            field_manager=self._acting.field_manager,
        )
        self._print(change, document)
        if dry_run:
            return
        _, absence = await asyncio.gather(
            events.tell(invocation.session, change.snapshot, change.edit.result, done),
            controller.absence(invocation.session, invocation.terminal.now()),
        )
        if absence is not None:
            invocation.terminal.warn(f"patched, but {absence}")

    def _notes(self, change: Change, done: Action) -> tuple[JSONObject, ...]:
        return recorded(change.snapshot.document, change.edit.operations, done)

    async def _action(self) -> Action:
        session = self._invocation.session
        if self._by is None:
            self._by = await _who_am_i(session)
        return action(
            self._verb,
            by=self._by,
            now=self._invocation.terminal.now(),
            reason=self._acting.reason,
            client=session.user_agent,
        )

    def _print(self, change: Change, document: JSONObject, suffix: str | None = None) -> None:
        terminal, output = self._invocation.terminal, self._invocation.output
        name = f"daemonset.apps.kruise.io/{change.snapshot.key.name}"
        if output is Output.NAME:
            terminal.say(name)
        elif output is not None:
            terminal.say(as_text(document, output))
        else:
            ending = _SUFFIX[self._acting.dry_run] if suffix is None else suffix
            terminal.say(f"{name} {change.edit.result}{ending}")
            terminal.detail(*(f"  {_legible(terminal, line)}" for line in change.edit.details))


async def _who_am_i(session: Session) -> str:
    """Empty when the server does not say: that must not keep anybody from a pause."""
    try:
        return await documents.who_am_i(session)
    except ApiError:
        return ""


def _kubectl_patch(change: Change) -> str:
    key = change.snapshot.key
    words = ["kubectl", "patch", DAEMONSETS.name, key.name, "-n", key.namespace, "--type=json", "-p"]
    return shlex.join([*words, patch.encode(change.edit.operations).decode()])
