"""The course of a verb that writes: it chooses objects, asks once, writes each of them, and waits."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from controller.api import patch
from controller.api.daemonset import RollingUpdate
from controller.api.objects import JSONObject, value_at
from controller.kube.errors import ApiError
from controller.kube.requests import DAEMONSETS
from kubectl_plugin.changes.edit import (
    Caution,
    Edit,
    Operation,
    action_operations,
    cause_operations,
    patch_of,
    with_operations,
)
from kubectl_plugin.cluster import installation, reads, writes
from kubectl_plugin.cluster.api_errors import explained_error
from kubectl_plugin.cluster.documents import side_by_side
from kubectl_plugin.cluster.session import Deadline, Invocation, TimedOut
from kubectl_plugin.commands.consent import (
    PlannedChange,
    all_namespaces_error,
    ask_once,
    asking_beside_a_driver,
    does_write,
    ends_as_written,
    printable,
)
from kubectl_plugin.commands.status import follow_up, print_results
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import ActingOptions, ChangeOptions, DryRun, StatusOptions, WaitingOptions
from kubectl_plugin.rollout import gitops
from kubectl_plugin.rollout.last_action import PAUSE_VERB, LastAction, action
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import status_at
from kubectl_plugin.rollout.wait import unfinished_result
from kubectl_plugin.terminal import as_line
from kubectl_plugin.wording import command, printed_name

LaterDetails: TypeAlias = Callable[[Sequence[JSONObject]], Awaitable[Sequence[tuple[str, ...]]]]
"""Called after the writes with the written objects; returns the lines to print under each result."""
_Object = TypeVar("_Object")
_Made = TypeVar("_Made")
DRY_RUN_SUFFIX: Final = {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}


@dataclass
class ChangeWriter:
    """Writes changes one by one. `several`: JSON is one List, as in kubectl, and YAML one document per object."""

    invocation: Invocation
    options: ActingOptions
    verb: str
    deadline: Deadline
    several: bool
    by: str | None = None
    later: LaterDetails | None = None
    changed: list[Snapshot] = field(default_factory=list)
    """Snapshots after the change, including those that needed none."""
    _pending: list[tuple[PlannedChange, JSONObject, str]] = field(default_factory=list)
    _documents: list[JSONObject] = field(default_factory=list)

    async def make(self, change: PlannedChange) -> None:
        """Raises CommandError and ApiError only if the change was not made."""
        snapshot, edit, options = change.snapshot, change.edit, self.options
        if not edit.operations:
            self._print_unchanged(change)
        elif options.print_patch:
            terminal = self.invocation.terminal
            terminal.say(
                _kubectl_patch(change, options.reason or "", terminal.cluster_flags, only_ascii=terminal.ascii)
            )
        elif options.dry_run is DryRun.CLIENT:
            notes = action_operations(snapshot.document, edit.operations, await self._action())
            self._print(change, with_operations(snapshot.document, (*edit.operations, *notes)))
        else:
            await self._write(change, dry_run=options.dry_run is DryRun.SERVER)

    async def add_details(self) -> None:
        """Adds the lines of `later` to the results that `finish` prints."""
        printed = self.invocation.output is None and not self.invocation.terminal.quiet
        made = [document for change, document, _ in self._pending if change.edit.operations]
        lines = iter(await self.later(made) if self.later is not None and made and printed else ())
        for index, (change, document, ending) in enumerate(self._pending):
            if change.edit.operations:
                change = with_fields(change, edit=replace(change.edit, details=next(lines, ())))
                self._pending[index] = change, document, ending

    def finish(self) -> ExitCode:
        """Prints what waits for all changes; must be called after errors too. Returns the exit code."""
        terminal = self.invocation.terminal
        for pending in self._pending:
            self._print_result(*pending)
        if self.several and self.invocation.output is Output.JSON:
            whole: JSONObject = {"apiVersion": "v1", "kind": "List", "items": [*self._documents]}
            terminal.say_document(whole, Output.JSON)
        terminal.flush()
        if terminal.lost:
            done = "done, but " if does_write(self.options) else ""
            terminal.fail(CommandError(f"{done}it could not be printed: {terminal.lost}"))
            return ExitCode.FAILED
        return ExitCode.DONE

    async def _write(self, change: PlannedChange, *, dry_run: bool) -> None:
        invocation, done = self.invocation, await self._action()
        async with self.deadline.enforced():
            document = await writes.write(
                invocation,
                change.snapshot,
                change.edit,
                done,
                dry_run=dry_run,
                field_manager=self.options.field_manager,
                recheck=change.recheck,
            )
        overruled, is_wanted = _overruled(change, document)
        if is_wanted:
            hints = () if dry_run else (command("status", change.snapshot.key),)
            raise CommandError(overruled, *hints, exit_code=ExitCode.OVERRULED)
        self._print(change, document)
        if overruled:
            invocation.terminal.warn(overruled)
        if dry_run:
            return
        self.changed.append(reads.with_document(change.snapshot, document))
        try:
            async with asyncio.timeout(reads.HURRY):
                _, absence = await side_by_side(
                    writes.record_event(invocation, self.changed[-1], change.edit.result, done),
                    installation.why_no_controller(invocation.session, invocation.terminal.now()),
                )
        except TimeoutError:
            return
        if absence is not None:
            invocation.terminal.warn(f"patched, but {absence}")

    async def _action(self) -> LastAction:
        session = self.invocation.session
        if self.by is None:
            self.by = await installation.who_am_i(session)
        return action(
            self.verb,
            by=self.by,
            now=self.invocation.terminal.now(),
            reason=self.options.reason,
            client=session.user_agent,
        )

    def _print_unchanged(self, change: PlannedChange) -> None:
        self.changed.append(change.snapshot)
        if self.options.print_patch:  # stdout is read by a shell
            self.invocation.terminal.note(f"{printed_name(change.snapshot.key.name)} {change.edit.result}: no patch")
        else:
            self._print(change, change.snapshot.document, suffix="")

    def _print(self, change: PlannedChange, document: JSONObject, suffix: str | None = None) -> None:
        ending = DRY_RUN_SUFFIX[self.options.dry_run] if suffix is None else suffix
        if self.later is None:
            self._print_result(change, document, ending)
        else:
            self._pending.append((change, document, ending))

    def _print_result(self, change: PlannedChange, document: JSONObject, ending: str) -> None:
        terminal, output = self.invocation.terminal, self.invocation.output
        if output is Output.NAME:
            terminal.say(printed_name(change.snapshot.key.name))
        elif output is Output.JSON and self.several:
            self._documents.append(document)
        elif output is not None:
            terminal.say(*(["---"] if self._documents else []))
            self._documents.append(document)
            terminal.say_document(document, output)
        else:
            terminal.say(f"{printed_name(change.snapshot.key.name)} {change.edit.result}{ending}")
            terminal.detail(*(f"  {printable(terminal, line)}" for line in change.edit.details))


def _overruled(change: PlannedChange, document: JSONObject) -> tuple[str, bool]:
    """What the server stored otherwise than it would be after the edit, and whether the edit asked for any of it.
    A manifest is not compared: what is stored of it depends on who else manages the fields."""
    if any(application.manifest for application in change.edit.applications):
        return "", False
    wanted, stored = (
        reads.with_document(change.snapshot, whole).daemonset
        for whole in (with_operations(change.snapshot.document, change.edit.operations), document)
    )
    rolling, other = wanted.rolling_update or RollingUpdate(), stored.rolling_update or RollingUpdate()
    found: dict[str, str] = {}
    if (was := rolling.partition or 0) != (now := other.partition or 0):
        found["partition"] = f"partition {now}, not {was}"
    if rolling.paused is not other.paused:
        found["paused"] = "paused" if other.paused else "not paused"
    if wanted.identity != stored.identity:
        found["template"] = "another template"
    if not found:
        return "", False
    touched = {part for operation in change.edit.operations for part in operation.path}
    driver = gitops.driver_of(document)
    by = f"{driver} drives it" if driver else "admission changed it"
    words = f"{change.snapshot.key.name}: the server stored {' and '.join(found.values())}; {by}"
    return words, not touched.isdisjoint(found)


def _kubectl_patch(change: PlannedChange, reason: str, flags: tuple[str, ...], *, only_ascii: bool) -> str:
    """Returns a kubectl command for the change, without resourceVersion and the last-action annotation. `flags` chose
    the cluster. The server refuses it if a map that it creates exists by then, or a container has another index."""
    key, document = change.snapshot.key, change.snapshot.document
    words = ["kubectl", *flags, "patch", DAEMONSETS.name, key.name, "-n", key.namespace, "--type=json", "-p"]
    operations = (*change.edit.operations, *cause_operations(document, change.edit.operations, reason))
    maps = [operation for operation in operations if isinstance(operation.value, dict)]
    absent = [one.path for one in maps if value_at(document, *one.path) is None]
    tests = (*(Operation(op="test", path=path) for path in absent), *_tests_of_names(document, operations))
    return shlex.join([*words, as_line(patch.encode(patch_of((*tests, *operations))), only_ascii=only_ascii)])


def _tests_of_names(document: JSONObject, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Tests for the names of changed list items, such as containers: JSON Patch (RFC 6902) knows only their index."""
    items = (operation.path[:end] for operation in operations for end in range(2, len(operation.path) + 1))
    for path in dict.fromkeys(items):
        name = value_at(document, *path, "name")
        if isinstance(value_at(document, *path[:-1]), list) and isinstance(name, str):
            yield Operation(op="test", path=(*path, "name"), value=name)


