"""What one pass saw, as numbers: where the nodes stand, which of them fail and why, and what an update waits for.

Metrics show it until the next pass. Nodes are counted as the kubectl plugin counts them, and only those that should
run a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from msgspec.structs import replace

from controller.api.ailment import Ailment
from controller.api.base import Value
from controller.api.pod import Pod
from controller.planner.budget import Budget
from controller.planner.conditions import keeper_of
from controller.planner.eligibility import Fit
from controller.planner.explanation import Explainer, Explanation
from controller.planner.obstacles import Block, Obstacle
from controller.planner.states import NodeState


class State(StrEnum):
    """How one node stands; every node that should run a pod is in exactly one."""

    UPDATED = "updated"
    """An available pod of the current revision, and no old one beside it."""
    UPDATING = "updating"
    """A new pod that may still become available, or none yet where one comes."""
    FAILED = "failed"
    """A pod of the current revision that will not get well by waiting, or one that has ended."""
    OLD = "old"
    """A pod of an older revision, or a node that waits for one, or for its turn."""


class Hope(Value):
    """A pod that is not ready yet and may become so."""

    zone: str
    until: float
    """Seconds since 1970: from then on its node has failed."""


class Sight(Value):
    budget: Budget
    """The limits as numbers of nodes."""
    zones: Mapping[str, Mapping[str, int]]
    """Zone to the number of nodes in each `State`."""
    failed: Mapping[str, int]
    """Nodes by `Ailment`, all of them."""
    blocks: Mapping[str, bool]
    """Whether each `Block` is in the way."""
    unplanned: int
    """Updated nodes beyond what partition and selector allow: the partition was raised, nodes went away, or the
    selector turned to others."""
    hopes: tuple[Hope, ...] = ()
    """Each is counted as updating; see `at`."""

    @property
    def updating(self) -> int:
        return sum(zone[State.UPDATING] for zone in self.zones.values())

    def at(self, now: float) -> Sight:
        """The same `now` (seconds since 1970), if no pass came in between: patience with pods may have ended."""
        late = [hope for hope in self.hopes if hope.until <= now]
        if not late:
            return self
        zones = {zone: dict(numbers) for zone, numbers in self.zones.items()}
        for hope in late:
            zones[hope.zone][State.UPDATING] -= 1
            zones[hope.zone][State.FAILED] += 1
        failed = {**self.failed, Ailment.NOT_READY: self.failed[Ailment.NOT_READY] + len(late)}
        hopes = tuple(hope for hope in self.hopes if hope.until > now)
        return replace(self, zones=zones, failed=failed, hopes=hopes)


def see(explainer: Explainer, *, settled: bool) -> Sight:
    """`settled`: every node has an available pod of the current revision, so that none has to be looked at."""
    walk = _Walk(explainer)
    if not settled:
        walk.along()
    return Sight(
        budget=explainer.board.budget,
        zones=walk.zones(),
        failed={ailment.value: walk.ailments.count(ailment) for ailment in Ailment},
        blocks={block.value: block in walk.blocks for block in Block},
        unplanned=walk.unplanned(settled=settled),
        hopes=tuple(walk.hopes),
    )


class _Walk:
    """Along all nodes that are not as they should be. The loop is plain on purpose, as those of the board are."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer, self._board = explainer, explainer.board
        self._zones: dict[State, list[str]] = {state: [] for state in State}
        """One entry for each node that is not updated."""
        self.ailments: list[Ailment] = []
        self.hopes: list[Hope] = []
        self.blocks = set() if self._board.world.fresh else {Block.EXPECTATIONS}

    def along(self) -> None:
        explain, board = self._explainer.explain, self._board
        rules, nodes = board.world.rules, board.world.nodes
        run, old, updating = Fit.RUN, self._zones[State.OLD], self._zones[State.UPDATING]
        keepers, plain = self._explainer.keeping, self._explainer.fills_all
        obstacles: set[Obstacle | None] = {*keepers, *self._explainer.waiting}
        if keepers - {Obstacle.PAUSED}:
            obstacles.add(keeper_of(board))
        for zone, slot in zip(rules.zones(nodes), board.slots, strict=False):  # vanished nodes come last
            if slot.fit is not run:
                continue
            if slot.current is not None:
                if slot.old is not None or not slot.current_available:
                    self._see_current(slot.current, zone)
            elif slot.old is not None:
                old.append(zone)
            elif plain and not slot.pods:
                updating.append(zone)
            else:
                one = explain(slot)
                obstacles.add(one.obstacle)
                self._zones[self._of_empty(one)].append(zone)
                if one.state is NodeState.FAILING:
                    self.ailments.append(next((pod.ailment for pod in slot.pods if pod.ended), None) or Ailment.OTHER)
        self.blocks |= {one.row.block for one in obstacles if one is not None and one.row.block is not None}

    def unplanned(self, *, settled: bool) -> int:
        """As many as are in `NodeState.UNPLANNED`; while some is, so few or so many are not updated."""
        board, target = self._board, self._board.target
        if settled or (len(target) == board.budget.desired and not board.parted):
            return board.budget.desired - len(target)
        done = [slot for slot in target if slot.current_available and slot.old is None]
        planned = len([slot for slot in done if slot.selected]) if board.parted else len(done)
        return board.budget.desired - sum(map(len, self._zones.values())) - planned

    def _of_empty(self, one: Explanation) -> State:
        """An empty node counts by what comes: a pod of the current revision, or of an older one."""
        if one.state is NodeState.FAILING:
            return State.FAILED
        empty = one.state in (NodeState.MISSING, NodeState.UPDATING) and one.kept in (None, Obstacle.PAUSED)
        comes = empty and not self._board.fallback.replaces_current
        return State.UPDATING if comes and one.obstacle is not Obstacle.PLACEMENT else State.OLD

    def zones(self) -> dict[str, dict[str, int]]:
        found = {}
        counted = {state: Counter(zones) for state, zones in self._zones.items()}
        for zone, number in self._board.world.rules.eligible(self._board.world.nodes).items():
            numbers = {state.value: counted[state][zone] for state in State}
            found[zone] = {**numbers, State.UPDATED.value: number - sum(numbers.values())}
        return found

    def _see_current(self, pod: Pod, zone: str) -> None:
        if pod.ailment is not None:
            self.ailments.append(pod.ailment)
            self._zones[State.FAILED].append(zone)
            return
        self._zones[State.UPDATING].append(zone)
        if not pod.ready:
            self.hopes.append(Hope(zone=zone, until=pod.created + self._board.world.daemonset.progress_deadline))
