"""One pod as a value, changed in place by edits of its template and by a kubelet that a test moves step by step."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from controller.api.in_place import InPlaceState, UpdateInProgress, state_of
from controller.api.names import HASH_LABEL, IN_PLACE_STATE_ANNOTATION, IN_PLACE_UPDATE_READY
from controller.api.objects import JSONObject, rfc3339
from controller.api.pod import ManagedPodView, Pod, PodView, project
from controller.inplace.change import InPlaceChange, change_between
from controller.inplace.patches import continuing, draining, resizing, updating, updating_generation
from tests.beds.simulator.patching import json_patch
from tests.beds.worlds import NOW, OURS, ago, revision

Json = dict[str, Any]


def image(tag: str) -> str:
    return f"registry.example/agent:{tag}"


def container(tag: str = "v1", name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": image(tag), **fields}


def with_priority(name: str, key: Any) -> Json:
    """A container whose launch priority is read from this key."""
    variable = {"name": "KRUISE_CONTAINER_BARRIER", "valueFrom": {"configMapKeyRef": {"name": "x", "key": key}}}
    return container(name=name, env=[{"name": "OTHER", "value": "p_99"}, variable])


def template(*containers: Json, **metadata: Any) -> JSONObject:
    return {"metadata": {"labels": {"app": "demo"}, **metadata}, "spec": {"containers": list(containers)}}


def asks(cpu: str = "100m", memory: str = "64Mi") -> Json:
    """A container's resources."""
    return {"requests": {"cpu": cpu, "memory": memory}}


class ChangingPod:
    """Made of `made`, running and ready for a long time; every image's bits are called like its tag."""

    def __init__(self, made: JSONObject, *, gate: bool = True) -> None:
        self.template, self.hash = made, "v1"
        spec: Any = deepcopy(made["spec"])
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(ago(3600))}
        gates = [{"conditionType": IN_PLACE_UPDATE_READY}] if gate else []
        opened = [{"type": IN_PLACE_UPDATE_READY, "status": "True"}] if gate else []
        metadata: Any = deepcopy(made["metadata"])
        owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "uid": OURS, "controller": True}
        self.object: Json = {
            "metadata": {
                **metadata,
                "namespace": "default",
                "name": "demo-x",
                "uid": "uid-x",
                "resourceVersion": "1",
                "generation": 1,
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeName": "node-0",
                "containers": spec["containers"],
                "readinessGates": gates,
            },
            "status": {
                "phase": "Running",
                "observedGeneration": 1,
                "conditions": [*opened, ready],
                "containerStatuses": [_status(one["name"], one["image"], "c1") for one in spec["containers"]],
            },
        }
        self.object["metadata"]["labels"][HASH_LABEL] = "v1"

    # what the controller does

    def edit(self, hash_: str, new: JSONObject, *, at: float = NOW) -> InPlaceChange:
        """The template is another one, of which the pod gets what can be changed in place."""
        change = change_between(self.template, new, resizable=True)
        assert isinstance(change, InPlaceChange), change
        self._patch(updating(self.document, revision(hash_, 2, of=new), change, at))
        self.template, self.hash = new, hash_
        return change

    def drain(self, at: float = NOW) -> None:
        self._patch(draining(self.document, at))

    def go_on(self) -> None:
        """The next batch."""
        self._patch(continuing(self.document, revision(self.hash, 2, of=self.template), NOW))

    def count(self) -> None:
        """What comes before a resize where the spec was written."""
        self._patch(updating_generation(self.document))

    def resize(self) -> None:
        self._patch(resizing(self.document))

    # what the kubelet does

    def looks(self) -> None:
        """It has seen the newest spec."""
        self.object["status"]["observedGeneration"] = self.object["metadata"]["generation"]

    def starts(self, name: str = "main", *, id_: str, shown: str, bits: str = "", at: float = NOW + 1) -> None:
        """Another container, as the status tells of it."""
        count = self.entry(name)["restartCount"] + 1
        self.entry(name).update(_status(name, image(shown), id_, bits, at), restartCount=count)

    def waits(self, name: str = "main", reason: str = "ErrImagePull") -> None:
        """The old one is dead: its ids and names stay."""
        self.tells(name, ready=False, state={"waiting": {"reason": reason}})

    def tells(self, name: str = "main", **fields: Any) -> None:
        self.entry(name).update(deepcopy(fields))

    def entry(self, name: str = "main") -> Json:
        """Its container's status."""
        return next(one for one in self.object["status"]["containerStatuses"] if one["name"] == name)

    # what there is

    @property
    def document(self) -> ManagedPodView:
        return msgspec.json.decode(msgspec.json.encode(self.object), type=ManagedPodView)

    @property
    def record(self) -> Pod:
        found = project(msgspec.json.decode(msgspec.json.encode(self.object), type=PodView))
        assert found is not None
        return found

    @property
    def in_progress(self) -> UpdateInProgress | None:
        return self.record.in_progress

    @property
    def state(self) -> InPlaceState:
        found = state_of(self.object["metadata"].get("annotations"))
        assert found is not None
        return found

    @property
    def told(self) -> Json:
        """The state annotation."""
        found: Json = msgspec.json.decode(self.object["metadata"]["annotations"][IN_PLACE_STATE_ANNOTATION])
        return found

    def write(self, **state: Any) -> None:
        """The state annotation, as another client would."""
        self.object["metadata"]["annotations"] = {IN_PLACE_STATE_ANNOTATION: msgspec.json.encode(state).decode()}

    def _patch(self, operations: tuple[JSONObject, ...]) -> None:
        before = deepcopy(self.object["spec"])
        self.object = json_patch(deepcopy(self.object), list(operations))
        self.object["metadata"]["generation"] += self.object["spec"] != before


def _status(name: str, shown: str, id_: str, bits: str = "", started: float = NOW - 3600) -> Json:
    bits = bits or shown.rpartition(":")[2]
    return {
        "name": name,
        "ready": True,
        "image": shown,
        "imageID": f"registry.example/agent@sha256:{bits}",
        "containerID": f"containerd://{id_}",
        "restartCount": 0,
        "state": {"running": {"startedAt": rfc3339(started)}},
    }
