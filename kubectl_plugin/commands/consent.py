"""Which changes need consent, and the prompt for it: one before all writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Final

from msgspec.structs import replace

from controller.api.formats import counted
from controller.api.objects import value_at
from kubectl_plugin.changes.edit import ROLLING, Edit, with_operations
from kubectl_plugin.cluster import installation
from kubectl_plugin.cluster.session import Invocation
from kubectl_plugin.cluster.writes import Recheck
from kubectl_plugin.errors import CommandError, ExitCode, Refused
from kubectl_plugin.options import ActingOptions, DryRun
from kubectl_plugin.rollout import gitops
from kubectl_plugin.rollout.last_action import pause_of, paused_words
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.terminal import Terminal, one_line

YES_HINT: Final = "add --yes if that is what you want"
CONTINUE: Final = "Continue?"


@dataclass(frozen=True)
class PlannedChange:
    """An edit of one object, and how it is confirmed."""

    snapshot: Snapshot
    edit: Edit
    preview: tuple[str, ...] = ()
    """Lines above the question."""
    question: str = ""
    """Empty: no prompt."""
    recheck: Recheck | None = None
    """Called after consent and before each retry of the write; raises CommandError to stop the change."""


def with_question(change: PlannedChange, headline: str) -> PlannedChange:
    """Moves the details from under the result into the prompt."""
    edit = change.edit
    if not edit.operations:
        return change
    shown = preview_of(headline, edit.details)
    return with_fields(change, edit=replace(edit, details=()), preview=shown, question=CONTINUE)


def preview_of(headline: str, lines: Iterable[str]) -> tuple[str, ...]:
    return (headline, *(f"  {one_line(line)}" for line in lines))


def does_write(options: ActingOptions) -> bool:
    return options.dry_run is DryRun.NONE and not options.print_patch


def ends_as_written(options: ActingOptions) -> bool:
    """Whether the server makes or dry-runs the change, so that the command ends as the write would."""
    return options.dry_run is not DryRun.CLIENT and not options.print_patch


def will_ask(invocation: Invocation, options: ActingOptions) -> bool:
    """Whether the user is prompted before the write; lines of the prompt need not be printed again."""
    return invocation.terminal.may_ask and does_write(options) and not options.yes


def printable(terminal: Terminal, text: str) -> str:
    """The ellipsis is the only non-ASCII character of an edit."""
    return text.replace("…", "...") if terminal.ascii else text


def ask_for_consent(
    terminal: Terminal, what: str, preview: Sequence[str], question: str, *, yes: bool, hint: str = YES_HINT
) -> bool:
    """Returns True after a yes, False if `yes` or KRUISE_DS_PROMPT=never skips the prompt. Without a `question`,
    consent is assumed on a terminal. Raises Refused after a no, or without a terminal."""
    if yes or terminal.never_asks:
        return False
    if not terminal.may_ask:
        words = f"{what} would be changed, and there is no terminal to ask"
        raise Refused(words, hint)
    if question and not terminal.ask(printable(terminal, "\n".join((*preview, question)))):
        raise CommandError("nothing was changed", exit_code=ExitCode.REFUSED, prefix="")
    return True


async def ask_once(
    invocation: Invocation, changes: list[PlannedChange], options: ActingOptions, *, several: bool
) -> list[PlannedChange]:
    """Asks for all `changes` together, and checks again after consent. Returns them without the details that the
    prompt has shown. Does not prompt if nothing is written. Raises Refused without consent."""
    if not ends_as_written(options) or not any(change.edit.operations for change in changes):
        return changes
    if several:
        what, question = counted(len(changes), "DaemonSet"), CONTINUE
        preview = preview_of(f"{what}:", (line for change in changes for line in _preview_lines(change)))
    else:
        (only,) = changes
        what, preview, question = only.snapshot.key.name, only.preview, only.question
        if not question:
            return changes
    asked = question if does_write(options) else ""
    agreed = ask_for_consent(invocation.terminal, what, preview, asked, yes=options.yes)
    if not (agreed and asked):
        return changes
    if several:
        return [with_fields(change, edit=replace(change.edit, details=())) for change in changes]
    if only.recheck is not None:
        await only.recheck()
    return changes


def _preview_lines(change: PlannedChange) -> Iterator[str]:
    yield f"{change.snapshot.key}  {change.edit.result}"
    if change.edit.operations:
        yield from (f"  {line}" for line in (*change.preview, *change.edit.details))


def asking_beside_a_driver(change: PlannedChange) -> PlannedChange:
    """Prompts, as the change bypasses the Rollout that drives the object; `pause` is urgent and does not."""
    driver = gitops.driver_of(change.snapshot.document)
    if driver is None or change.question or not change.edit.operations:
        return change
    return with_fields(change, preview=(f"This bypasses {driver}.",), question=CONTINUE)


def all_namespaces_error(count: int, hint: str = YES_HINT) -> CommandError:
    words = f"-A would change {counted(count, 'DaemonSet')} in all namespaces"
    return Refused(words, hint)


async def guard_of_pauses(
    invocation: Invocation,
    options: ActingOptions,
    snapshots: Iterable[Snapshot],
    *,
    by_flag: bool,
    what: str,
    instead: str,
) -> Callable[[PlannedChange], PlannedChange]:
    """Returns a function that raises Refused for a change that may not lift a pause, else returns it. `by_flag`: a
    flag allows it. `what` would lift the pause, `instead` keeps it."""
    asks = invocation.terminal.may_ask and not options.yes  # a dry run is not options, but ends as after a yes
    allowed = by_flag or asks or not ends_as_written(options)
    asks_who = not allowed and any(snapshot.daemonset.paused for snapshot in snapshots)
    me = await installation.who_am_i(invocation.session) if asks_who else ""

    def checked(change: PlannedChange) -> PlannedChange:
        snapshot = change.snapshot
        words, pause = paused_words(snapshot), pause_of(snapshot)
        mine = pause is not None and me != "" and pause.by == me
        stays = value_at(with_operations(snapshot.document, change.edit.operations), *ROLLING, "paused") is True
        if allowed or mine or not words or stays:
            return change
        raise Refused(
            f"{snapshot.key.name} is {words}; {what} would lift that",
            f"--lift-pause lifts it all the same; with {instead} nothing moves before resume",
        )

    return checked
