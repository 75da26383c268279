"""Every deletion that the planner wants goes through `retire`: never past what stands in its way."""

from __future__ import annotations

from controller.api.hindrance import Hindrance
from controller.api.pod import Pod
from controller.planner.actions import DeletePod, Why
from controller.planner.board import Board
from controller.planner.stops import to_deletion


def retire(pod: Pod, why: Why, board: Board, hindrance: Hindrance | None = None) -> DeletePod | None:
    """The deletion of `pod`, or None while something keeps it: it is never deleted past its preDelete hook."""
    if to_deletion(board, pod):
        return None
    return DeletePod(pod=pod.ref, node=pod.node, why=why, hindrance=hindrance)
