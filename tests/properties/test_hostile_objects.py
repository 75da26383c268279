"""Whatever an API server can store costs that object at most, and holds the event loop for no long turn."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

import hypothesis.strategies as st
import msgspec
from hypothesis import Phase, example, given, settings

from controller import app
from controller.api.names import API_VERSION
from controller.kube.requests import Request, Response
from controller.observe.metrics import Metrics
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.controller.running import SHARED
from tests.beds.virtual_time import TimedLoop, answered, clock, unit
from tests.properties.size import every_day

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
    """A usual object of this kind."""
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


CHUNK = 64 * 1024
END = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"900",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
)
QUOTED = 20_000
"""Characters of a pod that are quoted."""


class Feed:
    """One watch: the initial objects, then what is sent."""

    status = 200
    retry_after: float | None = None
    date = ""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        for line in lines:
            self.send(line)

    def send(self, line: bytes) -> None:
        for start in range(0, len(line) + 1, CHUNK):
            self._parts.put_nowait((line + b"\n")[start : start + CHUNK])

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)  # bytes come from outside of the loop
            yield await self._parts.get()


class HostileServer:
    """Implements `Transport`. `objects`: by plural, each as JSON."""

    def __init__(self, objects: Mapping[str, Sequence[bytes]]) -> None:
        self._objects = objects
        self._feeds: dict[str, Feed] = {}
        self._version = 1000
        self.asked: list[str] = []
        """Method and path of every request."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Feed]:
        plural = request.path.rpartition("/")[2]
        added = [b'{"type":"ADDED","object":' + one + b"}" for one in self._objects.get(plural, ())]
        feed = self._feeds[plural] = Feed([*added, END])
        yield feed

    async def exchange(self, request: Request) -> Response:
        return await answered(self._answer, request)

    def _answer(self, request: Request) -> Response:
        self._version += 1
        plural = next(one for one in reversed(request.path.split("/")) if one in (*self._objects, "events"))
        self.asked.append(f"{request.method} {request.path}")
        meta = f'"uid":"uid-{self._version}","resourceVersion":"{self._version}"'.encode()
        if request.method == "POST" and plural == "pods":
            message = request.body[:QUOTED].decode(errors="replace")
            return Response(
                status=403, body=msgspec.json.encode({"kind": "Status", "reason": "Forbidden", "message": message})
            )
        if request.method == "POST" and plural == "controllerrevisions":
            document = msgspec.json.decode(request.body, type=dict[str, msgspec.Raw])
            document["metadata"] = msgspec.Raw(b"{" + meta + b"," + bytes(document["metadata"])[1:])
            stored = msgspec.json.encode(document)
            self._feeds[plural].send(b'{"type":"ADDED","object":' + stored + b"}")
        return Response(status=200, body=b'{"metadata":{"name":"a",' + meta + b"}}")


ATTEMPTS = 3
"""What others do on the machine can only make a turn longer; what is long by itself is so each time."""
LONGEST = 60.0
"""Units of plain work that a turn may take: some tenths of a second, where the lease has fifteen seconds."""
NODES = 50
PLURALS = ("daemonsets", "controllerrevisions", "pods")
PLACES = tuple(places())


def at(path: str, shape: str) -> Place:
    return next(one for one in PLACES if (one[1], one[2]) == (path, shape))


async def told(server: HostileServer) -> tuple[Parts, dict[str, float]]:
    """A controller that has seen it all, and the sum of each metric that it exposes."""
    stop, settings = asyncio.Event(), Settings(leader_elect=False, metrics_address=None, health_address=None)
    async with asyncio.TaskGroup() as group:
        parts = Parts(settings, server, clock=clock)
        running = group.create_task(app.run(settings, parts, stop, SHARED), name="controller")
        await asyncio.sleep(5.0)
        assert not running.done(), "the controller has ended"
        metrics: Metrics = parts.metrics
        sums = {family.name: sum(one.value for one in family.samples) for family in metrics.families()}
        stop.set()
        await running
    return parts, sums


def _same(loop: TimedLoop) -> TimedLoop:
    return loop


@settings(every_day(8), phases=(Phase.explicit, Phase.generate))  # nothing gets clearer by being shrunk
@given(place=st.sampled_from(PLACES), size=st.sampled_from([1000, 30_000, LARGEST]))
@example(place=at("spec.template.unknown", "lists in lists"), size=LARGEST)
@example(place=at("data.spec.template.spec", "objects in objects"), size=LARGEST)
@example(place=at("data.spec.template.metadata.annotations", "as deep as a decoder goes"), size=LARGEST)
@example(place=at("spec.template.metadata.annotations", "a long text of quotes"), size=LARGEST)
@example(place=at("spec.template.spec.containers", "numbers"), size=LARGEST)
@example(place=at("spec.template.spec.containers.0.args", "control characters"), size=1000)
@example(place=at("data.spec.template.spec.priority", "many"), size=LARGEST)
@example(place=at("spec.template.spec.containers.0.resources.limits", "quantities"), size=LARGEST)
def test_what_a_server_can_store_costs_that_object_only(place: Place, size: int) -> None:
    plural, path, _, shape = place
    objects = {one: [json.dumps(plain(one, "calm")).encode()] for one in PLURALS}
    objects["nodes"] = [json.dumps(plain("nodes", f"node-{number}")).encode() for number in range(NODES)]
    if plural != "daemonsets":
        objects["daemonsets"].append(json.dumps(plain("daemonsets", "hostile")).encode())
    objects[plural].append(with_value(plain(plural, "hostile"), path, shape(size)))
    for loop in (TimedLoop() for _ in range(ATTEMPTS)):
        server = HostileServer(objects)
        gc.collect()  # in no turn: what is collected here are the objects of all tests that ran in this process
        gc.freeze()
        try:
            with asyncio.Runner(loop_factory=partial(_same, loop)) as runner:
                of_work = unit()
                parts, sums = runner.run(told(server))
                of_work = max(of_work, unit())
        finally:
            gc.unfreeze()
        if loop.longest <= LONGEST * of_work:
            break
    bad = [key.name for store in parts.informers.caches.stores.values() for key in store.malformed]
    assert not [name for name in bad if not name.startswith("hostile")], bad
    assert len(bad) <= 1
    assert any(one.endswith("/daemonsets/calm/status") for one in server.asked), "the others go on"
    assert sums["kruise_daemonset_metadata_generation"] >= 1, "nothing is told of those that can be read"
    assert sums["controller_runtime_reconcile_panics"] == 0, "a pass ended in an exception that nobody expected"
    assert loop.longest <= LONGEST * of_work, f"{loop.longest / of_work:.0f} units in one turn of {loop.whose}"
