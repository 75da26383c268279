"""The texts about the preDelete hook: which pods it holds, or that it matches none."""

from __future__ import annotations

from collections.abc import Iterable

from controller.api.meta import rfc3339
from controller.api.text import listed
from controller.api.wellknown import HOOK_UNMATCHED
from controller.planner.board import Board
from controller.planner.explanation import Explainer
from controller.planner.kstatus_conditions import Condition
from controller.planner.obstacle_checks import handlers, hooked


def holding(explainer: Explainer) -> str:
    """Which pods the hook holds, by what and since when; empty: none. It does not change because time passes."""
    pods, hook = explainer.held_by_hook, explainer.board.world.daemonset.pre_delete
    if not pods:
        return ""
    names = some(pod.name for pod in pods)
    held_by = listed(dict.fromkeys(one for pod in pods for one in handlers(pod, hook)), separator=" and ")
    since = min((pod.held_since for pod in pods if pod.held_since is not None), default=None)
    when = "" if since is None else f" since {rfc3339(since)}"
    return f"the preDelete hook holds {names} by {held_by}{when}"


def unmatched_hook(board: Board) -> tuple[Condition, ...]:
    """A warning while no pod has what the hook looks for; something other than the template may still add it. Pods
    that are being deleted, or were released by the hook, do not count."""
    hook = board.world.daemonset.pre_delete
    if hook is None:
        return ()
    live = [pod for slot in board.slots for pod in slot.live]
    if all(pod.held_by_hook for pod in live) or any(hooked(pod, hook) for pod in live):
        return ()
    labels = [f"label {key}={value}" for key, value in (hook.labels_handler or {}).items()]
    wanted = listed(
        [*labels, *(f"finalizer {one}" for one in sorted(hook.finalizers_handler or ()))], separator=" or "
    )
    text = f"no pod has {wanted}: the preDelete hook holds none of them back"
    return (Condition(type=HOOK_UNMATCHED, status="True", reason="NoPodMatches", message=text),)


def some(names: Iterable[str]) -> str:
    """The first three names, and how many more follow."""
    known = list(names)
    shown = ", ".join(known[:3])
    return f"{shown} and {len(known) - 3} more" if len(known) > 3 else shown
