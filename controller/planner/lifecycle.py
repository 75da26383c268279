"""Every deletion that the planner wants goes through `retire`; nobody else knows that hooks exist."""

from __future__ import annotations

from controller.api.daemonset import LifecycleHook
from controller.api.pod import Pod
from controller.planner.actions import DeletePod, Why
from controller.planner.board import Board
from controller.planner.retries import is_held


def hooked(pod: Pod, hook: LifecycleHook | None) -> bool:
    """Whether the preDelete hook holds this pod: it has any of the labels, or any of the finalizers (§13.1)."""
    if hook is None:
        return False
    if any(pod.labels.get(key) == value for key, value in (hook.labels_handler or {}).items()):
        return True
    return any(finalizer in pod.finalizers for finalizer in hook.finalizers_handler or ())


def retire(pod: Pod, why: Why, board: Board) -> DeletePod | None:
    """The deletion of `pod`, or None while a preDelete hook holds it: it is never deleted past its hook."""
    if is_held(board.world, pod.uid):
        return None
    if hooked(pod, board.world.daemonset.pre_delete):
        return None
    return DeletePod(pod=pod.ref, node=pod.node, why=why)
