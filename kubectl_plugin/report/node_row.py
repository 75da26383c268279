"""How one node stands in a rollout, in one word and the reason for it."""

from __future__ import annotations

from enum import StrEnum

from controller.api.base import Value
from controller.api.pod import Pod
from controller.planner.board import Board
from controller.planner.eligibility import Fit
from controller.planner.lifecycle import hooked
from controller.planner.slot import Slot
from kubectl_plugin.durations import short
from kubectl_plugin.report.exclusion import Exclusions
from kubectl_plugin.report.grouping import WITHOUT, group_of
from kubectl_plugin.report.snapshot import PodDetail, Snapshot
from kubectl_plugin.report.trouble import Trouble, trouble_of


class NodeState(StrEnum):
    UPDATED = "updated"
    """An available pod of the current revision."""
    UPDATING = "updating"
    """On its way: the old pod goes, or the new one is not available yet."""
    FAILING = "failing"
    """A pod of the current revision that does not get well by waiting."""
    NEXT = "next"
    """An old pod that may be replaced: its turn comes."""
    OLD = "old"
    """An old pod that partition or selector keeps."""
    MISSING = "missing"
    """No pod, although there should be one."""
    UNPLANNED = "unplanned"
    """Like updated, though partition or selector would have kept the old revision there."""
    DELETING = "deleting"
    """Its only pod is going, and another one of an older revision will come."""
    EXCLUDED = "excluded"
    """It should not run the pod."""


class NodeRow(Value):
    node: str
    group: str
    state: NodeState
    revision: int | None
    """Number of the revision that its pod has; None without a pod or for one that is not stored."""
    pod: PodDetail | None
    """The one that stands for the node: of the current revision, before an old one, before one that ends."""
    how: str
    """What its update is, or was: `re-create` or `surge`; empty where none is due."""
    why: str
    """Empty where there is nothing to say."""
    trouble: Trouble | None
    """Also of an old pod."""


class RowReader:
    """Reads the slots of one board."""

    def __init__(self, snapshot: Snapshot, board: Board, by: str) -> None:
        self._now, self._board, self._by = snapshot.now, board, by
        self._details = {one.pod.uid: one for one in snapshot.pods}
        self._numbers = {one.revision.hash: one.revision.number for one in reversed(snapshot.revisions)}
        self._nodes = {node.name: node for node in board.world.nodes}
        self._target = {slot.node for slot in board.target}
        self._exclusions = Exclusions(snapshot.daemonset.spec.template)

    def row(self, slot: Slot) -> NodeRow:
        pod = slot.current or slot.old or next(iter(slot.pods), None)
        detail = self._details.get(pod.uid) if pod is not None else None
        trouble = trouble_of(detail) if detail is not None else None
        state, why = self._excluded(slot) if slot.fit is not Fit.RUN else self._state(slot, detail, trouble)
        node = self._nodes.get(slot.node)
        return NodeRow(
            node=slot.node,
            group=group_of(node, self._by) if node else WITHOUT,
            state=state,
            revision=self._numbers.get(pod.hash) if pod is not None else None,
            pod=detail,
            how=self._how(state),
            why=why,
            trouble=trouble,
        )

    def _how(self, state: NodeState) -> str:
        if state not in (NodeState.NEXT, NodeState.UPDATING, NodeState.FAILING):
            return ""
        return "surge" if self._board.surging else "re-create"

    def _excluded(self, slot: Slot) -> tuple[NodeState, str]:
        node = self._nodes.get(slot.node)
        why = self._exclusions.why(node) if node else "the node is gone"
        return NodeState.EXCLUDED, f"{why}; its pod {'may stay' if slot.fit is Fit.STAY else 'must go'}" if (
            slot.pods and node
        ) else why

    def _state(self, slot: Slot, detail: PodDetail | None, trouble: Trouble | None) -> tuple[NodeState, str]:
        if slot.current is not None:
            return self._with_current(slot, slot.current, detail, trouble)
        if slot.old is not None:
            return self._with_old(slot, slot.old, trouble)
        if any(pod.ended and not pod.dying for pod in slot.pods):
            return NodeState.FAILING, trouble.brief if trouble else "its pod ended"
        may_get = slot.node in self._target
        if slot.pods:
            return (NodeState.UPDATING if may_get else NodeState.DELETING), "old pod is terminating"
        if (older := self._board.barred.get(slot.node)) is not None:
            return NodeState.MISSING, f"stays empty: revision {older.number or older.hash} does not run there"
        return NodeState.MISSING, "no pod yet"

    def _with_current(
        self, slot: Slot, pod: Pod, detail: PodDetail | None, trouble: Trouble | None
    ) -> tuple[NodeState, str]:
        if trouble is not None:
            return NodeState.FAILING, trouble.brief
        if not slot.current_available:
            return NodeState.UPDATING, self._not_available(pod, detail)
        if slot.old is not None:
            return NodeState.UPDATING, "its old pod goes now"
        if slot.node not in self._target or (self._board.parted and not slot.selected):
            words = "newer than the partition allows" if slot.selected else "rollingUpdate.selector leaves it out"
            return NodeState.UNPLANNED, words
        return NodeState.UPDATED, ""

    def _with_old(self, slot: Slot, pod: Pod, trouble: Trouble | None) -> tuple[NodeState, str]:
        suffix = f"; {trouble.brief}" if trouble else ""
        rolling = self._board.rolling_update
        if slot.node not in self._target:
            if not slot.selected:
                return NodeState.OLD, f"rollingUpdate.selector leaves it out{suffix}"
            return NodeState.OLD, f"kept by partition {self._board.budget.partition}{suffix}"
        if rolling is None:
            return NodeState.NEXT, f"OnDelete: when its pod is deleted{suffix}"
        if rolling.paused:
            return NodeState.NEXT, f"paused{suffix}"
        if hooked(pod, self._board.world.daemonset.pre_delete):
            return NodeState.NEXT, "the preDelete hook holds its pod"
        if slot.unreachable:
            return NodeState.NEXT, "the node is unreachable"
        if not slot.old_available:
            return NodeState.NEXT, f"at once: its old pod is not available{suffix}"
        return NodeState.NEXT, "waits for budget"

    def _not_available(self, pod: Pod, detail: PodDetail | None) -> str:
        age = short(self._now - pod.created)
        if pod.ready:
            since = short(self._now - (pod.ready_since or self._now))
            return f"ready for {since} of {self._board.world.daemonset.spec.min_ready_seconds}s"
        if detail is None or not detail.containers:
            return f"starting, {age}"
        waiting = next((one for one in (*detail.init_containers, *detail.containers) if one.waiting), None)
        if waiting is not None:
            return f"{waiting.name} {waiting.waiting}, {age}"
        running = next((one for one in detail.containers if not one.ready), None)
        return f"{running.name} not ready, {age}" if running else f"not ready, {age}"
