"""An Event on the DaemonSet for a change made by hand: `kubectl describe` lists it among the controller's Events."""

from __future__ import annotations

from typing import Final, NamedTuple

from controller.api.names import API_VERSION, KIND
from controller.api.objects import JSONObject, ObjectMeta, View
from controller.kube.errors import ApiError
from controller.kube.requests import Resource
from kubectl_plugin.cluster.session import PROGRAM, Session
from kubectl_plugin.report.last_action import LastAction
from kubectl_plugin.report.snapshot import Snapshot

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
_LONGEST: Final = 1024
"""Characters that the server accepts in an Event's message."""


class _InvolvedView(View):
    uid: str = ""


class EventView(View):
    metadata: ObjectMeta
    involved_object: _InvolvedView = _InvolvedView()
    message: str = ""


class EventMessage(NamedTuple):
    """The part of an Event that is read."""

    uid: str
    """UID of the object that the Event is about."""
    message: str


EVENTS: Final[Resource[EventView, EventMessage]] = Resource(
    plural="events",
    wire=EventView,
    project=lambda view: EventMessage(view.involved_object.uid, view.message),
)


async def record_event(session: Session, snapshot: Snapshot, result: str, done: LastAction) -> None:
    """Best effort: most people may not create Events, and their change has been made all the same."""
    try:
        await session.client.create(EVENTS, snapshot.key.namespace, _event(snapshot, result, done))
    except ApiError:
        return


def _event(snapshot: Snapshot, result: str, done: LastAction) -> JSONObject:
    daemonset = snapshot.daemonset
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
        "message": _message(result, done)[:_LONGEST],
        "source": {"component": PROGRAM},
        "reportingComponent": PROGRAM,
        "reportingInstance": done.client,
        "firstTimestamp": done.at,
        "lastTimestamp": done.at,
        "count": 1,
    }


def _message(result: str, done: LastAction) -> str:
    by = f" by {done.by}" if done.by else ""
    return f"{result}{by}: {done.reason}" if done.reason else f"{result}{by}"
