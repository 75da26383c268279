"""The rolling update: which nodes may hold the new revision, and which of them move now (behaviour.md §9, §10)."""

from __future__ import annotations

import msgspec

from controller.api.wellknown import HELD_BY_HOOK, TEMPLATE_REFUSED
from controller.planner.actions import Action, CreatePod, Note, ProbeTemplate, Step, Why
from controller.planner.board import Board, Slot
from controller.planner.eligibility import Fit
from controller.planner.lifecycle import hooked, retire
from controller.planner.manifest import pod_name
from controller.planner.status import Blocker


def holds_back(board: Board) -> bool:
    """Whether partition, selector or pause may keep nodes on an older revision."""
    rolling = board.rolling_update
    if rolling is None or not board.older:
        return False
    return bool(board.budget.partition or rolling.selector is not None or rolling.paused)


def may_hold_current(board: Board) -> tuple[Slot, ...]:
    """The eligible nodes that may hold the current revision, in update order: node names descending (D8).

    Nodes that have it come first and fill the quota of `desired - partition`; then selected nodes by name. While
    paused only those that have it already. A lost or added pod elsewhere comes from the newest older revision (D9).
    Pods of a revision that nobody has stored are old ones like any other: adopted ones may well be.
    """
    rolling = board.rolling_update
    eligible = [slot for slot in reversed(board.slots) if slot.fit is Fit.RUN]
    if rolling is None:
        return tuple(eligible)
    updated = [slot for slot in eligible if slot.current is not None]
    if rolling.paused and _incomplete(board, eligible):
        return tuple(updated)
    rest = [slot for slot in eligible if slot.current is None and slot.selected]
    return tuple((updated + rest)[: max(board.budget.desired - board.budget.partition, 0)])


def _incomplete(board: Board, eligible: list[Slot]) -> bool:
    """Whether a node still has, or last had, a pod of an older revision."""
    hash_ = board.revision.hash
    before = board.world.predecessors
    for slot in eligible:
        if slot.current is None:
            if any(pod.hash != hash_ for pod in slot.pods):
                return True
            if not slot.pods and slot.node in before and before[slot.node].hash != hash_:
                return True
    return False


def roll_out(board: Board) -> Step:
    """Replace old pods within the budget; nothing when paused or OnDelete."""
    if paused(board):
        return Step()
    candidates = outdated(board)
    if not candidates:
        return Step()
    chosen = _surge_within(board, candidates) if board.surging else _replace_within(board, candidates)
    chosen = chosen[: board.budget.burst]
    return msgspec.structs.replace(_probed(board, chosen), more=len(candidates) > len(chosen))


def paused(board: Board) -> bool:
    """Whether old pods stay until somebody deletes them: `paused`, or OnDelete."""
    return board.rolling_update is None or board.rolling_update.paused


def outdated(board: Board) -> list[Slot]:
    """The nodes that wait for the new revision: they may hold it, and only an old pod is there."""
    return [slot for slot in may_hold_current(board) if slot.current is None and slot.old is not None]


def blocker(board: Board) -> Blocker | None:
    """Why nodes wait for the new revision although nothing is paused; None while they do not, or while it moves."""
    waiting = [slot for slot in board.slots if slot.fit is Fit.RUN and slot.current is None and slot.old is not None]
    if not waiting or paused(board):
        return None
    candidates = outdated(board)
    if not candidates:
        left = [slot for slot in waiting if not slot.selected]
        if len(left) == len(waiting):
            return Blocker(reason="SelectorReached", text=f"rollingUpdate.selector leaves out {len(left)} old ones")
        return None  # the partition, which status tells of by itself
    hook = board.world.daemonset.pre_delete
    held = [slot.old.name for slot in candidates if slot.old is not None and hooked(slot.old, hook)]
    if held and not board.surging:
        return Blocker(reason=HELD_BY_HOOK, text=f"the preDelete hook holds {_some(held)}")
    silent = [slot.node for slot in candidates if slot.unreachable]
    if len(silent) == len(candidates):
        return Blocker(reason="NodesUnreachable", text=f"only unreachable nodes are left: {_some(silent)}")
    return None


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _replace_within(board: Board, candidates: list[Slot]) -> list[Slot]:
    """Old pods that are unavailable at once; of the others as many as keep maxUnavailable (D7).

    Every eligible node without an available pod uses budget, whatever the reason. On an unreachable node nothing
    would come of a deletion, so it only counts (D23), even while its pod's last word was "ready".
    """
    unavailable = sum(
        1
        for slot in board.slots
        if slot.fit is Fit.RUN and (slot.unreachable or not (slot.current_available or slot.old_available))
    )
    at_once, within = _by_urgency(candidates)
    return at_once + within[: max(board.budget.max_unavailable - unavailable, 0)]


def _surge_within(board: Board, candidates: list[Slot]) -> list[Slot]:
    """New pods beside unavailable old ones at once; beside others as many as keep maxSurge (D7).

    A node whose new pod failed and waits for its back-off keeps its surge slot (B-8).
    """
    hash_ = board.revision.hash
    surging = sum(1 for slot in board.slots if slot.current is not None and slot.old is not None)
    waiting = {slot.node for slot in candidates if any(pod.ended and pod.hash == hash_ for pod in slot.pods)}
    free = [slot for slot in candidates if slot.node not in waiting]
    at_once, within = _by_urgency(free)
    return at_once + within[: max(board.budget.max_surge - surging - len(waiting), 0)]


def _by_urgency(candidates: list[Slot]) -> tuple[list[Slot], list[Slot]]:
    """Nodes whose old pod serves nobody, and nodes whose old pod does; without the unreachable ones (D23)."""
    reachable = [slot for slot in candidates if not slot.unreachable]
    return (
        [slot for slot in reachable if not slot.old_available],
        [slot for slot in reachable if slot.old_available],
    )


def _probed(board: Board, chosen: list[Slot]) -> Step:
    """Act on the chosen nodes, but only with a template that the server's dry run accepted (D2)."""
    if not chosen:
        return Step()
    verdict = board.world.verdicts.get(board.revision.hash)
    if verdict is None or (verdict and board.world.now >= board.world.ask_at):
        node = chosen[0].node
        name = pod_name(board.world.daemonset, node, board.revision.hash, ("dry-run",), None)
        probe = ProbeTemplate(node=node, name=name, revision=board.revision)
        return Step(actions=(probe,), wake_at=board.world.now)  # it stores nothing, so no event brings the next pass
    if verdict:
        text = f"The server refuses pods of the new template; no old pod is replaced: {verdict}"
        note = Note(warning=True, reason=TEMPLATE_REFUSED, message=text)
        return Step(notes=(note,), wake_at=board.world.ask_at)
    if board.surging:
        return Step(actions=tuple(_create_beside(board, slot) for slot in chosen))
    retired = (retire(slot.old, Why.OUTDATED, board) for slot in chosen if slot.old is not None)
    actions: tuple[Action, ...] = tuple(action for action in retired if action is not None)
    return Step(actions=actions)


def _create_beside(board: Board, slot: Slot) -> CreatePod:
    world = board.world
    before = world.predecessors.get(slot.node)
    name = pod_name(world.daemonset, slot.node, board.revision.hash, slot.uids, before)
    return CreatePod(node=slot.node, name=name, revision=board.revision)
