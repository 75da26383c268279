"""What a container that keeps failing said last, from its logs where its status does not tell."""

from __future__ import annotations

import asyncio
from typing import Final

from controller.api.meta import Key
from controller.kube.errors import ApiError
from controller.kube.kinds import PODS
from controller.kube.request import Request
from controller.kube.sender import Call
from kubectl_plugin.cluster.session import Session
from kubectl_plugin.cluster.side_by_side import side_by_side

LONGEST: Final = 2000
"""Bytes that are read of a line."""
SECONDS: Final = 2.0
"""A kubelet that does not answer must not keep anybody from the rest."""


async def last_log_line(session: Session, pod: Key, container: str) -> str:
    """The last line that the former run of `container` wrote; empty where there is none, or we may not read it."""
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
    """Asks once for each end of each container, however often one looks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[Key, str, int], str] = {}

    async def of(self, asked: list[tuple[Key, str, int]]) -> dict[tuple[Key, str, int], str]:
        """By pod, container and number of restarts."""
        new = [one for one in asked if one not in self._known]
        said = await side_by_side(*(last_log_line(self._session, pod, container) for pod, container, _ in new))
        self._known = {one: self._known[one] for one in asked if one in self._known} | dict(
            zip(new, said, strict=True)
        )
        return self._known
