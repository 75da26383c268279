"""A kind for tests, small enough to be written on one line."""

from __future__ import annotations

import json

from controller.api.objects import JSON, JSONObject, Key, ObjectMeta, Value, View
from controller.kube.requests import Resource


class ThingSpec(View):
    size: int = 0
    color: str = ""


class ThingView(View):
    metadata: ObjectMeta
    spec: ThingSpec = ThingSpec()


class Thing(Value):
    name: str
    uid: str
    version: str
    size: int = 1
    color: str = ""
    namespace: str = "default"

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


def project(view: ThingView) -> Thing | None:
    """Things of size 0 are not ours; a negative size makes a thing unusable."""
    if view.spec.size < 0:
        raise ValueError(f"size {view.spec.size} is negative")
    if view.spec.size == 0:
        return None
    meta = view.metadata
    return Thing(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        size=view.spec.size,
        color=view.spec.color,
        namespace=meta.namespace,
    )


THINGS = Resource(group="example.com", plural="things", wire=ThingView, project=project)


def thing(
    name: str,
    version: int | str = 1,
    *,
    size: JSON = 1,
    color: str = "",
    uid: str = "",
) -> JSONObject:
    """A Thing as a server sends it. `size` may be something that no Thing can have."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "somebody"}],
        },
        "spec": {"size": size, "color": color},
    }


def line(kind: str, obj: JSONObject) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def bookmark(version: int | str, *, end: bool = False) -> bytes:
    annotations: JSONObject = {"annotations": {"k8s.io/initial-events-end": "true"}} if end else {}
    meta: JSONObject = {"resourceVersion": str(version), **annotations}
    return line("BOOKMARK", {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": meta, "spec": {"size": 0}})


def status(code: int, reason: str = "", message: str = "", causes: list[dict[str, str]] | None = None) -> bytes:
    details = {"details": {"causes": causes}} if causes else {}
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    return json.dumps({**body, "reason": reason, "message": message, **details}).encode()


def error_line(code: int, reason: str = "") -> bytes:
    return b'{"type":"ERROR","object":' + status(code, reason) + b"}\n"


def page(*objects: JSONObject, version: int | str = 1, token: str = "") -> bytes:
    meta = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return json.dumps({"kind": "ThingList", "metadata": meta, "items": list(objects)}).encode()
