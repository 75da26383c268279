"""What the verbs that write share: choosing objects, the prompt, and one guarded write per object."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Final, TypeAlias

from msgspec.structs import replace

from controller.api import patch
from controller.api.daemonset import RollingUpdate
from controller.api.formats import counted
from controller.api.objects import JSONObject, value_at
from controller.kube.errors import ApiError
from controller.kube.requests import DAEMONSETS
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Edit,
    action_operations,
    cause_operations,
    path_segments,
    with_operations,
)
from kubectl_plugin.cluster import installation, reads, writes
from kubectl_plugin.cluster.api_errors import explained_error
from kubectl_plugin.cluster.documents import side_by_side
from kubectl_plugin.cluster.session import Deadline, Invocation, TimedOut
from kubectl_plugin.cluster.writes import Recheck
from kubectl_plugin.commands.rollout_watch import follow_up, print_results
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.flags import Output
from kubectl_plugin.options import ActingOptions, ChangeOptions, DryRun, StatusOptions, WaitingOptions
from kubectl_plugin.rollout import gitops
from kubectl_plugin.rollout.gitops import PAUSE, LastAction, action, pause_of, paused_words
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import status_at
from kubectl_plugin.rollout.wait import unfinished_result
from kubectl_plugin.terminal import Terminal, as_line, one_line
from kubectl_plugin.wording import command

LaterDetails: TypeAlias = Callable[[Sequence[JSONObject]], Awaitable[Sequence[tuple[str, ...]]]]
"""Called after the writes with the written objects; returns the lines to print under each result."""
DRY_RUN_SUFFIX: Final = {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}


@dataclass(frozen=True)
class PlannedChange:
    """An edit of one object, and how it is confirmed."""

    snapshot: Snapshot
    edit: Edit
    ask: str | None = None
    """The question, with an optional preview on the lines before; None: no prompt."""
    recheck: writes.Recheck | None = None
    """Called after consent and before each retry of the write; raises CommandError to stop the change."""


def with_question(change: PlannedChange, headline: str) -> PlannedChange:
    """Moves the details from under the result into the prompt."""
    edit = change.edit
    if not edit.operations:
        return change
    return with_fields(change, edit=replace(edit, details=()), ask=question_text(headline, edit.details))


def question_text(headline: str, lines: Iterable[str]) -> str:
    return "\n".join((headline, *(f"  {one_line(line)}" for line in lines), "Continue?"))


@dataclass
class ChangeWriter:
    """Writes changes one by one. `several`: JSON is one List, as in kubectl, and YAML one document per object."""

    invocation: Invocation
    acting: ActingOptions
    verb: str
    deadline: Deadline
    several: bool
    by: str | None = None
    later: LaterDetails | None = None
    changed: list[Snapshot] = field(default_factory=list)
    """Snapshots after the change, including those that needed none."""
    _pending: list[tuple[PlannedChange, JSONObject, str]] = field(default_factory=list)
    _documents: list[JSONObject] = field(default_factory=list)

    async def carry_out(self, change: PlannedChange) -> None:
        """Raises CommandError and ApiError only if the change was not made."""
        snapshot, edit, acting = change.snapshot, change.edit, self.acting
        if not edit.operations:
            self._print_unchanged(change)
        elif acting.print_patch:
            terminal = self.invocation.terminal
            terminal.say(
                _kubectl_patch(change, acting.reason or "", terminal.cluster_flags, only_ascii=terminal.ascii)
            )
        elif acting.dry_run is DryRun.CLIENT:
            notes = action_operations(snapshot.document, edit.operations, await self._action())
            self._print(change, with_operations(snapshot.document, (*edit.operations, *notes)))
        else:
            await self._write(change, dry_run=acting.dry_run is DryRun.SERVER)

    async def add_details(self) -> None:
        """Adds the lines of `later` to the results that `finish` prints."""
        printed = self.invocation.output is None and not self.invocation.terminal.quiet
        made = [document for change, document, _ in self._pending if change.edit.operations]
        lines = iter(await self.later(made) if self.later is not None and made and printed else ())
        for index, (change, document, ending) in enumerate(self._pending):
            if change.edit.operations:
                change = with_fields(change, edit=replace(change.edit, details=next(lines, ())))
                self._pending[index] = change, document, ending

    def finish(self) -> int:
        """Prints what waits for all changes; must be called after errors too. Returns the exit code."""
        terminal = self.invocation.terminal
        for one in self._pending:
            self._print_result(*one)
        if self.several and self.invocation.output is Output.JSON:
            whole: JSONObject = {"apiVersion": "v1", "kind": "List", "items": [*self._documents]}
            terminal.say_document(whole, Output.JSON)
        terminal.flush()
        if terminal.lost:
            done = "done, but " if does_write(self.acting) else ""
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
                field_manager=self.acting.field_manager,
                recheck=change.recheck,
            )
        overruled, asked = _overruled(change, document)
        if asked:
            hints = () if dry_run else (command("status", change.snapshot.key),)
            raise CommandError(overruled, hints=hints, exit_code=ExitCode.OVERRULED)
        self._print(change, document)
        if overruled:
            invocation.terminal.warn(overruled)
        if dry_run:
            return
        self.changed.append(reads.with_document(change.snapshot, document))
        try:
            async with asyncio.timeout(reads.HURRY):
                _, absence = await side_by_side(
                    writes.record_event(invocation.session, self.changed[-1], change.edit.result, done),
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
            reason=self.acting.reason,
            client=session.user_agent,
        )

    def _print_unchanged(self, change: PlannedChange) -> None:
        self.changed.append(change.snapshot)
        if self.acting.print_patch:  # stdout is read by a shell
            self.invocation.terminal.note(f"{_printed_name(change)} {change.edit.result}: no patch")
        else:
            self._print(change, change.snapshot.document, suffix="")

    def _print(self, change: PlannedChange, document: JSONObject, suffix: str | None = None) -> None:
        ending = DRY_RUN_SUFFIX[self.acting.dry_run] if suffix is None else suffix
        if self.later is None:
            self._print_result(change, document, ending)
        else:
            self._pending.append((change, document, ending))

    def _print_result(self, change: PlannedChange, document: JSONObject, ending: str) -> None:
        terminal, output = self.invocation.terminal, self.invocation.output
        if output is Output.NAME:
            terminal.say(_printed_name(change))
        elif output is Output.JSON and self.several:
            self._documents.append(document)
        elif output is not None:
            terminal.say(*(["---"] if self._documents else []))
            self._documents.append(document)
            terminal.say_document(document, output)
        else:
            terminal.say(f"{_printed_name(change)} {change.edit.result}{ending}")
            terminal.detail(*(f"  {printable(terminal, line)}" for line in change.edit.details))


def _overruled(change: PlannedChange, document: JSONObject) -> tuple[str, bool]:
    """What the server stored otherwise than it would be after the edit, and whether the edit asked for any of it.
    A manifest is not compared: what is stored of it depends on who else manages the fields."""
    if any(one.manifest for one in change.edit.applications):
        return "", False
    wanted, stored = (
        reads.with_document(change.snapshot, one).daemonset
        for one in (with_operations(change.snapshot.document, change.edit.operations), document)
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
    touched = {part for one in change.edit.operations for part in path_segments(one)}
    driver = gitops.driver_of(document)
    by = f"{driver} drives it" if driver else "admission changed it"
    words = f"{change.snapshot.key.name}: the server stored {' and '.join(found.values())}; {by}"
    return words, not touched.isdisjoint(found)


def does_write(acting: ActingOptions) -> bool:
    return acting.dry_run is DryRun.NONE and not acting.print_patch


def ends_as_written(acting: ActingOptions) -> bool:
    """Whether the server makes or dry-runs the change, so that the command ends as the write would."""
    return acting.dry_run is not DryRun.CLIENT and not acting.print_patch


def printable(terminal: Terminal, text: str) -> str:
    """The ellipsis is the only non-ASCII character of an edit."""
    return text.replace("…", "...") if terminal.ascii else text


def _printed_name(change: PlannedChange) -> str:
    return f"daemonset.apps.kruise.io/{change.snapshot.key.name}"


def _kubectl_patch(change: PlannedChange, reason: str, flags: tuple[str, ...], *, only_ascii: bool) -> str:
    """Returns a kubectl command for the change, without resourceVersion and the last-action annotation. `flags` chose
    the cluster. The server refuses it if a map that it creates exists by then, or a container has another index."""
    key, document = change.snapshot.key, change.snapshot.document
    words = ["kubectl", *flags, "patch", DAEMONSETS.name, key.name, "-n", key.namespace, "--type=json", "-p"]
    operations = (*change.edit.operations, *cause_operations(document, change.edit.operations, reason))
    maps = [one for one in operations if isinstance(one.get("value"), dict)]
    absent = [one["path"] for one in maps if value_at(document, *path_segments(one)) is None]
    tests: list[JSONObject] = [{"op": "test", "path": path, "value": None} for path in absent]
    tests += _tests_of_names(document, operations)
    return shlex.join([*words, as_line(patch.encode((*tests, *operations)), only_ascii=only_ascii)])


def _tests_of_names(document: JSONObject, operations: Iterable[JSONObject]) -> Iterator[JSONObject]:
    """Tests for the names of changed list items, such as containers: JSON Patch (RFC 6902) knows only their index."""
    paths = map(path_segments, operations)
    items = (path[:end] for path in paths for end in range(2, len(path) + 1))
    for path in dict.fromkeys(items):
        name = value_at(document, *path, "name")
        if isinstance(value_at(document, *path[:-1]), list) and isinstance(name, str):
            yield {"op": "test", "path": patch.pointer(*path, "name"), "value": name}


async def guard_of_pauses(
    invocation: Invocation,
    acting: ActingOptions,
    snapshots: Iterable[Snapshot],
    *,
    by_flag: bool,
    what: str,
    instead: str,
) -> Callable[[PlannedChange], PlannedChange]:
    """Returns a function that raises CommandError (exit code 6) for a change that may not lift a pause, else returns
    it. `by_flag`: a flag allows it. `what` would lift the pause, `instead` keeps it."""
    asks = invocation.terminal.may_ask and not acting.yes  # a dry run is not asked, but ends as after a yes
    allowed = by_flag or asks or not ends_as_written(acting)
    asks_who = not allowed and any(one.daemonset.paused for one in snapshots)
    me = await installation.who_am_i(invocation.session) if asks_who else ""

    def checked(change: PlannedChange) -> PlannedChange:
        snapshot = change.snapshot
        words, pause = paused_words(snapshot), pause_of(snapshot)
        mine = pause is not None and me != "" and pause.by == me
        stays = value_at(with_operations(snapshot.document, change.edit.operations), *ROLLING, "paused") is True
        if allowed or mine or not words or stays:
            return change
        raise CommandError(
            f"{snapshot.key.name} is {words}; {what} would lift that",
            hints=(f"--lift-pause lifts it all the same; with {instead} nothing moves before resume",),
            exit_code=ExitCode.REFUSED,
        )

    return checked


def deadline_of(invocation: Invocation, acting: ActingOptions) -> Deadline:
    """The deadline of the whole command, including reads before the write. Raises UsageError."""
    return Deadline(invocation, acting.timeout if isinstance(acting, WaitingOptions) else "0")


async def wait_if_asked(invocation: Invocation, acting: ActingOptions, changed: Sequence[Snapshot]) -> int:
    """Waits for the rollout of this write, not for later changes. `changed`: the objects as written."""
    if not isinstance(acting, WaitingOptions) or not acting.wait or not changed:
        return ExitCode.DONE
    if invocation.output is not None:  # stdout already has the document
        invocation.terminal.quiet = True
        invocation = with_fields(invocation, output=None)
    deadline = deadline_of(invocation, acting)
    generations = {one.key: one.daemonset.generation for one in changed}
    try:
        async with deadline.enforced():
            return await follow_up(invocation, StatusOptions(timeout=acting.timeout), changed, deadline, generations)
    except TimedOut:  # perhaps the write alone took that long
        results = [unfinished_result(status_at(one, StatusOptions().by), acting.timeout) for one in changed]
        return print_results(invocation, results, [one.key.namespace for one in changed])


HINT = "add --yes if that is what you want"


async def choose(
    invocation: Invocation, asked: ChangeOptions, names: tuple[str, ...], parts: reads.Parts = reads.ALL
) -> tuple[Snapshot, ...]:
    """Returns at least one object. Raises CommandError if none is found, and (exit code 6) for -A without --yes."""
    asked.check_with(names)
    async with deadline_of(invocation, asked).enforced():
        found = await reads.snapshots(invocation, names, asked, parts)
    note_failed_reads(invocation, found)
    if not found:
        where = "" if asked.all_namespaces else f" in namespace {invocation.session.namespace}"
        raise CommandError(f"no Advanced DaemonSet was found{where}")
    if asked.all_namespaces and ends_as_written(asked) and not asked.yes:
        raise all_namespaces_error(len(found), HINT)
    return found


def all_namespaces_error(count: int, hint: str) -> CommandError:
    words = f"-A would change {counted(count, 'DaemonSet')} in all namespaces"
    return CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED)


def note_failed_reads(invocation: Invocation, found: Sequence[Snapshot]) -> None:
    for words in dict.fromkeys(unread.words for one in found for unread in one.unread if not unread.is_forbidden):
        invocation.terminal.note(f"some details are missing: {words}")


def will_ask(invocation: Invocation, acting: ActingOptions) -> bool:
    """Whether the user is prompted before the write; lines of the prompt need not be printed again."""
    return invocation.terminal.may_ask and does_write(acting) and not acting.yes


async def carry_out(
    invocation: Invocation,
    snapshots: Sequence[Snapshot],
    plan: Callable[[Snapshot], PlannedChange],
    acting: ActingOptions,
    *,
    verb: str,
    deadline: Deadline | None = None,
    by: str | None = None,
    later: LaterDetails | None = None,
) -> int:
    """Carries out the changes and prints their results; returns the highest exit code. Edits without operations are
    only printed. The verb's own annotations are added here; edits of others are refused if any changed meanwhile.
    Several objects share one prompt; neither a failure of one nor a closed stdout stops the others. `plan` may raise
    CommandError. `deadline`: for the writes, by default `--timeout` of `acting`. `by`: the user name, if known. With
    `later`, results are printed at the end. Raises CommandError and ApiError for a single object."""
    if acting.print_patch and invocation.output is not None:
        raise UsageError("give -o or --print-patch, not both")
    invocation.terminal.ignore_broken_pipe()
    code, changes = _plan_each(invocation, snapshots, plan)
    changes = [one if verb == PAUSE else _asking_beside_a_driver(one) for one in changes]
    for change in changes:
        _print_cautions(invocation, change)
    refusal = None
    try:
        if len(snapshots) > 1:
            changes = await _ask_once_for_all(invocation, changes, acting)
        elif changes[0].ask is not None and changes[0].edit.operations:
            await ask_before_write(invocation, snapshots[0].key.name, changes[0].ask, acting, changes[0].recheck)
    except CommandError as error:
        if does_write(acting):
            raise
        refusal = error  # of a dry run, which shows the change all the same
    deadline = deadline or deadline_of(invocation, acting)
    writer = ChangeWriter(invocation, acting, verb, deadline, several=len(snapshots) > 1, by=by, later=later)
    try:
        for change in changes:
            try:
                await writer.carry_out(change)
            except (CommandError, ApiError) as error:
                if len(snapshots) == 1 and refusal is None:
                    raise
                code = max(code, print_failure(invocation, error))
        await writer.add_details()
    finally:
        printed = writer.finish()
    if refusal is not None:
        code = max(code, print_failure(invocation, refusal))
    return max(code, printed, await wait_if_asked(invocation, acting, writer.changed))


def _plan_each(
    invocation: Invocation, snapshots: Sequence[Snapshot], plan: Callable[[Snapshot], PlannedChange]
) -> tuple[int, list[PlannedChange]]:
    code, changes = 0, []
    for snapshot in snapshots:
        try:
            changes.append(plan(snapshot))
        except CommandError as error:
            if len(snapshots) == 1:
                raise
            code = max(code, print_failure(invocation, error))
    return code, changes


def print_failure(invocation: Invocation, error: CommandError | ApiError) -> int:
    failure = error if isinstance(error, CommandError) else explained_error(error, invocation.session)
    invocation.terminal.fail(failure)
    return failure.exit_code


def _asking_beside_a_driver(change: PlannedChange) -> PlannedChange:
    """Prompts, as the change bypasses the Rollout that drives the object; `pause` is urgent and does not."""
    driver = gitops.driver_of(change.snapshot.document)
    if driver is None or change.ask is not None or not change.edit.operations:
        return change
    return with_fields(change, ask=f"This bypasses {driver}.\nContinue?")


def _print_cautions(invocation: Invocation, change: PlannedChange) -> None:
    """Printed without a prompt too: the change may still be interrupted or undone. Annotations are not reverted."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if any(path_segments(one)[:2] != ("metadata", "annotations") for one in change.edit.operations):
        foreign = gitops.caution_of(snapshot.key.name, snapshot.document, snapshot.owners)
        cautions = (*cautions, *([Caution(text=foreign)] if foreign else []))
    for caution in cautions:
        invocation.terminal.warn(printable(invocation.terminal, caution.text), *caution.hints)


