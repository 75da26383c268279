"""Objects that an API server stores and nobody should have to read: deep, long, wide, at the ends of numbers and of
Unicode. Each is JSON text, because no encoder writes the deepest ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from controller.api.names import API_VERSION

Shape = Callable[[int], str]
"""JSON of about so many bytes."""

NAMESPACE = "default"
MARK = '"@@"'
LARGEST = 1_400_000
"""Bytes of one value; an object of more than 1.5 MiB is refused by etcd."""
ANNOTATIONS = 250_000
"""Bytes of all annotations of an object."""


def _many(entry: Callable[[int], str], around: str = "[]") -> Shape:
    def shape(size: int) -> str:
        count = max(size // (len(entry(10_000)) + 1), 1)
        return around[0] + ",".join(map(entry, range(count))) + around[1]

    return shape


_PLANES = "".join(chr(one) for one in range(1, 0x110000, 37) if not 0xD800 <= one <= 0xDFFF)


def _unicode(size: int) -> str:
    return json.dumps((_PLANES * (size // len(_PLANES) + 1))[: size // 4], ensure_ascii=False)


NUMBERS = ("1.7976931348623157e308", "5e-324", "-0.0", "9223372036854775807", "-9223372036854775808", "1e-999")

SHAPES: Mapping[str, Shape] = {
    "objects in objects": lambda size: '{"a":' * (size // 6) + "{}" + "}" * (size // 6),
    "lists in lists": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "as deep as a decoder goes": _many(lambda n: '{"a":' * 400 + "1" + "}" * 400),
    "a long text": lambda size: '"' + "x" * size + '"',
    "a long text of quotes": lambda size: '"' + '\\"' * (size // 2) + '"',
    "a long quantity": lambda size: '"' + "9" * size + '"',
    "quantities": _many(lambda n: f'"k{n}":"{"9" * 60}E"', "{}"),
    "every character": _unicode,
    "control characters": lambda size: json.dumps("\u0001name\u0001\u0001node\u0001" * (size // 70 + 1)),
    "a wide object": _many(lambda n: f'"k{n}":{n}', "{}"),
    "a map of texts": _many(lambda n: f'"k{n}":"v{n}"', "{}"),
    "a wide list": _many(lambda n: "0"),
    "a list of texts": _many(lambda n: f'"v-{n}"'),
    "a list of variables": _many(lambda n: f'{{"name":"a{n}","value":"s3cr3t-{n}"}}'),
    "numbers": _many(lambda n: NUMBERS[n % len(NUMBERS)]),
    "tolerations": _many(lambda n: f'{{"key":"k{n}","operator":"Exists","effect":"NoSchedule"}}'),
    "terms": lambda size: (
        '{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":'
        + _many(lambda n: f'{{"matchExpressions":[{{"key":"k{n}","operator":"Exists"}}]}}')(size)
        + "}}}"
    ),
    "one long term": lambda size: (
        '{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":'
        + _many(lambda n: f'{{"key":"k{n}","operator":"DoesNotExist"}}')(size)
        + "}]}}}"
    ),
    "null": lambda size: "null",
}
"""Of whatever a schemaless field may hold."""


def no_number(size: int) -> str:
    """Raw data is stored as it came: no server reads it as a number."""
    return "9" * size


IN_A_TEMPLATE = (
    "metadata", "metadata.labels", "metadata.annotations", "metadata.finalizers", "spec", "spec.containers",
    "spec.containers.0.env", "spec.containers.0.args", "spec.containers.0.image",
    "spec.containers.0.resources.limits", "spec.containers.0.resources.limits.cpu", "spec.nodeSelector",
    "spec.tolerations", "spec.affinity", "spec.volumes", "spec.nodeName", "spec.hostNetwork", "unknown",
)  # fmt: skip

LABELLED = _many(lambda n: f'"example.com/k{n}":"v{n}"', "{}")
CONDITIONS = _many(lambda n: f'{{"type":"T{n}","status":"False","reason":"R","message":"m{n}"}}')
_WAITING = '"state":{"waiting":{"reason":"CrashLoopBackOff"}}'
STATUSES = _many(lambda n: f'{{"name":"c{n}","ready":false,"restartCount":2147483647,{_WAITING}}}')

TYPED: Mapping[str, Mapping[str, Shape]] = {
    "daemonsets": {
        "metadata.annotations": lambda size: LABELLED(min(size, ANNOTATIONS)),
        "metadata.annotations.a": lambda size: SHAPES["every character"](min(size, ANNOTATIONS)),
        "metadata.finalizers": _many(lambda n: f'"example.com/f{n}"'),
        "metadata.labels": LABELLED,
        "spec.selector.matchLabels": LABELLED,
        "spec.selector.matchExpressions": _many(lambda n: f'{{"key":"k{n}","operator":"DoesNotExist"}}'),
        "spec.updateStrategy.rollingUpdate.selector.matchLabels": LABELLED,
        "spec.updateStrategy.rollingUpdate.selector.matchExpressions": _many(
            lambda n: f'{{"key":"k{n}","operator":"DoesNotExist"}}'
        ),
        "spec.lifecycle.preDelete.labelsHandler": LABELLED,
        "spec.lifecycle.preDelete.finalizersHandler": _many(lambda n: f'"example.com/f{n}"'),
        "status.conditions": CONDITIONS,
        "status.updateRevision": SHAPES["a long text"],
    },
    "controllerrevisions": {
        "data": no_number,
        "data.spec.template.spec.priority": no_number,
        "metadata.labels": LABELLED,
        "metadata.annotations": lambda size: LABELLED(min(size, ANNOTATIONS)),
    },
    "pods": {
        "metadata.labels": LABELLED,
        "metadata.annotations": lambda size: LABELLED(min(size, ANNOTATIONS)),
        "metadata.finalizers": _many(lambda n: f'"example.com/f{n}"'),
        "metadata.ownerReferences": _many(lambda n: f'{{"apiVersion":"v1","kind":"X","name":"x{n}","uid":"u{n}"}}'),
        "spec.affinity": SHAPES["terms"],
        "spec.containers": _many(lambda n: f'{{"name":"c{n}","image":"i"}}'),
        "status.conditions": CONDITIONS,
        "status.containerStatuses": STATUSES,
        "status.reason": SHAPES["every character"],
        "status.message": SHAPES["a long text"],
    },
    "nodes": {
        "metadata.labels": LABELLED,
        "metadata.annotations": lambda size: LABELLED(min(size, ANNOTATIONS)),
        "spec.taints": _many(lambda n: f'{{"key":"k{n}","effect":"NoSchedule"}}'),
        "status.images": _many(lambda n: f'{{"names":["i{n}"],"sizeBytes":9223372036854775807}}'),
        "status.conditions": CONDITIONS,
    },
}  # fmt: skip
"""Of fields that have a schema."""


Place = tuple[str, str, str, Shape]
"""Plural, path, the name of a shape, and the shape."""


def places() -> Iterator[Place]:
    for path in IN_A_TEMPLATE:
        for name, shape in SHAPES.items():
            yield "daemonsets", f"spec.template.{path}", name, shape
            yield "controllerrevisions", f"data.spec.template.{path}", name, shape
    for name, shape in SHAPES.items():
        yield "controllerrevisions", "data", name, shape
    for plural, typed in TYPED.items():
        for path, shape in typed.items():
            yield plural, path, "many", shape


def plain(plural: str, name: str) -> dict[str, object]:
    """An object of this kind as anybody has it."""
    labels = {"app": name}
    meta: dict[str, object] = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "generation": 1,
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "demo:v1", "resources": {"limits": {}}}]},
    }
    owner = {"apiVersion": API_VERSION, "kind": "DaemonSet", "name": name, "uid": f"uid-{name}", "controller": True}
    match plural:
        case "daemonsets":
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
            spec = {"selector": {"matchLabels": labels}, "template": template, "updateStrategy": strategy}
            return {"metadata": meta, "spec": spec}
        case "controllerrevisions":
            meta |= {"name": f"{name}-old", "uid": f"uid-{name}-old", "labels": labels, "ownerReferences": [owner]}
            return {"metadata": meta, "revision": 1, "data": {"spec": {"template": template}}}
        case "pods":
            meta |= {"name": f"{name}-pod", "uid": f"uid-{name}-pod", "labels": labels, "ownerReferences": [owner]}
            return {"metadata": meta, "spec": {"nodeName": "node-0"}, "status": {"phase": "Running"}}
        case _:
            return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "labels": {}}}


def with_value(document: dict[str, object], path: str, value: str) -> bytes:
    """`document` as JSON, with this JSON at that path."""
    inner: object = document
    *parents, last = path.split(".")
    for parent in parents:
        if isinstance(inner, list):
            inner = inner[int(parent)]
        else:
            assert isinstance(inner, dict)
            inner = inner.setdefault(parent, {})
    assert isinstance(inner, dict)
    inner[last] = "@@"
    return json.dumps(document).replace(MARK, value).encode()
