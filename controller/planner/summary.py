"""What one pass saw, as numbers: where the nodes stand, which of them fail and why, and what an update waits for.

Metrics show it until the next pass. Nodes are counted as the kubectl plugin counts them, and only those that should
run a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from math import inf

from msgspec.structs import replace

from controller.api.base import Value
from controller.api.pod import Pod
from controller.api.pod_problem import PodProblem
from controller.planner.budget import Budget
from controller.planner.conditions import keeper_of
from controller.planner.eligibility import Fit
from controller.planner.explanation import Explainer
from controller.planner.obstacles import BlockReason, Obstacle


class ZoneState(StrEnum):
    """How one node stands; every node that should run a pod is in exactly one."""

    UPDATED = "updated"
    """An available pod of the current revision, and no old one beside it."""
    UPDATING = "updating"
    """A new pod that may still become available, or none yet where one comes."""
    FAILED = "failed"
    """A pod of the current revision that will not get well by waiting, or one that has ended."""
    OLD = "old"
    """A pod of an older revision, or a node that waits for one, or for its turn."""


class StartingPod(Value):
    """A pod that is not ready yet and may become so."""

    zone: str
    until: float
    """Seconds since 1970: from then on its node has failed."""


class Summary(Value):
    budget: Budget
    """The limits as numbers of nodes."""
    zones: Mapping[str, Mapping[str, int]]
    """Zone to the number of nodes in each `ZoneState`."""
    failed: Mapping[str, int]
    """Nodes by `PodProblem`, all of them."""
    blocks: Mapping[str, bool]
    """Whether each `BlockReason` is in the way."""
    unplanned: int
    """Updated nodes beyond what partition and selector allow: the partition was raised, nodes went away, or the
    selector turned to others."""
    starting: tuple[StartingPod, ...] = ()
    """Each is counted as updating; see `at`."""
    leaving: int = 0
    """Nodes whose pod has to go. Where a NoSchedule taint lets one stay, it is misscheduled too, but not this."""
    preparing: int | None = None
    """Pods that are prepared for their deletion and held by the preDelete hook; None where there is no hook."""
    overdue: int = 0
    """Of these, how many have been so for too long."""
    deadlines: tuple[float, ...] = ()
    """Seconds since 1970: when each of the others is; see `at`."""

    @property
    def updating(self) -> int:
        return sum(zone[ZoneState.UPDATING] for zone in self.zones.values())

    def at(self, now: float) -> Summary:
        """This summary as of `now` (seconds since 1970), if no pass came in between: deadlines may have passed."""
        overdue = sum(1 for moment in self.deadlines if moment <= now)
        if overdue:
            left = tuple(moment for moment in self.deadlines if moment > now)
            return replace(self, overdue=self.overdue + overdue, deadlines=left).at(now)
        late = [one for one in self.starting if one.until <= now]
        if not late:
            return self
        zones = {zone: dict(numbers) for zone, numbers in self.zones.items()}
        for one in late:
            zones[one.zone][ZoneState.UPDATING] -= 1
            zones[one.zone][ZoneState.FAILED] += 1
        failed = {**self.failed, PodProblem.NOT_READY: self.failed[PodProblem.NOT_READY] + len(late)}
        starting = tuple(one for one in self.starting if one.until > now)
        return replace(self, zones=zones, failed=failed, starting=starting)


def see(explainer: Explainer, *, settled: bool, misscheduled: int) -> Summary:
    """`settled`: every node has an available pod of the current revision, so that none has to be looked at; nor for
    `leaving` where no pod is misscheduled."""
    walk = _Walk(explainer)
    if not settled:
        walk.along()
    deadlines = _deadlines(explainer)
    hook = explainer.board.world.daemonset.pre_delete
    seen = Summary(
        budget=explainer.board.budget,
        zones=walk.zones(),
        failed={problem.value: walk.problems.count(problem) for problem in PodProblem},
        blocks={block.value: block in walk.blocks for block in BlockReason},
        unplanned=walk.unplanned(settled=settled),
        leaving=misscheduled and sum(slot.fit is Fit.LEAVE for slot in explainer.board.slots if slot.pods),
        starting=tuple(walk.starting),
        preparing=len(deadlines) if hook is not None else None,
        deadlines=deadlines,
    )
    return seen.at(explainer.board.world.now) if deadlines else seen


def _deadlines(explainer: Explainer) -> tuple[float, ...]:
    """Of the pods that the hook holds. One of which nobody knows since when is never late."""
    patience = explainer.board.world.daemonset.pre_delete_deadline
    return tuple([pod.held_since + patience if pod.held_since is not None else inf for pod in explainer.held_by_hook])


class _Walk:
    """Along all nodes that are not as they should be. The loop is plain on purpose, as those of the board are."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer, self._board = explainer, explainer.board
        self._judged = self._board.world.rules.judged(self._board.world.nodes)
        self._zones: dict[ZoneState, list[str]] = {state: [] for state in ZoneState}
        """One entry for each node that is not updated."""
        self.problems: list[PodProblem] = []
        self.starting: list[StartingPod] = []
        self.blocks = set() if self._board.world.fresh else {BlockReason.EXPECTATIONS}

    def along(self) -> None:
        explainer, board = self._explainer, self._board
        run, placement = Fit.RUN, Obstacle.PLACEMENT
        old, updating = self._zones[ZoneState.OLD], self._zones[ZoneState.UPDATING]
        fills_all = board.world.fresh and not board.world.held_back and board.fills_with_current
        gets_older = board.fallback.replaces_current
        unseen = explainer.keepers
        obstacles: set[Obstacle | None] = set(explainer.waiting)
        for zone, slot in zip(self._judged.zones, board.slots, strict=False):  # vanished nodes come last
            if slot.fit is not run:
                continue
            if slot.current is not None:
                if slot.old is not None or not slot.current_available:
                    self._see_current(slot.current, zone)
                continue
            if unseen and (keeper := explainer.kept(slot)) is not None:
                unseen.discard(keeper)  # it keeps some node: no other one need be asked about it
            if slot.old is not None:
                old.append(zone)
            elif fills_all and not slot.pods:
                updating.append(zone)
            else:
                obstacle = explainer.obstacle(slot)
                obstacles.add(obstacle)
                if slot.ended:
                    self._fail(slot.ended[0].problem or PodProblem.OTHER, zone)
                elif gets_older or obstacle is placement or slot.node not in explainer.target:
                    old.append(zone)  # what comes is a pod of an older revision
                else:
                    updating.append(zone)
        keepers = explainer.keepers - unseen
        if keepers - {Obstacle.PAUSED}:
            obstacles.add(keeper_of(board))
        self.blocks |= {one.row.block for one in keepers | obstacles if one is not None and one.row.block is not None}

    def unplanned(self, *, settled: bool) -> int:
        """As many as are in `NodeState.UNPLANNED`; while some is, so few or so many are not updated."""
        board, target = self._board, self._board.target
        if settled or (len(target) == board.budget.desired and not board.parted):
            return board.budget.desired - len(target)
        done = [slot for slot in target if slot.current_available and slot.old is None]
        planned = len([slot for slot in done if slot.selected]) if board.parted else len(done)
        return board.budget.desired - sum(map(len, self._zones.values())) - planned

    def zones(self) -> dict[str, dict[str, int]]:
        found = {}
        counted = {state: Counter(zones) for state, zones in self._zones.items()}
        for zone, number in self._judged.eligible.items():
            numbers = {state.value: counted[state][zone] for state in ZoneState}
            found[zone] = {**numbers, ZoneState.UPDATED.value: number - sum(numbers.values())}
        return found

    def _see_current(self, pod: Pod, zone: str) -> None:
        if pod.problem is not None:
            self._fail(pod.problem, zone)
            return
        self._zones[ZoneState.UPDATING].append(zone)
        if not pod.ready:
            self.starting.append(
                StartingPod(zone=zone, until=pod.created + self._board.world.daemonset.progress_deadline)
            )

    def _fail(self, problem: PodProblem, zone: str) -> None:
        self.problems.append(problem)
        self._zones[ZoneState.FAILED].append(zone)
