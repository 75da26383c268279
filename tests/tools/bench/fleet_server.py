"""A server in memory with many nodes and DaemonSets, for one controller on the same event loop: what it does itself
is not counted (`TimedLoop.aside`). Pods that are created are ready at once, and go when they are deleted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

import msgspec

from controller.kube.client import DRY_RUN
from controller.kube.requests import Request, Response
from tests.beds.virtual_time import answered, aside
from tests.tools.bench import manifests, wire
from tests.tools.bench.api import JSON

CHUNK = 64 * 1024
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'
END = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
)
KINDS = ("daemonsets", "controllerrevisions", "pods", "nodes")
_VERSION = re.compile(rb'"resourceVersion":"\d+"')


class Feed:
    """One watch: what there is, in chunks as from a socket, and then what comes."""

    status = 200
    retry_after: float | None = None
    date = ""

    def __init__(self, initial: Iterator[bytes]) -> None:
        self._initial = initial
        self._more: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, line: bytes) -> None:
        self._more.put_nowait(line + b"\n")

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := self._chunk():
            await asyncio.sleep(0)
            yield chunk
        while True:
            yield await self._more.get()

    def _chunk(self) -> bytes:
        lines, size = list[bytes](), 0
        with aside():
            for line in self._initial:
                lines.append(line + b"\n")
                size += len(line)
                if size >= CHUNK:
                    break
        return b"".join(lines)


class FleetServer:
    """Implements `Transport`. The first DaemonSet has a pod on each node, each other on a pool of them."""

    def __init__(self, nodes: int, sets: int) -> None:
        self.nodes = nodes
        self._version = 10_000_000
        self._feeds: dict[str, Feed] = {}
        self._stored: dict[str, dict[str, bytes]] = {one: {} for one in KINDS}
        self._owners = [_owner(number) for number in range(sets)]
        for number, owner in enumerate(self._owners):
            self._keep("daemonsets", owner)
            self._keep("controllerrevisions", _revision(owner))
            pool = slice(number % manifests.POOLS, None, manifests.POOLS) if number else slice(None)
            for pod in wire.pods(range(nodes)[pool], number):
                self._keep("pods", pod)
        for index in range(nodes):
            self._keep("nodes", wire.node(index))

    def relabel_nodes(self) -> None:
        """Each gets a label, and all of them are listed again."""
        nodes = self._stored["nodes"]
        for name, node in nodes.items():
            nodes[name] = self._renewed(node.replace(b'"labels":{', b'"labels":{"generation":"two",', 1))
        self._feeds["nodes"].send(EXPIRED)

    def lose_nodes(self) -> None:
        """Every second one is gone when they are listed again."""
        nodes = self._stored["nodes"]
        for name in list(nodes)[::2]:
            del nodes[name]
        self._feeds["nodes"].send(EXPIRED)

    def touch_pods(self) -> None:
        """Each is another version, and all of them are listed again."""
        pods = self._stored["pods"]
        for name, pod in pods.items():
            pods[name] = self._renewed(pod)
        self._feeds["pods"].send(EXPIRED)

    def roll(self) -> None:
        """The first DaemonSet gets another image."""
        owner = self._owners[0]
        owner["spec"]["template"] = manifests.template(manifests.NEXT_IMAGE)
        owner["metadata"] |= {"generation": 2, "resourceVersion": str(self._next())}
        self._tell("daemonsets", "MODIFIED", msgspec.json.encode(owner))

    def pods_of(self, image: str) -> int:
        return sum(f'"image":"{image}"'.encode() in pod for pod in self._stored["pods"].values())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Feed]:
        plural = request.path.rpartition("/")[2]
        feed = self._feeds[plural] = Feed(self._initial(plural))
        yield feed

    async def exchange(self, request: Request) -> Response:
        return await answered(self._answer, request)

    def _answer(self, request: Request) -> Response:
        *_, plural, name = ("", *request.path.removesuffix("/status").split("/"))
        document: JSON = {"metadata": {}}
        if request.method == "POST" and name in self._stored:
            document = msgspec.json.decode(request.body)
            if DRY_RUN not in request.query:
                self._create(name, document)
        elif request.method == "DELETE" and name in self._stored[plural]:
            gone = self._renewed(self._stored[plural].pop(name))
            self._tell(plural, "DELETED", gone)
        meta = {"name": name, "uid": "", "resourceVersion": str(self._next()), **document["metadata"]}
        return Response(status=200, body=msgspec.json.encode({"metadata": meta}))

    def _create(self, plural: str, document: JSON) -> None:
        version = self._next()
        document["metadata"] |= {
            "uid": f"uid-{version}",
            "resourceVersion": str(version),
            "creationTimestamp": wire.WHEN,
        }
        if plural == "pods":
            affinity = document["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            (node,) = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"]
            document["spec"]["nodeName"] = node
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": wire.WHEN}
            document["status"] = {"phase": "Running", "conditions": [ready]}
        self._keep(plural, document)
        self._tell(plural, "ADDED", self._stored[plural][document["metadata"]["name"]])

    def _keep(self, plural: str, document: JSON) -> None:
        self._stored[plural][document["metadata"]["name"]] = msgspec.json.encode(document)

    def _tell(self, plural: str, kind: str, document: bytes) -> None:
        self._feeds[plural].send(_event(kind, document))

    def _initial(self, plural: str) -> Iterator[bytes]:
        yield from _events("ADDED", tuple(self._stored[plural].values()))
        yield END % self._next()

    def _renewed(self, document: bytes) -> bytes:
        return _VERSION.sub(b'"resourceVersion":"%d"' % self._next(), document, count=1)

    def _next(self) -> int:
        self._version += 1
        return self._version


def _events(kind: str, documents: Iterable[bytes]) -> Iterator[bytes]:
    return (_event(kind, one) for one in documents)


def _event(kind: str, document: bytes) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind.encode(), document)


def _owner(number: int) -> JSON:
    owner = wire.owner(number)
    owner["metadata"]["name"] = f"{manifests.NAME}-{number}"
    if number:
        owner["spec"]["template"]["spec"]["nodeSelector"] = {manifests.POOL: str(number % manifests.POOLS)}
    return owner


def _revision(owner: JSON) -> JSON:
    found = wire.revision(owner["spec"]["template"])
    meta, uid = found["metadata"], owner["metadata"]["uid"]
    meta |= {"name": f"{owner['metadata']['name']}-{wire.HASH}", "uid": f"{uid}-revision"}
    meta["ownerReferences"][0]["uid"] = uid
    return found
