"""Which pods will not become ready by themselves, and why, in words."""

from __future__ import annotations

from controller.api.containers import stuck
from controller.api.objects import Value
from kubectl_plugin.report.snapshot import Container, PodDetail


class Trouble(Value, rename="camel"):
    """What is wrong with one pod."""

    reason: str
    container: str = ""
    """The container at fault; empty if it is the pod as a whole."""
    restarts: int = 0
    exit_code: int | None = None
    message: str = ""
    """The words of the container or the cluster; may be empty."""

    @property
    def brief(self) -> str:
        """`CrashLoopBackOff, exit 1`."""
        return self.reason if self.exit_code is None else f"{self.reason}, exit {self.exit_code}"


def trouble_of(detail: PodDetail) -> Trouble | None:
    """What is wrong with the pod; None while it may become ready by itself, as while a container starts."""
    pod = detail.pod
    if pod.phase == "Failed":
        container = next((one for one in detail.all_containers if one.exit_code), None)
        return Trouble(
            reason=detail.reason or "Failed",
            container=container.name if container else "",
            restarts=detail.restarts,
            exit_code=container.exit_code if container else None,
            message=detail.message or (container.message if container else ""),
        )
    if detail.unschedulable:
        return Trouble(reason="Unschedulable", message=detail.unschedulable)
    for container in detail.all_containers:
        replaced = container.name in detail.replaced
        reason = _reason(container, replaced=replaced)
        if reason and not (container.ready and pod.ready):
            return Trouble(
                reason=reason,
                container=container.name,
                restarts=container.restarts,
                exit_code=None if replaced else container.exit_code,
                message=container.message,
            )
    return None


def _reason(container: Container, *, replaced: bool) -> str:
    """`replaced`: the container waits after an update in place, so the end of the former one says
    nothing about it."""
    if replaced and container.waiting == "CrashLoopBackOff":
        return "ImagePullBackOff"
    code = None if replaced else container.exit_code
    return stuck(waiting=container.waiting, ready=container.ready, exit_code=code, ended=container.ended)
