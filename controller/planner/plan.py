"""Plans one pass over a DaemonSet as a function of the World, without I/O, clock or logging. The stages run in the
order `claim`, `settle_history`, `place_pods`, `roll_out`, `trim_history`, until one acts. Pods in the middle of a
change are settled in the same pass; the status comes last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeAlias

from msgspec.structs import replace

from controller.api.daemonset import Phase, Rollout
from controller.api.formats import listed
from controller.api.names import INVALID_SPEC, SELECTING_ALL
from controller.api.objects import Value
from controller.api.revision import HIGHEST_NUMBER
from controller.planner.actions import (
    Action,
    CreateRevision,
    DeleteRevision,
    Note,
    RecordRun,
    RelabelPod,
    RenumberRevision,
    StageResult,
)
from controller.planner.blockers import has_failed, next_retry
from controller.planner.explanation import Explainer
from controller.planner.node_fit import Fit
from controller.planner.placement import claim, place_pods
from controller.planner.progress import due_at
from controller.planner.revisions import of_template
from controller.planner.rolling_update import roll_out, settle_running_pods
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.status import Status, refused_status, rollout_events, status_of
from controller.planner.summary import Summary, summarize
from controller.planner.world import CLOCK_GRAIN, World, hashes_of_pods

Stage: TypeAlias = Callable[[RolloutState], StageResult]


class Plan(Value):
    """What one pass writes. `wake_at`, `more` and `again` are as in `StageResult`."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    more: bool = False
    again: bool = False
    withheld: bool = False
    """Whether actions are left out because they are in backoff."""
    all_written: bool = False
    """Whether nothing is left to write, so that all failures are over."""
    status: Status | None = None
    """None: unchanged."""
    rollout_events: tuple[Note, ...] = ()
    """Sent after the status is written, so that each is sent once."""
    unavailable_since: Mapping[str, float] | None = None
    """As in `World`, for the next pass."""
    summary: Summary | None = None
    """None: the spec cannot be used."""


def plan(world: World) -> Plan:
    daemonset = world.daemonset
    if daemonset.terminating:
        return Plan()  # the garbage collector deletes its pods
    if world.rules.problems:
        return _refused(world, world.rules.problems)
    rollout = rollout_state(world)
    acted, results = _staged(rollout) if world.fresh else (None, [])
    actions = results[-1].actions if results else ()
    withheld = _withheld(rollout, actions)
    if world.fresh:
        results.append(settle_running_pods(rollout, {action.backoff_key for action in actions}))
        actions = (*actions, *results[-1].actions)
    all_written = world.fresh and not (actions or withheld or world.reverted_externally)
    if world.write_failure and all_written:
        world = replace(world, write_failure="")
        rollout = replace(rollout, world=world)
    observed = world.fresh and (acted not in BEFORE_UPDATE or bool(world.write_failure or world.unreadable))
    explainer = Explainer(rollout)
    status = status_of(explainer, observed=observed)
    return Plan(
        actions=actions,
        notes=tuple(note for result in results for note in result.notes),
        wake_at=_wake_at(rollout, status, results),
        more=any(result.more for result in results),
        again=any(result.again for result in results),
        withheld=withheld,
        all_written=all_written,
        status=status,
        rollout_events=rollout_events(daemonset, status),
        unavailable_since=rollout.failure.unavailable_since,
        summary=summarize(
            explainer, settled=status.settled, misscheduled=status.misscheduled, phase=status.rollout.phase
        ),
    )


def _wake_at(rollout: RolloutState, status: Status, results: Iterable[StageResult]) -> float | None:
    """When time alone may change what is planned (seconds since 1970); None: never."""
    now = rollout.world.now
    ends = [status.soaks_until, status.fails_at if status.fails_at < inf else None]
    after = [rollout.next_available, status.stable_at, *(max(end, now) for end in ends if end is not None)]
    if rollout.retry_requested or _decides_otherwise(rollout, status.rollout):
        after.append(now)
    due = due_at(status.rollout, rollout.world.daemonset.progress_deadline)
    if status.rollout.phase == Phase.PROGRESSING and due > now:  # else it waits for unreachable nodes
        after.append(due)
    moments = [next_retry(rollout.world), *(result.wake_at for result in results)]
    moments += [moment + CLOCK_GRAIN for moment in after if moment is not None]
    return min((moment for moment in moments if moment is not None), default=None)


def _decides_otherwise(rollout: RolloutState, record: Rollout) -> bool:
    """Whether the next pass may decide otherwise because of this record alone: a step, its end, or an abort."""
    rolling, before = rollout.rolling_update, rollout.record
    if rolling is None or not (rolling.steps or rolling.on_failure):
        return False
    return (
        (record.step, record.step_reached_time) != (before.step, before.step_reached_time)
        or record.completion_time != before.completion_time
        or record.aborted_revision != before.aborted_revision
    )


