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
from controller.planner.obstacle_checks import obstacle_to_update
from controller.planner.phase import Standing, phase_of
from controller.planner.slot import Slot
from controller.planner.world import TemplateRefused

CLOCK_RUNS = (Phase.PROGRESSING, Phase.STALLED)
"""Phases in which the deadline counts. In any other, nobody waits for the controller, or nothing is left to do."""


def standing_of(board: Board, *, observed: bool) -> Standing:
    """The standing as the pods show it. Only the record tells whether the rollout was completed or is overdue; see
    `advance`."""
    without = available = outdated = done = waiting = kept = 0
    run, barred = Fit.RUN, board.barred
    for slot in board.slots:
        if slot.fit is run:
            without += slot.current is None
            available += slot.current_available or slot.old_available
        else:
            kept += bool(slot.pods)
    for slot in board.target:
        if slot.current is None:
            waiting += 1
            outdated += slot.old is not None or slot.node in barred
        elif slot.current_available and slot.old is None:
            done += 1
    daemonset, rolling, verdict = board.world.daemonset, board.rolling_update, board.verdict
    refused = ""
    if isinstance(verdict, TemplateRefused) and (
        outdated or (verdict.unknown_fields and (waiting or kept or not board.eligible))
    ):
        refused = verdict.words
    return Standing(
        dying=daemonset.dying,
        observed=observed,
        on_delete=rolling is None,
        paused=rolling is not None and rolling.paused,
        refused=refused,
        desired=board.budget.desired,
        target=len(board.target),
        updated=board.budget.desired - without,
        done=done,
        available=available,
        outdated=outdated,
        leaving=len(board.surplus),
        kept=without - waiting,
        awaited=tuple(_awaited_nodes(board)),
    )


def _awaited_nodes(board: Board) -> list[str]:
    """The unreachable nodes for which everything that is left of the rollout waits, in update order; empty if
    anything else is left.

    A node waits for them too if they use up the budget. While a pod of the current revision fails, or does not get
    ready where it could, the rollout waits for that pod.
    """
    left = [slot for slot in board.target if slot.old is not None or not slot.current_available]
    awaited = {slot.node for slot in left if _awaits_contact(slot)}
    reachable = [slot for slot in left if slot.node not in awaited]
    if board.surplus:
        return []
    if reachable:
        users = set(board.mid_surge if board.surging else board.unserved_nodes)
        silent = {slot.node for slot in board.slots if slot.node in users and _awaits_contact(slot)}
        waits_for_them = not board.room and len(users - silent) < board.budget.most
        if not (waits_for_them and all(_lacks_only_budget(board, slot) for slot in reachable)):
            return []
        awaited |= silent
    return sorted(awaited, reverse=True)


def _lacks_only_budget(board: Board, slot: Slot) -> bool:
    return slot.only_old and slot.old_serves and obstacle_to_update(board, slot) is None


def _awaits_contact(slot: Slot) -> bool:
    """Whether the node lacks contact with its kubelet, or is not ready and serves nobody, and no pod is to blame. A
    new pod may be what makes its node not ready, as with a network plugin: then the rollout waits for that pod."""
    if slot.node_object is None or not slot.node_object.silent:
        return False
    if slot.current is not None and slot.current.problem is not None:
        return False
    return slot.unreachable or (slot.current is None and not (slot.serves or slot.ended))


def advance(
    before: DaemonSetStatus | None, standing: Standing, *, revision_hash: str, deadline: float, now: float
) -> Rollout:
    """The next record. `before` is the newest known status; `deadline` is in seconds, `now` in seconds since 1970.

    The deadline counts while the phase is Progressing, but not while the rollout waits for unreachable nodes only. It
    starts again with the rollout, when more nodes than ever are done or have their new pod, when the target changes,
    and when the rollout goes on after another phase.
    """
    last = _record(before)
    stamp = rfc3339(now)
    if before is None or before.update_revision != revision_hash or not last.start_time:
        last = Rollout(
            phase=last.phase,
            last_transition_time=last.last_transition_time,
            start_time=stamp,
            stable_revision=last.stable_revision,
        )
    awaits = bool(standing.awaited)
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
    if awaits:
        record = replace(record, nodes_unreachable_since=last.nodes_unreachable_since or stamp)
    elif last.nodes_unreachable_since:
        paused = max(now - (epoch(last.nodes_unreachable_since) or now), 0.0)
        progress = min((epoch(last.last_progress_time) or now) + paused, now)
        record = replace(record, nodes_unreachable_since=None, last_progress_time=rfc3339(progress))
    if moved or last.last_progress_time is None or _starts_clock(last, phase, deadline):
        record = replace(record, last_progress_time=stamp)
    if phase is Phase.PROGRESSING and not awaits and now >= due_at(record, deadline):
        phase = Phase.STALLED
    return _in_phase(record, phase, stamp)


def halted(before: DaemonSetStatus | None, now: float) -> Rollout:
    """The record of a rollout whose spec is unusable: unchanged, but Stalled."""
    last, stamp = _record(before), rfc3339(now)
    phase = phase_of(Standing(refused="unusable"))
    begun = replace(last, last_progress_time=stamp) if last.phase not in CLOCK_RUNS else last
    return _in_phase(begun, phase, stamp)


def due_at(record: Rollout, deadline: float) -> float:
    """When a rollout that is Progressing becomes Stalled (seconds since 1970), unless it makes progress or waits for
    unreachable nodes only."""
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
