"""What the verbs that write share: choosing objects, the prompt, and one guarded write per object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as with_fields

from msgspec.structs import replace

from controller.api.formats import counted
from controller.kube.errors import ApiError
from kubectl_plugin.changes.edit import Caution
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.api_errors import explained_error
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.cluster.writes import Judge
from kubectl_plugin.commands.change_writer import (
    ChangeWriter,
    EditOfOne,
    ToldLater,
    does_write,
    ends_as_written,
    printable,
    question_text,
)
from kubectl_plugin.commands.deadline import Deadline, TimedOut
from kubectl_plugin.commands.status_watch import follow_up, print_results
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.options import ActingOptions, ChangeOptions, DryRun, StatusOptions, WaitingOptions
from kubectl_plugin.rollout import gitops
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import status_at
from kubectl_plugin.rollout.wait import unfinished_result
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.units import seconds_of


def check_wait_flags(acting: ActingOptions) -> None:
    """Raises UsageError for --timeout or --wait if there is nothing to wait for."""
    if not isinstance(acting, WaitingOptions):
        return
    if not acting.wait and seconds_of(acting.timeout, "--timeout"):
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")
    if acting.wait and (acting.dry_run is not DryRun.NONE or acting.print_patch):
        raise UsageError("--wait waits for what --dry-run and --print-patch do not do")


def deadline_of(invocation: Invocation, acting: ActingOptions) -> Deadline:
    """The deadline of the whole command, including reads before the write. Raises UsageError."""
    check_wait_flags(acting)
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
    invocation: Invocation,
    asked: ChangeOptions,
    names: tuple[str, ...],
    *,
    within: float | None = None,
    alone: bool = False,
) -> tuple[Snapshot, ...]:
    """Returns at least one object. `within`: seconds after which other reads are skipped; `alone`: skips them all.
    Raises CommandError if none is found, and with exit code 6 for -A without --yes."""
    asked.check_with(names)
    async with deadline_of(invocation, asked).enforced():
        found = await reads.snapshots(
            invocation,
            names,
            asked,
            everything=asked.everything,
            nodes=not alone,
            pods=not alone,
            revisions=not alone,
            within=within,
        )
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
    plan: Callable[[Snapshot], EditOfOne],
    acting: ActingOptions,
    *,
    verb: str,
    deadline: Deadline | None = None,
    by: str | None = None,
    told_later: ToldLater | None = None,
) -> int:
    """Carries out the changes and prints their results; returns the highest exit code. Edits without operations are
    only printed. Operations may only touch the spec: annotations may change meanwhile, and the verb's are added here.
    Several objects share one prompt; neither a failure of one nor a closed stdout stops the others. `plan` may raise
    CommandError. `deadline`: for the writes, by default `--timeout` of `acting`. `by`: the user name, if known. With
    `told_later`, results are printed at the end. Raises CommandError and ApiError for a single object."""
    if acting.print_patch and invocation.output is not None:
        raise UsageError("give -o or --print-patch, not both")
    invocation.terminal.outlive_the_reader()
    code, changes = _plan_each(invocation, snapshots, plan)
    for change in changes:
        _print_cautions(invocation, change)
    refusal = None
    try:
        if len(snapshots) > 1:
            changes = await _ask_once_for_all(invocation, changes, acting)
        elif changes[0].ask is not None and changes[0].edit.operations:
            await ask_before_write(invocation, snapshots[0].key.name, changes[0].ask, acting, changes[0].judge)
    except CommandError as error:
        if does_write(acting):
            raise
        refusal = error  # of a dry run, which shows the change all the same
    deadline = deadline or deadline_of(invocation, acting)
    writer = ChangeWriter(
        invocation, acting, verb, deadline, several=len(snapshots) > 1, by=by, told_later=told_later
    )
    try:
        for change in changes:
            try:
                await writer.carry_out(change)
            except (CommandError, ApiError) as error:
                if len(snapshots) == 1 and refusal is None:
                    raise
                code = max(code, print_failure(invocation, error))
        await writer.tell()
    finally:
        printed = writer.finish()
    if refusal is not None:
        code = max(code, print_failure(invocation, refusal))
    return max(code, printed, await wait_if_asked(invocation, acting, writer.changed))


def _plan_each(
    invocation: Invocation, snapshots: Sequence[Snapshot], plan: Callable[[Snapshot], EditOfOne]
) -> tuple[int, list[EditOfOne]]:
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


def _print_cautions(invocation: Invocation, change: EditOfOne) -> None:
    """Printed without a prompt too: the change may still be interrupted or undone."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if change.edit.operations:
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
    invocation: Invocation, what: str, question: str, acting: ActingOptions, judge: Judge | None = None
) -> bool:
    """Like `ask_for_consent`, but does not prompt if nothing is written. `judge` checks again after consent."""
    terminal, writes = invocation.terminal, does_write(acting)
    if not ends_as_written(acting):
        return False
    asked = ask_for_consent(terminal, what, printable(terminal, question) if writes else None, yes=acting.yes)
    if not (asked and writes):
        return False
    if judge is not None:
        await judge()
    return True


async def _ask_once_for_all(
    invocation: Invocation, changes: Sequence[EditOfOne], acting: ActingOptions
) -> list[EditOfOne]:
    if any(change.edit.operations for change in changes):
        lines = (line for change in changes for line in _question_lines(change))
        count = counted(len(changes), "DaemonSet")
        if await ask_before_write(invocation, count, question_text(f"{count}:", lines), acting):
            return [with_fields(change, edit=replace(change.edit, details=())) for change in changes]
    return [*changes]


def _question_lines(change: EditOfOne) -> Iterator[str]:
    yield f"{change.snapshot.key}  {change.edit.result}"
    if change.edit.operations:
        *told, _ = (change.ask or "").split("\n")
        yield from (f"  {line}" for line in (*told, *change.edit.details))
