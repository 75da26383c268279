"""The rolling update: which of the nodes that may hold the new revision move now (behaviour.md §9, §10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from controller.api.wellknown import HELD_BY_HOOK, TEMPLATE_REFUSED
from controller.planner.actions import ROOM, DeletePod, Note, ProbeTemplate, Step, Why, place_of
from controller.planner.board import Board
from controller.planner.conditions import Blocker, some
from controller.planner.creation import new_pod
from controller.planner.lifecycle import hooked, retire
from controller.planner.manifest import pod_name
from controller.planner.slot import Slot
from controller.planner.surplus import by_urgency


def roll_out(board: Board) -> Step:
    """Replace old pods within the budget; nothing when paused or OnDelete.

    Nothing either while the revision is not stored: nobody could go back from the one after it.
    """
    if paused(board) or not board.revision.uid:
        return Step()
    candidates = [slot for slot in board.outdated if not _fails(board, slot)]
    chosen = _surge_within(board, candidates) if board.surging else _replace_within(board, candidates)
    chosen = chosen[: board.budget.burst]
    step = _probed(board, chosen) if chosen else Step(actions=_retire_surplus(board))
    return msgspec.structs.replace(step, more=len(candidates) > len(chosen))


def _fails(board: Board, slot: Slot) -> bool:
    """Whether writes there failed more than once: it is tried again later, and the others go on meanwhile (D11)."""
    held_back = board.world.held_back
    return bool(held_back) and (slot.node in held_back or (slot.old is not None and slot.old.uid in held_back))


def paused(board: Board) -> bool:
    """Whether old pods stay until somebody deletes them: `paused`, or OnDelete."""
    return board.rolling_update is None or board.rolling_update.paused


def blocker(board: Board) -> Blocker | None:
    """Why nodes wait that should be updated now although nothing is paused; None while none do, or while it moves."""
    candidates = board.outdated
    if not candidates or paused(board):
        return None
    hook = board.world.daemonset.pre_delete
    held = [slot.old.name for slot in candidates if slot.old is not None and hooked(slot.old, hook)]
    if held and not board.surging:
        return Blocker(reason=HELD_BY_HOOK, text=f"the preDelete hook holds {some(held)}")
    silent = [slot.node for slot in candidates if slot.unreachable]
    if len(silent) == len(candidates):
        return Blocker(reason="NodesUnreachable", text=f"it is the turn of unreachable nodes: {some(silent)}")
    return None


def _replace_within(board: Board, candidates: Sequence[Slot]) -> list[Slot]:
    """Old pods that are unavailable at once; of the others as many as keep maxUnavailable (D7).

    On an unreachable node nothing would come of a deletion, so it only counts (D23).
    """
    at_once, within = by_urgency(candidates)
    return at_once + within[: max(board.budget.max_unavailable - board.unserved, 0)]


def _surge_within(board: Board, candidates: Sequence[Slot]) -> list[Slot]:
    """New pods beside unavailable old ones at once; beside others as many as keep maxSurge (D7)."""
    at_once, within = by_urgency([slot for slot in candidates if slot.single and not board.awaits_retry(slot)])
    return at_once + within[: max(board.budget.max_surge - board.surge_in_use, 0)]


def _probed(board: Board, chosen: list[Slot]) -> Step:
    """Act on the chosen nodes, but only with a template that the server's dry run accepted (D2)."""
    verdict = board.world.verdicts.get(board.revision.hash)
    if verdict is None or (verdict and board.world.now >= board.world.ask_at):
        node = chosen[0].node
        name = pod_name(board.world.daemonset, node, ("dry-run",), None)
        probe = ProbeTemplate(node=node, name=name, revision=board.revision)
        return Step() if place_of(probe) in board.world.held_back else Step(actions=(probe,), again=True)
    if verdict:
        text = f"The server refuses pods of the new template; no old pod is replaced: {verdict}"
        note = Note(warning=True, reason=TEMPLATE_REFUSED, message=text)
        return Step(notes=(note,), wake_at=board.world.ask_at)
    if board.surging:
        room = ROOM not in board.world.held_back
        beside = tuple(new_pod(board, slot, board.revision) for slot in chosen if room)
        return Step(actions=(*beside, *_retire_surplus(board)))
    return Step(actions=_retire(board, chosen, Why.OUTDATED))


def _retire_surplus(board: Board) -> tuple[DeletePod, ...]:
    """Whatever the quota is: these nodes get no new pod."""
    return _retire(board, board.surplus[: board.budget.burst], Why.SURPLUS)


def _retire(board: Board, slots: Iterable[Slot], why: Why) -> tuple[DeletePod, ...]:
    retired = (retire(slot.old, why, board) for slot in slots if slot.old is not None)
    return tuple(action for action in retired if action is not None)
