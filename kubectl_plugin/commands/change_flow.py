"""The course of a verb that writes: it chooses objects, asks once, writes each of them, and waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as with_fields

from controller.kube.errors import ApiError
from kubectl_plugin.changes.edit import Caution, path_segments
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.api_errors import explained_error
from kubectl_plugin.cluster.session import Deadline, Invocation, TimedOut
from kubectl_plugin.commands.change_writer import ChangeWriter, LaterDetails
from kubectl_plugin.commands.consent import (
    PlannedChange,
    all_namespaces_error,
    ask_once,
    asking_beside_a_driver,
    does_write,
    ends_as_written,
    printable,
)
from kubectl_plugin.commands.rollout_watch import follow_up, print_results
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.options import ActingOptions, ChangeOptions, StatusOptions, WaitingOptions
from kubectl_plugin.rollout import gitops
from kubectl_plugin.rollout.gitops import PAUSE
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import status_at
from kubectl_plugin.rollout.wait import unfinished_result


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
        raise all_namespaces_error(len(found))
    return found


def note_failed_reads(invocation: Invocation, found: Sequence[Snapshot]) -> None:
    for words in dict.fromkeys(unread.words for one in found for unread in one.unread if not unread.is_forbidden):
        invocation.terminal.note(f"some details are missing: {words}")


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
    changes = [change if verb == PAUSE else asking_beside_a_driver(change) for change in changes]
    for change in changes:
        _print_cautions(invocation, change)
    refusal = None
    try:
        changes = await ask_once(invocation, changes, acting, several=len(snapshots) > 1)
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


def _print_cautions(invocation: Invocation, change: PlannedChange) -> None:
    """Printed without a prompt too: the change may still be interrupted or undone. Annotations are not reverted."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if any(path_segments(operation)[:2] != ("metadata", "annotations") for operation in change.edit.operations):
        foreign = gitops.caution_of(snapshot.key.name, snapshot.document, snapshot.owners)
        cautions = (*cautions, *([Caution(text=foreign)] if foreign else []))
    for caution in cautions:
        invocation.terminal.warn(printable(invocation.terminal, caution.text), *caution.hints)


def print_failure(invocation: Invocation, error: CommandError | ApiError) -> int:
    failure = error if isinstance(error, CommandError) else explained_error(error, invocation.session)
    invocation.terminal.fail(failure)
    return failure.exit_code


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
    generations = {snapshot.key: snapshot.daemonset.generation for snapshot in changed}
    try:
        async with deadline.enforced():
            return await follow_up(invocation, StatusOptions(timeout=acting.timeout), changed, deadline, generations)
    except TimedOut:  # perhaps the write alone took that long
        results = [unfinished_result(status_at(snapshot, StatusOptions().by), acting.timeout) for snapshot in changed]
        return print_results(invocation, results, [snapshot.key.namespace for snapshot in changed])
