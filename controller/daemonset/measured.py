"""What is known of every DaemonSet at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.daemonset import DaemonSet, Phase
from controller.api.meta import epoch
from controller.daemonset.caches import Caches
from controller.daemonset.state import DaemonSetState, DaemonSetStates
from controller.telemetry.measured import MeasuredDaemonSet


def measured(caches: Caches, states: DaemonSetStates, now: float) -> Iterator[MeasuredDaemonSet]:
    """`now` in seconds since 1970. Call between passes only: on their event loop."""
    for daemonset in caches.daemonsets.values():
        state = states.of(daemonset.uid)
        summary = state.summary.at(now) if state.summary is not None and not daemonset.dying else None
        yield MeasuredDaemonSet(daemonset=daemonset, summary=summary, paused_since=paused_since(daemonset, state))


def paused_since(daemonset: DaemonSet, state: DaemonSetState) -> float:
    """The record of a rollout that waits outlives this process; a pause for which none waits is in no record."""
    rolling = daemonset.rolling_update
    if rolling is None or not rolling.paused:
        return 0.0
    record = daemonset.status.rollout if daemonset.status is not None else None
    recorded = epoch(record.last_transition_time) if record is not None and record.phase == Phase.PAUSED else None
    return min(filter(None, (state.paused_since, recorded)), default=0.0)
