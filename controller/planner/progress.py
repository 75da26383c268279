"""Keeps the record of a rollout: since when it runs, how far it is, and whether it makes progress.

Times in the record change only together with counts or the phase. Two passes over the same world make the same
record, so that a status is never written only because time has passed.
"""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.meta import epoch, rfc3339
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.phase import Standing, phase_of
from controller.planner.world import TemplateRefused

CLOCK_RUNS = (Phase.PROGRESSING, Phase.STALLED)
"""Phases in which the deadline counts. In any other, nobody waits for the controller, or nothing is left to do."""


def standing_of(board: Board, *, observed: bool) -> Standing:
    """The standing as the pods show it. Only the record tells whether the rollout was completed or is overdue; see
    `advance`."""
    without = available = outdated = done = waiting = 0
    run, barred = Fit.RUN, board.barred
    for slot in board.slots:
        if slot.fit is run:
            without += slot.current is None
            available += slot.current_available or slot.old_available
    for slot in board.target:
        if slot.current is None:
            waiting += 1
            outdated += slot.old is not None or slot.node in barred
        elif slot.current_available and slot.old is None:
            done += 1
    daemonset, rolling, verdict = board.world.daemonset, board.rolling_update, board.verdict
    return Standing(
        dying=daemonset.dying,
        observed=observed,
        on_delete=rolling is None,
        paused=rolling is not None and rolling.paused,
        refused=verdict.words if isinstance(verdict, TemplateRefused) and outdated else "",
        desired=board.budget.desired,
        target=len(board.target),
        updated=board.budget.desired - without,
        done=done,
        available=available,
        outdated=outdated,
        leaving=len(board.surplus),
        kept=without - waiting,
    )


def advance(
    before: DaemonSetStatus | None, standing: Standing, *, revision_hash: str, deadline: float, now: float
) -> Rollout:
    """The next record. `before` is the newest known status; `deadline` is in seconds, `now` in seconds since 1970.

    The deadline counts while the phase is Progressing. It starts again with the rollout, when more nodes than ever
    are done or have their new pod, when the target changes, and when the rollout goes on after another phase.
    """
    last = _record(before)
    stamp = rfc3339(now)
    if before is None or before.update_revision != revision_hash or not last.start_time:
        last = Rollout(phase=last.phase, last_transition_time=last.last_transition_time, start_time=stamp)
    done = standing.done >= standing.target and not standing.leaving
    completed = last.completion_time or (stamp if done else None)
    record = replace(
        last,
        completion_time=None if standing.outdated else completed,
        target=standing.target,
        done=standing.done,
        most_done=max(last.most_done, standing.done),
        most_updated=max(last.most_updated, standing.updated),
    )
    phase = phase_of(replace(standing, completed=record.completion_time is not None))
    moved = (record.target, record.most_done, record.most_updated) != (last.target, last.most_done, last.most_updated)
    if moved or last.last_progress_time is None or _starts_clock(last, phase, deadline):
        record = replace(record, last_progress_time=stamp)
    if phase is Phase.PROGRESSING and now >= due_at(record, deadline):
        phase = Phase.STALLED
    return _in_phase(record, phase, stamp)


def halted(before: DaemonSetStatus | None, now: float) -> Rollout:
    """The record of a rollout whose spec is unusable: unchanged, but Stalled."""
    last, stamp = _record(before), rfc3339(now)
    phase = phase_of(Standing(refused="unusable"))
    begun = replace(last, last_progress_time=stamp) if last.phase not in CLOCK_RUNS else last
    return _in_phase(begun, phase, stamp)


def due_at(record: Rollout, deadline: float) -> float:
    """When a rollout that is Progressing becomes Stalled unless it makes progress (seconds since 1970)."""
    return (epoch(record.last_progress_time) or 0.0) + deadline


def _record(status: DaemonSetStatus | None) -> Rollout:
    return (status.rollout if status is not None else None) or Rollout()


def _starts_clock(last: Rollout, phase: Phase, deadline: float) -> bool:
    """Whether the deadline starts in this pass. It does not run outside `CLOCK_RUNS`, nor while the rollout is
    Stalled for another reason. That was so if it became Stalled before the deadline had passed.
    """
    if phase not in CLOCK_RUNS or last.phase not in CLOCK_RUNS:
        return phase in CLOCK_RUNS
    refused = last.phase == Phase.STALLED and (epoch(last.last_transition_time) or 0.0) < due_at(last, deadline)
    return phase is Phase.PROGRESSING and refused


def _in_phase(record: Rollout, phase: Phase, stamp: str) -> Rollout:
    if record.phase == phase:
        return record
    return replace(record, phase=phase.value, last_transition_time=stamp)
