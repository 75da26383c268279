"""A pod that the preDelete hook holds, for `nodes`, for `status` and for programs."""

from __future__ import annotations

from controller.api.daemonset import LifecycleHook
from controller.api.objects import Value, epoch, rfc3339
from controller.api.pod import Pod
from controller.planner.blockers import handlers
from kubectl_plugin.durations import short_duration


class Preparing(Value, rename="camel"):
    node: str
    pod: str
    since: str | None
    """RFC 3339: when it was prepared for deletion; None if that was not recorded."""
    held_by: tuple[str, ...]
    """The labels and finalizers that have to be removed before it is deleted, in words."""

    def age(self, now: float) -> str:
        begun = epoch(self.since)
        return f" for {short_duration(now - begun)}" if begun is not None else ""

    @property
    def handlers(self) -> str:
        return " and ".join(self.held_by)

    def words(self, now: float, *, beside: str) -> str:
        """`beside`: the name of a pod that the line already has; it is not repeated."""
        who = "" if self.pod == beside else f"{self.pod} "
        return (
            f"{who}held{self.age(now)} by {self.handlers}; goes without {'it' if len(self.held_by) == 1 else 'them'}"
        )


def preparing(pod: Pod, hook: LifecycleHook | None) -> Preparing:
    since = rfc3339(pod.held_since) if pod.held_since is not None else None
    return Preparing(node=pod.node, pod=pod.name, since=since, held_by=handlers(pod, hook))