def _staged(rollout: RolloutState) -> tuple[Stage | None, list[StageResult]]:
    """The first stage that acts, if any, and the results of all stages up to it."""
    results: list[StageResult] = []
    for stage in STAGES:
        results.append(stage(rollout))
        if results[-1].actions:
            return stage, results
    return None, results


def _withheld(rollout: RolloutState, actions: tuple[Action, ...]) -> bool:
    """Whether more would be done without backoffs. Computed only while writes fail."""
    world = rollout.world
    if not (world.fresh and world.write_failure and has_failed(world)):
        return False
    _, free = _staged(replace(rollout, world=replace(world, in_backoff={}, due_again={})))
    return any(action not in actions for action in free[-1].actions)


def _refused(world: World, found: tuple[str, ...]) -> Plan:
    daemonset = world.daemonset
    empty = daemonset.spec.selector.empty
    problem = listed(found)
    text = "This DaemonSet is selecting all pods. A non-empty selector is required." if empty else problem
    note = Note(warning=True, reason=SELECTING_ALL if empty else INVALID_SPEC, message=text)
    return Plan(notes=(note,), status=refused_status(daemonset, problem, world.now))


def settle_history(rollout: RolloutState) -> StageResult:
    """The stage that stores the current revision once, with the highest number; a rollback renumbers it. Of
    duplicates the newest stays: pods of the others get its label without a restart, then the others are deleted."""
    revision = rollout.revision
    if not revision.uid:
        create = CreateRevision(name=revision.name, hash=revision.hash, number=revision.number)
        return _unless_in_backoff(rollout, (create,), more=True)
    newest = rollout.history[0].number if rollout.history else 0
    highest = min(max(revision.number, newest + 1), HIGHEST_NUMBER)
    if revision.number < highest:
        renumber = RenumberRevision(revision=revision.ref, number=highest)
        return _unless_in_backoff(rollout, (renumber,), more=True)
    twins = of_template(rollout.world.daemonset, rollout.history)
    if not twins:
        return StageResult()
    hashes = {twin.hash for twin in twins} - {revision.hash}
    pods = sorted((pod for pod in rollout.world.pods if pod.hash in hashes), key=lambda pod: pod.name)
    if pods:
        relabels = (RelabelPod(pod=pod.ref, hash=revision.hash) for pod in pods)
        return _unless_in_backoff(rollout, relabels, more=True)
    return _unless_in_backoff(
        rollout, (DeleteRevision(revision=twin.ref) for twin in twins if not twin.terminating), more=True
    )


def trim_history(rollout: RolloutState) -> StageResult:
    """The stage that records which revisions pods have had, and deletes the oldest beyond revisionHistoryLimit. It
    keeps those of pods, the stable one for `rollback` and, unless the limit is 0, the one before it. While partition,
    selector or pause keep nodes old, it also keeps the one with the most pods and the last one of each node."""
    new = [
        revision
        for revision in (rollout.revision, *rollout.history)
        if revision.never_ran and not revision.terminating
    ]
    ran = hashes_of_pods(rollout.world) if new else frozenset[str]()
    unmark = [RecordRun(revision=revision.ref) for revision in new if revision.hash in ran]
    return _unless_in_backoff(rollout, (*unmark, *_beyond_history_limit(rollout)), more=False)


def _beyond_history_limit(rollout: RolloutState) -> Sequence[DeleteRevision]:
    daemonset = rollout.world.daemonset
    excess = len(rollout.history) - daemonset.spec.history_limit
    if excess <= 0:
        return ()
    in_use = {pod.hash for pod in rollout.world.pods}
    if daemonset.status is not None and (record := daemonset.status.rollout) is not None:
        kept = [hash_ for hash_ in (record.stable_revision, record.previous_stable_revision) if hash_ is not None]
        in_use |= {daemonset.rolled_back}
        in_use |= {*kept} if daemonset.spec.history_limit else {*kept[:1]}
    if rollout.holds_back:
        in_use |= {node.last for node in rollout.nodes if node.fit is Fit.RUN and node.last is not None}
        if rollout.fallback.most_run is not None:
            in_use.add(rollout.fallback.most_run.hash)
    idle = [
        revision for revision in reversed(rollout.history) if revision.hash not in in_use and not revision.terminating
    ]
    return [DeleteRevision(revision=revision.ref) for revision in idle[:excess]]


def _unless_in_backoff(rollout: RolloutState, actions: Iterable[Action], *, more: bool) -> StageResult:
    """A result without the actions in backoff, which delay no others."""
    free = tuple(action for action in actions if action.backoff_key not in rollout.world.in_backoff)
    return StageResult(actions=free, more=more and bool(free))


BEFORE_UPDATE: tuple[Stage, ...] = (claim, settle_history, place_pods)
"""While one of these stages has something to do, the generation does not count as observed."""

STAGES: tuple[Stage, ...] = (*BEFORE_UPDATE, roll_out, trim_history)