async def choose(
    invocation: Invocation, options: ChangeOptions, names: tuple[str, ...], parts: reads.Parts = reads.ALL
) -> tuple[Snapshot, ...]:
    """Returns at least one object, by default with its revisions, its pods and all nodes. Raises CommandError if none
    is found, and Refused for -A without --yes."""
    options.check_with(names)
    async with Deadline(invocation, options).enforced():
        found = await reads.snapshots(invocation, names, options, parts)
    note_failed_reads(invocation, found)
    if not found:
        where = "" if options.all_namespaces else f" in namespace {invocation.session.namespace}"
        raise CommandError(f"no Advanced DaemonSet was found{where}")
    if options.all_namespaces and ends_as_written(options) and not options.yes:
        raise all_namespaces_error(len(found))
    return found


def note_failed_reads(invocation: Invocation, found: Sequence[Snapshot]) -> None:
    for words in dict.fromkeys(unread.words for one in found for unread in one.unread if not unread.is_forbidden):
        invocation.terminal.note(f"some details are missing: {words}")


async def carry_out(
    invocation: Invocation,
    snapshots: Sequence[Snapshot],
    plan: Callable[[Snapshot], PlannedChange | Edit],
    options: ActingOptions,
    *,
    verb: str,
    by: str | None = None,
    later: LaterDetails | None = None,
) -> ExitCode:
    """Carries out the changes and prints their results; returns the highest exit code. Edits without operations are
    only printed. Each write is one JSON Patch, guarded by the resourceVersion, with the annotation
    `kruise-ds/last-action`; then an Event is created, and the controller's Lease read for a warning. Several objects
    share one prompt; neither a failure of one nor a closed stdout stops the others. `plan` may raise CommandError.
    `by`: the user name, if known; else the server is asked. With `later`, results are printed at the end. Raises
    CommandError and ApiError for a single object."""
    if options.print_patch and invocation.output is not None:
        raise UsageError("give -o or --print-patch, not both")
    invocation.terminal.ignore_broken_pipe()

    async def planned(snapshot: Snapshot) -> PlannedChange:
        made = plan(snapshot)
        change = PlannedChange(snapshot, made) if isinstance(made, Edit) else made
        return change if verb == PAUSE_VERB else asking_beside_a_driver(change)

    code, found = await for_each_object(invocation, snapshots, planned)
    changes = [change for _, change in found]
    for change in changes:
        _print_cautions(invocation, change)
    refusal = None
    try:
        changes = await ask_once(invocation, changes, options, several=len(snapshots) > 1)
    except CommandError as error:
        if does_write(options):
            raise
        refusal = error  # of a dry run, which shows the change all the same
    deadline = Deadline(invocation, options)
    writer = ChangeWriter(invocation, options, verb, deadline, several=len(snapshots) > 1, by=by, later=later)
    try:
        for change in changes:
            try:
                await writer.make(change)
            except (CommandError, ApiError) as error:
                if len(snapshots) == 1 and refusal is None:
                    raise
                code = max(code, print_failure(invocation, error))
        await writer.add_details()
    finally:
        printed = writer.finish()
    if refusal is not None:
        code = max(code, print_failure(invocation, refusal))
    return max(code, printed, await wait_if_asked(invocation, options, writer.changed))


