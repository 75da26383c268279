"""The last line in the log of a container that keeps failing, for those whose status has no message."""

from __future__ import annotations

import asyncio
from typing import Final

from controller.api.objects import Key
from controller.kube.errors import ApiError
from controller.kube.requests import PODS, Request
from controller.kube.sender import Call
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.side_by_side import side_by_side

LONGEST: Final = 2000
"""The most bytes of a line that are read."""
SECONDS: Final = 2.0
"""How long the kubelet is waited for: one that does not answer must not delay the rest of a report."""


async def last_log_line(session: Session, pod: Key, container: str) -> str:
    """The last line that the previous run of `container` wrote; empty if there is none or it cannot be read.

    `container`: may be empty for the only one of the pod.
    """
    named = (("container", container),) if container else ()
    query = (("previous", "true"), ("tailLines", "1"), ("limitBytes", str(LONGEST)), *named)
    call = Call(verb="get", what=f"pods/log {pod}")
    try:
        async with asyncio.timeout(SECONDS):
            answer = await session.sender.send(call, Request(method="GET", path=PODS.path(pod, "log"), query=query))
    except (ApiError, TimeoutError):
        return ""
    lines = answer.body.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


class LastLogLines:
    """Keeps the last lines, so that each is asked for once per run of a container, however often a report is made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[Key, str, int], str] = {}

    async def of(self, asked: list[tuple[Key, str, int]]) -> dict[tuple[Key, str, int], str]:
        """The last line for each pod, container and number of restarts in `asked`."""
        new = [one for one in asked if one not in self._known]
        said = await side_by_side(*(last_log_line(self._session, pod, container) for pod, container, _ in new))
        self._known = {one: self._known[one] for one in asked if one in self._known} | dict(
            zip(new, said, strict=True)
        )
        return self._known
