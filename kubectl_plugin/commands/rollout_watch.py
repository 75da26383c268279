"""The wait of `status -w` and --wait: reports each change until every object has a result."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.objects import Key
from kubectl_plugin.cluster import installation
from kubectl_plugin.cluster.documents import last_log_line, side_by_side
from kubectl_plugin.cluster.follow import Following, following
from kubectl_plugin.cluster.session import Deadline, Invocation, Session
from kubectl_plugin.cluster.watches import MIN_INTERVAL
from kubectl_plugin.commands.screens import Screen, status_screen
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.options import StatusOptions
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import RolloutStatus, status_at
from kubectl_plugin.rollout.survey import NodeSurvey
from kubectl_plugin.rollout.wait import (
    Awaited,
    WaitResult,
    changed_spec_result,
    deleted_result,
    has_image,
    no_controller_result,
    result_of,
    unfinished_result,
    with_namespaces,
)
from kubectl_plugin.wording import command

REDRAW_SECONDS: Final = 1.0
"""Seconds between screens without events, as ages and deadlines depend on the time."""
REST: Final = 4.0
"""The pause between reports, as a multiple of the time one takes: large clusters are read less often."""
HINT_AFTER: Final = 30.0
"""Seconds of Pending before a hint asks whether the controller is running."""
ASK_EVERY: Final = 10.0


def wanted_of(options: StatusOptions) -> Awaited:
    return Awaited(
        revision=options.revision,
        generation=options.generation,
        image=options.image,
        require_full=options.require_full,
        fail_fast=options.fail_fast,
    )


async def rollout_status(
    invocation: Invocation,
    options: StatusOptions,
    snapshot: Snapshot,
    *,
    words: LastLogLines | None = None,
    presence: Callable[[float], Awaitable[str | None]] | None = None,
) -> RolloutStatus:
    """`words` keeps log lines between calls. `presence` says why no controller is active; None: ask the server."""
    status, logs = status_at(snapshot, options.by), None
    if runs := status.silent_runs:
        logs = await (words or LastLogLines(invocation.session)).of(runs) if options.logs else {}
    ask = presence or partial(installation.why_no_controller, invocation.session)
    absence = await ask(snapshot.now) if status.phase is Phase.PENDING else None
    return replace(status, logs=logs, absence=absence or "")


async def follow_up(
    invocation: Invocation,
    options: StatusOptions,
    found: Sequence[Snapshot],
    deadline: Deadline,
    generations: Mapping[Key, int] | None = None,
) -> ExitCode:
    """Watches until each object has a result; returns the highest exit code. `generations`: specs to wait for."""
    several = len({snapshot.daemonset.namespace for snapshot in found}) > 1
    keys = [snapshot.daemonset.key for snapshot in found]
    async with following(invocation, found) as follow:
        invocation.note_unread(follow.unread_words)
        with status_screen(invocation, plain=options.plain, several=several) as screen:
            presence, words = ControllerPresence(invocation, several=several), LastLogLines(invocation.session)
            watch = _StatusWatch(invocation, options, follow, screen, deadline, presence, words)
            results = await watch.run(keys, generations or {})
    return print_results(invocation, results, [key.namespace for key in keys])


def print_results(invocation: Invocation, results: Sequence[WaitResult], namespaces: Sequence[str]) -> ExitCode:
    """Returns the highest exit code; no object at all is a failure."""
    for result in with_namespaces(results, namespaces):
        if result.error is not None:
            invocation.terminal.fail(result.error)
        if result.warning:
            invocation.terminal.warn(result.warning)
    if not results:
        invocation.terminal.fail(CommandError("no Advanced DaemonSet was found"))
    return max((result.code for result in results), default=ExitCode.FAILED)


@dataclass
class _StatusWatch:
    invocation: Invocation
    options: StatusOptions
    follow: Following
    screen: Screen
    deadline: Deadline
    presence: ControllerPresence
    words: LastLogLines
    met: set[Key] = field(default_factory=set)
    """Objects that have had the awaited image."""

    async def run(self, keys: Sequence[Key], generations: Mapping[Key, int]) -> list[WaitResult]:
        loop = asyncio.get_running_loop()
        awaited = wanted_of(self.options)
        wanted = [replace(awaited, generation=generations.get(key, awaited.generation)) for key in keys]
        while True:
            began = loop.time()
            found = [
                None if snapshot is None else await self._report(snapshot) for snapshot in self.follow.snapshots()
            ]
            seen = [status for status in found if status is not None]
            if any(isinstance(one.survey, NodeSurvey) and one.survey.counts_differ for one in seen):
                self.follow.mark_nodes_stale()
            results = [self._result(key.name, one, want) for key, one, want in zip(keys, found, wanted, strict=True)]
            late = self.deadline.seconds_left <= 0
            stuck = any(result is not None and result.code == ExitCode.STUCK for result in results)
            decided = all(result is not None for result in results) or (self.options.fail_fast and stuck)
            over = late or decided
            self.screen.show(seen, "" if over else self.follow.interruption, final=over)
            if over:
                return [result or self._unfinished(one, late) for result, one in zip(results, found, strict=True)]
            took = loop.time() - began
            pause = min(max(REDRAW_SECONDS, REST * took), self.deadline.seconds_left)
            await self.follow.changed(pause, apart=max(MIN_INTERVAL, REST * took))

    async def _report(self, snapshot: Snapshot) -> RolloutStatus:
        return await rollout_status(
            self.invocation, self.options, snapshot, words=self.words, presence=self.presence.absence
        )

    def _unfinished(self, status: RolloutStatus | None, late: bool) -> WaitResult:
        assert status is not None, "what is gone has a result"
        return unfinished_result(status, self.options.timeout if late else "")

    def _result(self, name: str, status: RolloutStatus | None, wanted: Awaited) -> WaitResult | None:
        if status is None:
            return deleted_result(name)
        pending = self.presence.pending_for(status.daemonset.key, status.phase)
        if pending >= installation.CONTROLLER_SECONDS and status.absence:
            return no_controller_result(name, status.absence)
        if has_image(status, wanted):
            self.met.add(status.daemonset.key)
        elif status.daemonset.key in self.met:
            return changed_spec_result(status, Awaited())
        return result_of(status, wanted)


class ControllerPresence:
    """Whether a controller handles a Pending object. Asks the server at most every `ASK_EVERY` seconds."""

    def __init__(self, invocation: Invocation, *, several: bool) -> None:
        self._invocation, self._several = invocation, several
        self._since: dict[Key, float] = {}
        self._hinted: set[Key] = set()
        self._absence = ""
        self._asked_at = -math.inf

    async def absence(self, now: float) -> str:
        """Returns why no controller seems active, or an empty text. `now`: seconds since 1970, server's clock."""
        moment = asyncio.get_running_loop().time()
        if moment - self._asked_at >= ASK_EVERY:
            self._absence = await installation.why_no_controller(self._invocation.session, now) or ""
            self._asked_at = moment
        return self._absence

    def pending_for(self, key: Key, phase: Phase) -> float:
        """Returns the seconds of Pending, 0 in other phases. Prints the hint once, after `HINT_AFTER` seconds."""
        now = asyncio.get_running_loop().time()
        if phase is not Phase.PENDING:
            self._since.pop(key, None)
            return 0.0
        seconds = now - self._since.setdefault(key, now)
        if seconds >= HINT_AFTER and key not in self._hinted and not self._invocation.terminal.on_screen:
            self._hinted.add(key)
            name = f"{key.namespace}/{key.name}" if self._several else key.name
            self._invocation.terminal.warn(
                f"{name} is Pending for {HINT_AFTER:.0f}s: is the controller running?", command("doctor")
            )
        return seconds


class LastLogLines:
    """Reads each line once per run of a container, however often a report is made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[Key, str, int], str] = {}

    async def of(self, runs: list[tuple[Key, str, int]]) -> dict[tuple[Key, str, int], str]:
        """Last lines by pod, container and restart count."""
        new = [run for run in runs if run not in self._known]
        lines = await side_by_side(*(last_log_line(self._session, pod, container) for pod, container, _ in new))
        known = self._known | dict(zip(new, lines, strict=True))
        self._known = {run: known[run] for run in runs}
        return self._known