async def for_each_object(
    invocation: Invocation, objects: Sequence[_Object], plan: Callable[[_Object], Awaitable[_Made]]
) -> tuple[ExitCode, list[tuple[_Object, _Made]]]:
    """What `plan` makes of each object. Of several, a failure is printed and its object left out; the exit code is
    the highest. Raises CommandError and ApiError for a single object."""
    code, made = ExitCode.DONE, list[tuple[_Object, _Made]]()
    for one in objects:
        try:
            made.append((one, await plan(one)))
        except (CommandError, ApiError) as error:
            if len(objects) == 1:
                raise
            code = max(code, print_failure(invocation, error))
    return code, made


def _print_cautions(invocation: Invocation, change: PlannedChange) -> None:
    """Printed without a prompt too: the change may still be interrupted or undone. Annotations are not reverted."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if any(operation.path[:2] != ("metadata", "annotations") for operation in change.edit.operations):
        foreign = gitops.caution_of(snapshot.key.name, snapshot.document, snapshot.owners)
        cautions = (*cautions, *([Caution(text=foreign)] if foreign else []))
    for caution in cautions:
        invocation.terminal.warn(printable(invocation.terminal, caution.text), *caution.hints)


def print_failure(invocation: Invocation, error: CommandError | ApiError) -> ExitCode:
    failure = error if isinstance(error, CommandError) else explained_error(error, invocation.session)
    invocation.terminal.fail(failure)
    return failure.exit_code


async def wait_if_asked(invocation: Invocation, options: ActingOptions, changed: Sequence[Snapshot]) -> ExitCode:
    """Waits for the rollout of this write, not for later changes. `changed`: the objects as written."""
    if not isinstance(options, WaitingOptions) or not options.wait or not changed:
        return ExitCode.DONE
    if invocation.output is not None:  # stdout already has the document
        invocation.terminal.quiet = True
        invocation = with_fields(invocation, output=None)
    deadline = Deadline(invocation, options)
    generations = {snapshot.key: snapshot.daemonset.generation for snapshot in changed}
    try:
        async with deadline.enforced():
            return await follow_up(invocation, StatusOptions(timeout=options.timeout), changed, deadline, generations)
    except TimedOut:  # perhaps the write alone took that long
        results = [
            unfinished_result(status_at(snapshot, StatusOptions().by), options.timeout) for snapshot in changed
        ]
        return print_results(invocation, results, [snapshot.key.namespace for snapshot in changed])
