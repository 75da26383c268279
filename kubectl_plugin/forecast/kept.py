"""Which nodes do not get the current revision, and what keeps it from them."""

from __future__ import annotations

from collections.abc import Iterator

from controller.api.base import Value
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.lifecycle import hooked
from controller.planner.slot import Slot


class Kept(Value):
    """Nodes with an older revision, or with no pod, in update order."""

    partition: tuple[str, ...] = ()
    selector: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    on_delete: tuple[str, ...] = ()
    scaling: tuple[str, ...] = ()
    """New nodes that partitionedScaling keeps without a pod."""
    placement: tuple[str, ...] = ()
    """They stay empty: the older revision that they would get does not run there."""
    hook: tuple[str, ...] = ()
    """The preDelete hook holds their old pods."""
    unreachable: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """The server accepts no pods of the new template; also where there is none at all."""
    budget: tuple[str, ...] = ()
    """It is their turn, but others without an available pod use up the limit."""

    def by_reason(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Name of the field and its nodes, only where there are any."""
        for field in self.__struct_fields__:
            if nodes := getattr(self, field):
                yield field, nodes


def kept_on(board: Board) -> Kept:
    """Who is left when the planner does nothing more on this board."""
    found: dict[str, list[str]] = {}
    may_hold = {slot.node for slot in board.may_hold_current}
    wanted = {slot.node for slot in board.target}
    for slot in reversed(board.slots):
        if slot.fit is Fit.RUN and slot.current is None:
            found.setdefault(_by_what(board, slot, slot.node in may_hold, slot.node in wanted), []).append(slot.node)
    found.pop("", None)
    return Kept(**{what: tuple(nodes) for what, nodes in found.items()})


def uses_budget(board: Board, slot: Slot) -> bool:
    """Whether it counts against maxUnavailable: it should have an available pod and has none (D7, D23)."""
    return slot.fit is Fit.RUN and (slot.unreachable or not slot.serves) and slot.node not in board.barred


def left_to_update(board: Board) -> tuple[str, ...]:
    """Who would be next on this board, in update order: without those that a hook holds or nobody can reach."""
    if board.rolling_update is None:
        return ()
    return tuple(slot.node for slot in board.outdated if not slot.unreachable and not _is_hooked(board, slot))


def _by_what(board: Board, slot: Slot, may_hold: bool, wanted: bool) -> str:
    """The name of a field of `Kept`; "" for a node that merely lacks its pod."""
    rolling = board.rolling_update
    if slot.old is None and slot.node in board.world.held_back:
        return "refused"
    if slot.node in board.barred:
        return "placement"
    if slot.old is None:
        return "scaling" if board.progressive and not slot.pods else ""
    if rolling is None:
        return "on_delete"
    if may_hold:
        return _by_what_though_it_may(board, slot)
    if rolling.paused and wanted:
        return "paused"
    return "partition" if slot.selected else "selector"


def _by_what_though_it_may(board: Board, slot: Slot) -> str:
    if board.world.verdicts.get(board.revision.hash):
        return "refused"
    if slot.unreachable:
        return "unreachable"
    return "hook" if _is_hooked(board, slot) else "budget"


def _is_hooked(board: Board, slot: Slot) -> bool:
    """Where a surge is wanted the new pod comes all the same, so there the hook only holds the old one beside it."""
    return not board.surging and slot.old is not None and hooked(slot.old, board.world.daemonset.pre_delete)
