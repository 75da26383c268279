"""Events for changes made by hand, and the last log line of a failing container."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from controller.api.names import API_VERSION, KIND
from controller.api.objects import JSONObject, Key, ObjectMeta, View
from controller.kube.errors import ApiError
from controller.kube.requests import PODS, Request, Resource
from controller.kube.sender import Call
from kubectl_plugin.cluster.documents import side_by_side
from kubectl_plugin.cluster.session import PROGRAM, Session
from kubectl_plugin.rollout.gitops import LastAction
from kubectl_plugin.rollout.snapshot import Snapshot

REASONS: Final = {
    "pause": "Paused",
    "resume": "Resumed",
    "set-partition": "PartitionSet",
    "promote": "Promoted",
    "rollback": "RolledBack",
    "restart": "Restarted",
    "set-image": "ImageSet",
    "apply": "Applied",
}
_MESSAGE_LENGTH: Final = 1024
"""The API's limit for an Event's message, in characters."""
LINE_BYTES: Final = 2000
"""Bytes read of a log line."""
LOG_SECONDS: Final = 2.0
"""Seconds to wait for a kubelet, so that one that is down does not delay the report."""


class _InvolvedView(View):
    uid: str = ""


class EventView(View):
    metadata: ObjectMeta
    involved_object: _InvolvedView = _InvolvedView()
    message: str = ""


class EventMessage(NamedTuple):
    uid: str
    """UID of the involved object."""
    message: str


EVENTS: Final[Resource[EventView, EventMessage]] = Resource(
    plural="events",
    wire=EventView,
    project=lambda view: EventMessage(view.involved_object.uid, view.message),
)


async def record_event(session: Session, snapshot: Snapshot, result: str, done: LastAction) -> None:
    """Best effort: most users may not create Events, and their change has been made anyway."""
    try:
        await session.client.create(EVENTS, snapshot.key.namespace, _event(snapshot, result, done))
    except ApiError:
        return


def _event(snapshot: Snapshot, result: str, done: LastAction) -> JSONObject:
    daemonset = snapshot.daemonset
    by, why = f" by {done.by}" if done.by else "", f": {done.reason}" if done.reason else ""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{daemonset.name}.", "namespace": daemonset.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": daemonset.namespace,
            "name": daemonset.name,
            "uid": daemonset.uid,
        },
        "type": "Normal",
        "reason": REASONS[done.verb],
        "message": f"{result}{by}{why}"[:_MESSAGE_LENGTH],
        "source": {"component": PROGRAM},
        "reportingComponent": PROGRAM,
        "reportingInstance": done.client,
        "firstTimestamp": done.at,
        "lastTimestamp": done.at,
        "count": 1,
    }


async def last_log_line(session: Session, pod: Key, container: str) -> str:
    """The last line of the container's previous run; empty if unavailable. A pod's only container may be ""."""
    named = (("container", container),) if container else ()
    query = (("previous", "true"), ("tailLines", "1"), ("limitBytes", str(LINE_BYTES)), *named)
    call = Call(verb="get", what=f"pods/log {pod}")
    try:
        async with asyncio.timeout(LOG_SECONDS):
            answer = await session.sender.send(call, Request(method="GET", path=PODS.path(pod, "log"), query=query))
    except (ApiError, TimeoutError):
        return ""
    lines = answer.body.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


class LastLogLines:
    """Reads each line once per run of a container, however often a report is made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[Key, str, int], str] = {}

    async def of(self, asked: list[tuple[Key, str, int]]) -> dict[tuple[Key, str, int], str]:
        """Last lines by pod, container and restart count."""
        new = [one for one in asked if one not in self._known]
        said = await side_by_side(*(last_log_line(self._session, pod, container) for pod, container, _ in new))
        known = self._known | dict(zip(new, said, strict=True))
        self._known = {one: known[one] for one in asked}
        return self._known
