"""`--wait`: waits for what the change sets going, not for what somebody else changes afterwards.

What all acting verbs share: which objects to change, the question, and one guarded write for each.

A verb reads snapshots (`choose`), makes an `EditOfOne` of each, which is pure, and has them carried out
(`change_writer`).
"""

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
from kubectl_plugin.commands.status_watch import follow_up, print_endings
from kubectl_plugin.errors import CommandError, ExitCode, UsageError
from kubectl_plugin.options import ActingOptions, ChangeOptions, DryRun, StatusOptions, WaitingOptions
from kubectl_plugin.rollout import gitops
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import status_at
from kubectl_plugin.rollout.wait import unfinished_ending
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.units import seconds_of


def check_wait_flags(acting: ActingOptions) -> None:
    """Raises UsageError for --timeout or --wait where there is nothing to wait for."""
    if not isinstance(acting, WaitingOptions):
        return
    if not acting.wait and seconds_of(acting.timeout, "--timeout"):
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")
    if acting.wait and (acting.dry_run is not DryRun.NONE or acting.print_patch):
        raise UsageError("--wait waits for what --dry-run and --print-patch do not do")


def deadline_of(invocation: Invocation, acting: ActingOptions) -> Deadline:
    """The deadline of the whole command, including what comes before the write. Raises UsageError."""
    check_wait_flags(acting)
    return Deadline(invocation, acting.timeout if isinstance(acting, WaitingOptions) else "0")


async def wait_if_asked(invocation: Invocation, acting: ActingOptions, changed: Sequence[Snapshot]) -> int:
    """Returns 0 at once without --wait. `changed`: the objects as the server returned them after the change."""
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
        endings = [unfinished_ending(status_at(one, StatusOptions().by), acting.timeout) for one in changed]
        return print_endings(invocation, endings, [one.key.namespace for one in changed])


HINT = "add --yes if that is what you want"


async def choose(
    invocation: Invocation,
    asked: ChangeOptions,
    names: tuple[str, ...],
    *,
    within: float | None = None,
    alone: bool = False,
) -> tuple[Snapshot, ...]:
    """The objects to change, at least one. `within`: seconds for reading anything else; after that it is left out.
    `alone`: nothing else is read.

    Raises CommandError where nothing was found, and with exit code 6 for `-A` without `--yes`.
    """
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
    """The error (exit code 6) for a verb that would change `count` objects in all namespaces without being sure."""
    words = f"-A would change {counted(count, 'DaemonSet')} in all namespaces"
    return CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED)


def note_failed_reads(invocation: Invocation, found: Sequence[Snapshot]) -> None:
    """Print what could not be read, except for want of rights, because the verb then says less."""
    for words in dict.fromkeys(unread.words for one in found for unread in one.unread if not unread.is_forbidden):
        invocation.terminal.note(f"some details are missing: {words}")


def will_ask(invocation: Invocation, acting: ActingOptions) -> bool:
    """Whether a person is asked before the write: what the question says need not be printed again afterwards."""
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
    """Carry out the changes, from their cautions to the last line; returns the highest exit code.

    An edit without operations is printed but not written. Operations may only touch the spec: annotations may change
    in the meantime, and those of the verb are added here. For several objects there is one question, and a failure at
    one does not stop the others; nor does a reader of stdout that goes away.

    `plan` may raise CommandError for an object that it refuses. `deadline`: for the writes and what belongs to them;
    `--timeout` of `acting` unless given. `by`: our user name, if it is known. With `told_later` the results are
    printed after the last write. For a single object raises CommandError and ApiError.
    """
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
    """Print the error of one object among several; returns its exit code."""
    failure = error if isinstance(error, CommandError) else explained_error(error, invocation.session)
    invocation.terminal.fail(failure)
    return failure.exit_code


def _print_cautions(invocation: Invocation, change: EditOfOne) -> None:
    """Print what to know before the change. Also where no question is asked: the change may still be interrupted or
    undone."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if change.edit.operations:
        foreign = gitops.caution_of(snapshot.key.name, snapshot.document, snapshot.owners)
        cautions = (*cautions, *([Caution(text=foreign)] if foreign else []))
    for caution in cautions:
        invocation.terminal.warn(printable(invocation.terminal, caution.text), *caution.hints)


def ask_for_consent(terminal: Terminal, what: str, question: str | None, *, yes: bool, hint: str = HINT) -> bool:
    """Ask; returns whether a person said yes, False where `yes` or KRUISE_DS_PROMPT=never makes the question
    unnecessary. Without a `question`, whoever could be asked agrees.

    Raises CommandError with exit code 6 for a no, and where nobody can be asked about `what`.
    """
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
    """As `ask_for_consent`, but nothing is asked where nothing is written. `judge` checks again after a yes."""
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
    """The changes to carry out. Lines that the question has shown are not printed again."""
    if any(change.edit.operations for change in changes):
        lines = (line for change in changes for line in _question_lines(change))
        count = counted(len(changes), "DaemonSet")
        if await ask_before_write(invocation, count, question_text(f"{count}:", lines), acting):
            return [with_fields(change, edit=replace(change.edit, details=())) for change in changes]
    return [*changes]


def _question_lines(change: EditOfOne) -> Iterator[str]:
    """The lines about one change in a question for several: its result, and what its own question would say."""
    yield f"{change.snapshot.key}  {change.edit.result}"
    if change.edit.operations:
        *told, _ = (change.ask or "").split("\n")
        yield from (f"  {line}" for line in (*told, *change.edit.details))
