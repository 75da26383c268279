"""What all acting verbs share: which objects, the question, and one guarded write each.

A verb reads snapshots (`choose`), makes an `EditOfOne` of each, which is pure, and has them carried out
(`carrying_out`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace as with_fields

from msgspec.structs import replace

from controller.kube.errors import ApiError
from kubectl_plugin.change_options import Acting, ChangeOptions
from kubectl_plugin.cluster import reads
from kubectl_plugin.cluster.explain import explained
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.cluster.writing import Judge
from kubectl_plugin.edits.edit import Caution
from kubectl_plugin.failures import CommandError, ExitCode, UsageError
from kubectl_plugin.report import gitops
from kubectl_plugin.report.counts_in_words import counted
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.terminal import Terminal
from kubectl_plugin.verbs import waiting
from kubectl_plugin.verbs.carrying_out import ChangeWriter, EditOfOne, legible, question, writes
from kubectl_plugin.verbs.deadline import Deadline

HINT = "add --yes if that is what you want"


async def choose(
    invocation: Invocation, asked: ChangeOptions, names: tuple[str, ...], *, within: float | None = None
) -> tuple[Snapshot, ...]:
    """The objects, at least one. `within`: seconds for whatever else is read, which is done without then.

    Raises CommandError: (2) when nothing was chosen, (6) for `-A` without `--yes`.
    """
    asked.check_with(names)
    async with waiting.deadline_of(invocation, asked).kept():
        found = await reads.snapshots(invocation, names, asked, everything=asked.everything, within=within)
    tell_failures(invocation, found)
    if not found:
        where = "" if asked.all_namespaces else f" in namespace {invocation.session.namespace}"
        raise CommandError(f"no Advanced DaemonSet was found{where}")
    if asked.all_namespaces and writes(asked) and not asked.yes:
        raise everywhere(len(found), HINT)
    return found


def everywhere(count: int, hint: str) -> CommandError:
    """(6), for what would change `count` of them in all namespaces."""
    words = f"-A would change {counted(count, 'DaemonSet')} in all namespaces"
    return CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED)


def tell_failures(invocation: Invocation, found: Sequence[Snapshot]) -> None:
    """What could not be read though one may: less can be said without it."""
    for words in dict.fromkeys(unread.words for one in found for unread in one.unread if not unread.is_forbidden):
        invocation.terminal.note(f"less can be said: {words}")


def will_ask(invocation: Invocation, acting: Acting) -> bool:
    """Whether a change with a question is really asked for: what the question tells need not be told again after."""
    return invocation.terminal.may_ask and writes(acting) and not acting.yes


async def carry_out(
    invocation: Invocation,
    snapshots: Sequence[Snapshot],
    plan: Callable[[Snapshot], EditOfOne],
    acting: Acting,
    *,
    verb: str,
    deadline: Deadline | None = None,
) -> int:
    """The changes, from their cautions to the last line; returns the highest of the exit codes.

    An edit without operations is told and not written. Its operations must keep to the spec: annotations may change
    meanwhile, and those of the verb itself are added here. Of several objects there is one question for all, and what
    fails at one does not stop the others; nor does a reader that goes away. `plan` may raise CommandError for an
    object that it refuses. `deadline`: of the writes and what belongs to them, `--timeout` of `acting` unless given.
    Raises CommandError and ApiError for a single one.
    """
    if acting.print_patch and invocation.output is not None:
        raise UsageError("give -o or --print-patch, not both")
    invocation.terminal.outlive_the_reader()
    code, changes = (0, [plan(snapshots[0])]) if len(snapshots) == 1 else _planned(invocation, snapshots, plan)
    for change in changes:
        _caution(invocation, change)
    if len(snapshots) > 1:
        changes = await _agreed_to_all(invocation, changes, acting)
    elif changes[0].ask is not None and changes[0].edit.operations:
        await agree(invocation, snapshots[0].key.name, changes[0].ask, acting, changes[0].judge)
    deadline = deadline or waiting.deadline_of(invocation, acting)
    writer = ChangeWriter(invocation, acting, verb, deadline, several=len(snapshots) > 1)
    try:
        for change in changes:
            try:
                await writer.carry_out(change)
            except (CommandError, ApiError) as error:
                if len(snapshots) == 1:
                    raise
                code = max(code, failed(invocation, error))
    finally:
        printed = writer.finish()
    return max(code, printed, await waiting.wait(invocation, acting, writer.changed))


def _planned(
    invocation: Invocation, snapshots: Sequence[Snapshot], plan: Callable[[Snapshot], EditOfOne]
) -> tuple[int, list[EditOfOne]]:
    code, changes = 0, []
    for snapshot in snapshots:
        try:
            changes.append(plan(snapshot))
        except CommandError as error:
            code = max(code, failed(invocation, error))
    return code, changes


def failed(invocation: Invocation, error: CommandError | ApiError) -> int:
    """Tells it, where that stops nothing else; returns its exit code."""
    failure = error if isinstance(error, CommandError) else explained(error, invocation.session)
    invocation.terminal.fail(failure)
    return failure.exit_code


def _caution(invocation: Invocation, change: EditOfOne) -> None:
    """What to know before; also without a question, since it may still be stopped or taken back."""
    snapshot, cautions = change.snapshot, change.edit.warnings
    if change.edit.operations:
        foreign = gitops.caution_of(snapshot.key.name, snapshot.document, snapshot.owners)
        cautions = (*cautions, *([Caution(text=foreign)] if foreign else []))
    for caution in cautions:
        invocation.terminal.warn(legible(invocation.terminal, caution.text), *caution.hints)


def consented(terminal: Terminal, what: str, question: str, *, yes: bool, hint: str = HINT) -> bool:
    """Whether it was asked, and agreed to; it is not asked where `yes`, or the environment, says so beforehand.

    Raises CommandError (6) for a no, and where nobody can be asked about `what`.
    """
    if yes or terminal.never_asks:
        return False
    if not terminal.may_ask:
        words = f"{what} would be changed, and there is no terminal to ask"
        raise CommandError(words, hints=(hint,), exit_code=ExitCode.REFUSED)
    if not terminal.ask(question):
        raise CommandError("nothing was changed", exit_code=ExitCode.REFUSED, prefix="")
    return True


async def agree(invocation: Invocation, what: str, question: str, acting: Acting, judge: Judge | None = None) -> bool:
    """As `consented`; nor is it asked where nothing is written. `judge` looks again after a yes."""
    terminal = invocation.terminal
    if not writes(acting) or not consented(terminal, what, legible(terminal, question), yes=acting.yes):
        return False
    if judge is not None:
        await judge()
    return True


async def _agreed_to_all(invocation: Invocation, changes: Sequence[EditOfOne], acting: Acting) -> list[EditOfOne]:
    """The changes that are to be carried out: what was told in the question is not told again."""
    terminal = invocation.terminal
    if any(change.edit.operations for change in changes):
        lines = (line for change in changes for line in _outlook(change, quiet=terminal.quiet))
        count = counted(len(changes), "DaemonSet")
        if await agree(invocation, count, question(f"{count}:", lines), acting):
            return [with_fields(change, edit=replace(change.edit, details=())) for change in changes]
    return [*changes]


def _outlook(change: EditOfOne, *, quiet: bool) -> Iterator[str]:
    """What a question for several says of one: its result, and what its own question would tell before it asks."""
    yield f"{change.snapshot.key}  {change.edit.result}"
    if change.edit.operations:
        *told, _ = (change.ask or "").split("\n")
        yield from (f"  {line}" for line in (*told, *(() if quiet else change.edit.details)))
