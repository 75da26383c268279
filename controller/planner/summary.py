"""The numbers of a pass for metrics: nodes by state, failures by reason, and what an update waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import inf
from typing import Final

from msgspec.structs import replace

from controller.api.containers import PodProblem
from controller.api.daemonset import Phase
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.planner.blocker_texts import Blocker, WaitReason
from controller.planner.conditions import keeper_of
from controller.planner.explanation import Explainer
from controller.planner.limits import Budget
from controller.planner.node_fit import Fit
from controller.planner.rollout_state import RolloutState


class ZoneState(StrEnum):
    """The state of an eligible node in the metrics by zone."""

    UPDATED = "updated"
    """It has an available pod of the current revision and no old one."""
    UPDATING = "updating"
    """Its new pod may become available, or will be created."""
    FAILED = "failed"
    """Its pod of the current revision does not recover by waiting, or has ended."""
    OLD = "old"
    """It has, or will get, a pod of an older revision; or it is empty and not its turn yet."""


PHASE_REASONS: Final[Mapping[str, WaitReason]] = {
    Phase.SOAKING: WaitReason.SOAKING,
    Phase.AWAITING_APPROVAL: WaitReason.APPROVAL,
    Phase.ABORTED: WaitReason.ABORTED,
}


def possible_reasons(rollout: RolloutState) -> Iterator[WaitReason]:
    """The reasons of the metric `rollout_blocked` that the spec makes possible. OnDelete is in `info`."""
    yield from (WaitReason.PAUSED, WaitReason.PARTITION, WaitReason.SELECTOR)
    yield from (WaitReason.SERVER_SILENT, WaitReason.TEMPLATE_REFUSED)
    yield rollout.budget.limit_reason
    rolling = rollout.rolling_update
    if rollout.world.daemonset.pre_delete is not None:
        yield WaitReason.HOOK
    if rollout.record.aborted_revision is not None or (rolling is not None and rolling.on_failure is not None):
        yield WaitReason.ABORTED
    if rolling is None:
        return
    if rolling.topology is not None:
        yield WaitReason.TOPOLOGY
    if rolling.unreachable_nodes is not None:
        yield WaitReason.TOO_MANY_UNREACHABLE
    if rolling.steps:
        yield from (WaitReason.STEP, WaitReason.SOAKING, WaitReason.APPROVAL)
    if rolling.checks:
        yield from (WaitReason.CHECK_FAILING, WaitReason.CHECK_UNANSWERED)


class StartingPod(Value):
    zone: str
    until: float
    """When the node counts as failed (seconds since 1970)."""


class Summary(Value):
    budget: Budget
    zones: Mapping[str, Mapping[str, int]]
    """The number of nodes by zone and `ZoneState`."""
    failed: Mapping[str, int]
    """The number of nodes with each `PodProblem`, including 0."""
    blocked: Mapping[WaitReason, bool]
    """Whether each of the `possible_reasons` keeps nodes from the current revision."""
    unplanned: int
    """Updated nodes beyond what partition, selector and step allow, as after a change of one."""
    starting: tuple[StartingPod, ...] = ()
    """The pods that may become ready; their nodes count as updating. See `at`."""
    misscheduled_to_delete: int = 0
    """Misscheduled nodes whose pod has to go."""
    preparing: int | None = None
    """Pods that the preDelete hook holds; None without a hook."""
    overdue: int = 0
    """How many of these are held for longer than the deadline."""
    deadlines: tuple[float, ...] = ()
    """When each of the others passes the deadline (seconds since 1970); see `at`."""

    @property
    def updating(self) -> int:
        return sum(zone[ZoneState.UPDATING] for zone in self.zones.values())

    def at(self, now: float) -> Summary:
        """The summary at `now` (seconds since 1970) without another pass: deadlines may have passed."""
        overdue = sum(1 for moment in self.deadlines if moment <= now)
        if overdue:
            left = tuple(moment for moment in self.deadlines if moment > now)
            return replace(self, overdue=self.overdue + overdue, deadlines=left).at(now)
        late = [pod for pod in self.starting if pod.until <= now]
        if not late:
            return self
        zones = {zone: dict(numbers) for zone, numbers in self.zones.items()}
        for pod in late:
            zones[pod.zone][ZoneState.UPDATING] -= 1
            zones[pod.zone][ZoneState.FAILED] += 1
        failed = {**self.failed, PodProblem.NOT_READY: self.failed[PodProblem.NOT_READY] + len(late)}
        starting = tuple(pod for pod in self.starting if pod.until > now)
        return replace(self, zones=zones, failed=failed, starting=starting)


def summarize(explainer: Explainer, *, settled: bool, misscheduled: int, phase: str) -> Summary:
    """If `settled`, every node has an available pod of the current revision, and none is looked at."""
    counts = _NodeCounts(explainer, PHASE_REASONS.get(phase))
    if not settled:
        counts.count()
    deadlines = _deadlines(explainer)
    hook = explainer.rollout.world.daemonset.pre_delete
    seen = Summary(
        budget=explainer.rollout.budget,
        zones=counts.zones(),
        failed={problem.value: counts.problems.count(problem) for problem in PodProblem},
        blocked={reason: reason in counts.reasons for reason in possible_reasons(explainer.rollout)},
        unplanned=counts.unplanned(settled=settled),
        misscheduled_to_delete=misscheduled
        and sum(node.fit is Fit.LEAVE for node in explainer.rollout.nodes if node.pods),
        starting=tuple(counts.starting),
        preparing=len(deadlines) if hook is not None else None,
        deadlines=deadlines,
    )
    return seen.at(explainer.rollout.world.now) if deadlines else seen


def _deadlines(explainer: Explainer) -> tuple[float, ...]:
    """The deadlines of all pods that the hook holds; infinite without a recorded start."""
    patience = explainer.rollout.world.daemonset.pre_delete_deadline
    return tuple([pod.held_since + patience if pod.held_since is not None else inf for pod in explainer.held_by_hook])


class _NodeCounts:
    """Counts all nodes that are not updated, in a plain loop for speed."""

    def __init__(self, explainer: Explainer, of_phase: WaitReason | None) -> None:
        self._explainer, self._rollout = explainer, explainer.rollout
        self._evaluated = self._rollout.world.rules.evaluate(self._rollout.world.nodes)
        self._zones: dict[ZoneState, list[str]] = {state: [] for state in ZoneState}
        self.problems: list[PodProblem] = []
        self.starting: list[StartingPod] = []
        self.reasons = {of_phase, None if self._rollout.world.fresh else WaitReason.SERVER_SILENT}

    def count(self) -> None:
        explainer, rollout = self._explainer, self._rollout
        run, placement = Fit.RUN, Blocker.PLACEMENT
        old, updating = self._zones[ZoneState.OLD], self._zones[ZoneState.UPDATING]
        fills_all = rollout.world.fresh and not rollout.world.in_backoff and rollout.fills_with_current
        gets_older = rollout.fallback.replaces_current
        holds = explainer.possible_holds
        unseen = set(holds)
        blockers: set[Blocker | None] = set(explainer.waiting)
        for zone, node in zip(self._evaluated.zones, rollout.nodes, strict=False):  # vanished nodes come last
            if node.fit is not run:
                continue
            if node.current is not None:
                if node.old is not None or not node.current_available:
                    self._count_current(node.current, zone)
                continue
            if unseen and (hold := explainer.hold(node)) is not None:
                unseen.discard(hold)  # one node is enough: do not ask for the others
            if node.old is not None:
                old.append(zone)
            elif fills_all and not node.pods:
                updating.append(zone)
            else:
                blocker = explainer.blocker(node)
                blockers.add(blocker)
                if node.ended:
                    self._count_failed(node.ended[0].problem or PodProblem.OTHER, zone)
                elif gets_older or blocker is placement or node.name not in explainer.target:
                    old.append(zone)  # what comes is a pod of an older revision
                else:
                    updating.append(zone)
        named = holds - unseen
        if named - {explainer.stop}:
            blockers.add(keeper_of(rollout))
        self.reasons |= {blocker.text.reason for blocker in named | blockers if blocker is not None}
        if WaitReason.MAX_UNAVAILABLE in self.reasons:
            self.reasons.add(rollout.budget.limit_reason)

    def unplanned(self, *, settled: bool) -> int:
        """The number of nodes in `NodeState.UNPLANNED`, derived from the other numbers."""
        rollout, target = self._rollout, self._rollout.target
        if settled or (len(target) == rollout.budget.desired and not rollout.split_by_selector):
            return rollout.budget.desired - len(target)
        done = [node for node in target if node.current_available and node.old is None]
        planned = len([node for node in done if node.selected]) if rollout.split_by_selector else len(done)
        return rollout.budget.desired - sum(map(len, self._zones.values())) - planned

    def zones(self) -> dict[str, dict[str, int]]:
        found = {}
        counted = {state: Counter(zones) for state, zones in self._zones.items()}
        for zone, number in self._evaluated.eligible.items():
            numbers = {state.value: counted[state][zone] for state in ZoneState}
            found[zone] = {**numbers, ZoneState.UPDATED.value: number - sum(numbers.values())}
        return found

    def _count_current(self, pod: Pod, zone: str) -> None:
        if pod.problem is not None:
            self._count_failed(pod.problem, zone)
            return
        self._zones[ZoneState.UPDATING].append(zone)
        if not pod.ready:
            self.starting.append(
                StartingPod(zone=zone, until=pod.created + self._rollout.world.daemonset.progress_deadline)
            )

    def _count_failed(self, problem: PodProblem, zone: str) -> None:
        self.problems.append(problem)
        self._zones[ZoneState.FAILED].append(zone)
