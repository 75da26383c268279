"""What one pass saw, as numbers: where the nodes stand, which of them fail and why, and what an update waits for.

Metrics show it until the next pass. Nodes are counted as the kubectl plugin counts them, and only those that should
run a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec.structs import replace

from controller.api.ailment import Ailment
from controller.api.base import Value
from controller.api.pod import Pod
from controller.api.wellknown import HELD_BY_HOOK
from controller.planner.board import Board
from controller.planner.budget import Budget
from controller.planner.conditions import Blocker
from controller.planner.eligibility import Fit
from controller.planner.slot import Slot


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


class Block(StrEnum):
    """What keeps nodes from the current revision although they should run it."""

    PAUSED = "Paused"
    PARTITION = "Partition"
    SELECTOR = "Selector"
    BUDGET = "Budget"
    """maxUnavailable or maxSurge is used up."""
    PRE_DELETE_HOOK = "PreDeleteHook"
    EXPECTATIONS = "Expectations"
    """The caches have not shown our own writes for a second."""
    TEMPLATE_REFUSED = "TemplateRefused"
    ON_DELETE = "OnDelete"
    """Somebody has to delete the old pods."""


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


def see(board: Board, *, settled: bool, blocker: Blocker | None) -> Sight:
    """`settled`: every node has an available pod of the current revision, so that none has to be looked at."""
    walk = _Walk(board)
    if not settled:
        walk.along()
    blocks = walk.blocks(blocker)
    return Sight(
        budget=board.budget,
        zones=walk.zones(),
        failed={ailment.value: walk.ailments.count(ailment) for ailment in Ailment},
        blocks={block.value: block in blocks for block in Block},
        unplanned=walk.unplanned(),
        hopes=tuple(walk.hopes),
    )


class _Walk:
    """Along all nodes that are not as they should be. The loops are plain on purpose, as those of the board are."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._eligible = board.world.rules.eligible(board.world.nodes)
        self._patience = board.world.daemonset.progress_deadline
        self._updating: list[str] = []
        self._failed: list[str] = []
        self._old: list[str] = []
        """Their zones, one entry for each node."""
        self.ailments: list[Ailment] = []
        self.hopes: list[Hope] = []
        self.done = len(board.target)
        """Of the target, how many are updated."""
        self._kept = self._kept_unselected = self._waiting = self._waiting_serves = False

    def along(self) -> None:
        everybody, lacking = self._targeted()
        rules, nodes, barred = self._board.world.rules, self._board.world.nodes, self._board.barred
        run, updating, old = Fit.RUN, self._updating, self._old
        waiting: list[Slot] = []
        for zone, slot in zip(rules.zones(nodes), self._board.slots, strict=False):  # vanished nodes come last
            if slot.fit is not run:
                continue
            if slot.current is not None:
                if slot.old is not None or not slot.current_available:
                    self._see_current(slot.current, zone)
                continue
            targeted = everybody or slot.node in lacking
            if not targeted:
                self._keep(slot)
            if slot.old is not None or slot.node in barred:
                old.append(zone)
                if targeted:
                    waiting.append(slot)
            elif not (slot.pods and self._see_ended(slot.pods, zone)):
                (updating if targeted else old).append(zone)
        self._waiting = bool(waiting)
        self._waiting_serves = any(slot.old_available for slot in waiting)
        if everybody:
            self.done = self.updated()

    def _keep(self, slot: Slot) -> None:
        """Partition or selector keep it from the current revision."""
        self._kept = True
        self._kept_unselected = self._kept_unselected or not slot.selected

    def updated(self) -> int:
        return self._board.budget.desired - len(self._updating) - len(self._failed) - len(self._old)

    def unplanned(self) -> int:
        """Updated ones outside the target, and those in it only because they are updated: none selects them."""
        beyond = self.updated() - self.done
        if not self._board.parted:
            return beyond
        return beyond + sum(
            1 for slot in self._board.target if not slot.selected and slot.current_available and slot.old is None
        )

    def zones(self) -> dict[str, dict[str, int]]:
        found = {}
        updating, failed, old = Counter(self._updating), Counter(self._failed), Counter(self._old)
        for zone, number in self._eligible.items():
            found[zone] = {
                State.UPDATED.value: number - updating[zone] - failed[zone] - old[zone],
                State.UPDATING.value: updating[zone],
                State.FAILED.value: failed[zone],
                State.OLD.value: old[zone],
            }
        return found

    def blocks(self, blocker: Blocker | None) -> set[Block]:
        """What is in the way; several may be."""
        board = self._board
        found = self._waited_for(blocker) if self._waiting else set()
        if self._kept and board.budget.partition and len(board.target) >= board.quota:
            found.add(Block.PARTITION)
        if self._kept_unselected:
            found.add(Block.SELECTOR)
        if not board.world.fresh:
            found.add(Block.EXPECTATIONS)
        return found

    def _waited_for(self, blocker: Blocker | None) -> set[Block]:
        """What nodes wait for that have only an old pod and may get a new one."""
        board, found = self._board, set()
        rolling = board.rolling_update
        if rolling is None:
            found.add(Block.ON_DELETE)
        elif rolling.paused:
            found.add(Block.PAUSED)
        elif self._waiting_serves and _is_used_up(board):
            found.add(Block.BUDGET)
        if board.world.verdicts.get(board.revision.hash):
            found.add(Block.TEMPLATE_REFUSED)
        if blocker is not None and blocker.reason == HELD_BY_HOOK:
            found.add(Block.PRE_DELETE_HOOK)
        return found

    def _targeted(self) -> tuple[bool, set[str]]:
        """Whether the target is everybody; if not, its nodes that lack the current revision."""
        target = self._board.target
        if len(target) == self._board.budget.desired:
            return True, set()
        lacking, done = set(), 0
        for slot in target:
            if slot.current is None:
                lacking.add(slot.node)
            elif slot.current_available and slot.old is None:
                done += 1
        self.done = done
        return False, lacking

    def _see_current(self, pod: Pod, zone: str) -> None:
        if pod.ailment is not None:
            self.ailments.append(pod.ailment)
            self._failed.append(zone)
            return
        self._updating.append(zone)
        if not pod.ready:
            self.hopes.append(Hope(zone=zone, until=pod.created + self._patience))

    def _see_ended(self, pods: Iterable[Pod], zone: str) -> bool:
        """Whether one of these, the pods of a slot, has ended and holds its place until it is deleted."""
        ended = next((pod for pod in pods if pod.ended), None)
        if ended is None:
            return False
        self.ailments.append(ended.ailment or Ailment.OTHER)
        self._failed.append(zone)
        return True


def _is_used_up(board: Board) -> bool:
    if board.surging:
        return board.surge_in_use >= board.budget.max_surge
    return board.unserved >= board.budget.max_unavailable
