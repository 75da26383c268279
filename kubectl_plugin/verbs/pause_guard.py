"""Protects a pause that somebody else has set: without a confirmation prompt, only `resume` lifts it, unless a flag
allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.api.objects import value_at
from kubectl_plugin.change_options import ActingOptions
from kubectl_plugin.cluster import self_reviews
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.edits.draft import with_operations
from kubectl_plugin.edits.edit import ROLLING
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.last_action import pause_of, paused_words
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.verbs.change_writer import EditOfOne, ends_as_written


async def guard_of_pauses(
    invocation: Invocation,
    acting: ActingOptions,
    snapshots: Iterable[Snapshot],
    *,
    by_flag: bool,
    what: str,
    instead: str,
) -> Callable[[EditOfOne], EditOfOne]:
    """A function that returns a change if it may be made, else raises CommandError with exit code 6.

    `by_flag`: whether the command line allows lifting a pause. `what` would lift it; with `instead` it would stay.
    """
    asks = invocation.terminal.may_ask and not acting.yes  # a dry run is not asked, but ends as after a yes
    allowed = by_flag or asks or not ends_as_written(acting)
    asks_who = not allowed and any(one.daemonset.paused for one in snapshots)
    me = await self_reviews.who_am_i(invocation.session) if asks_who else ""

    def checked(change: EditOfOne) -> EditOfOne:
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