def ask_for_consent(terminal: Terminal, what: str, question: str | None, *, yes: bool, hint: str = HINT) -> bool:
    """Returns True after a yes, False if `yes` or KRUISE_DS_PROMPT=never skips the prompt. Without a `question`,
    consent is assumed on a terminal. Raises CommandError (exit code 6) after a no, or without a terminal."""
    if yes or terminal.never_asks:
        return False
    if not terminal.may_ask:
        words = f"{what} would be changed, and there is no terminal to ask"
        raise CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED)
    if question is not None and not terminal.ask(question):
        raise CommandError("nothing was changed", exit_code=ExitCode.REFUSED, prefix="")
    return True


async def ask_before_write(
    invocation: Invocation, what: str, question: str, acting: ActingOptions, recheck: Recheck | None = None
) -> bool:
    """Like `ask_for_consent`, but does not prompt if nothing is written. `recheck` checks again after consent."""
    terminal, writes = invocation.terminal, does_write(acting)
    if not ends_as_written(acting):
        return False
    asked = ask_for_consent(terminal, what, printable(terminal, question) if writes else None, yes=acting.yes)
    if not (asked and writes):
        return False
    if recheck is not None:
        await recheck()
    return True


async def _ask_once_for_all(
    invocation: Invocation, changes: Sequence[PlannedChange], acting: ActingOptions
) -> list[PlannedChange]:
    if any(change.edit.operations for change in changes):
        lines = (line for change in changes for line in _question_lines(change))
        count = counted(len(changes), "DaemonSet")
        if await ask_before_write(invocation, count, question_text(f"{count}:", lines), acting):
            return [with_fields(change, edit=replace(change.edit, details=())) for change in changes]
    return [*changes]


def _question_lines(change: PlannedChange) -> Iterator[str]:
    yield f"{change.snapshot.key}  {change.edit.result}"
    if change.edit.operations:
        *preview, _ = (change.ask or "").split("\n")
        yield from (f"  {line}" for line in (*preview, *change.edit.details))
