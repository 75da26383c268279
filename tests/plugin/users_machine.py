"""Where a user runs the plugin: a machine beside the simulated cluster of a scene, with a clock of its own, and
the way from there to the cluster, on which rights are taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec

from controller.kube.connection import Connection, Credentials
from controller.kube.kubeconfig import Access
from controller.kube.requests import Request, Response, Stream
from kubectl_plugin.host import Host
from tests.beds.api import Object
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.faults import Answer, FaultPlan, Rule
from tests.beds.simulator.route import Route, route
from tests.beds.simulator.transport import InProcess

if TYPE_CHECKING:
    from tests.plugin.playing import Meanwhile, Scene

T = TypeVar("T")

SERVER = "https://127.0.0.1:6443"
CONTEXT = "sample"


class UsersMachine(Host):
    """Where the plugin runs: beside the scene, whose cluster its kubeconfig names, and with a clock of its own."""

    def __init__(
        self,
        scene: Scene,
        meanwhile: Meanwhile | None,
        clock_ahead: float | Callable[[], float],
        environ: Mapping[str, str],
        ticks: Callable[[], float] | None = None,
        **streams: TextIO,
    ) -> None:
        super().__init__(environ, **streams)
        self._scene, self._meanwhile = scene, meanwhile
        self._ahead = clock_ahead if callable(clock_ahead) else lambda: clock_ahead
        self._ticks = ticks or scene.ticks

    def run(self, body: Coroutine[Any, Any, T]) -> T:
        return self._scene.do(body if self._meanwhile is None else self._scene.beside(body, self._meanwhile))

    def now(self) -> float:
        return self._scene.now() + self._ahead()

    def ticks(self) -> float:
        return self._ticks()

    def version(self) -> str:
        return self._scene.version

    async def run_program(self, *command: str) -> tuple[int, bytes, bytes]:
        """A real program would run in real time, for which virtual time does not wait."""
        assert command[1:] == ("version", "--client", "--output=json")
        return 0, msgspec.json.encode({"clientVersion": {"gitVersion": self._scene.kubectl}}), b""

    async def connection(self, access: Access, login_seconds: float | None = None) -> Connection:
        return Connection(server=SERVER, credentials=Credentials(), context=CONTEXT, source=f"context {CONTEXT}")

    def transport(self, *_: object) -> AbstractAsyncContextManager[UserTransport]:
        return nullcontext(self._scene.door)


USER = "alice@example.com"


class UserTransport:
    """A `Transport`. `user` is who the server says we are; `logs` has the last words of pods, by name."""

    def __init__(self, cluster: Cluster) -> None:
        self.user, self._clock = USER, cluster.clock
        self.logs: dict[str, str] = {}
        self.link = InProcess(cluster, faults=FaultPlan())

    def forbid(self, verb: str, resource: str) -> None:
        """From now on this right is missing: `forbid("list", "nodes")`; resources as in `faults.Rule`."""
        words = f'{resource} is forbidden: User "{self.user}" cannot {verb} resource "{resource}"'
        self.link.faults.add(Rule(Answer(403, "Forbidden", words), verb=verb, resource=resource))

    async def exchange(self, request: Request) -> Response:
        response = await self._answer(request)
        return msgspec.structs.replace(response, date=formatdate(self._clock(), usegmt=True))

    async def _answer(self, request: Request) -> Response:
        where = route(request)
        if where.plural == "selfsubjectreviews" and self.link.faults.effect_on(where) is None:
            return _said(201, {"kind": "SelfSubjectReview", "status": {"userInfo": {"username": self.user}}})
        if (where.plural, where.subresource) == ("pods", "log") and self.link.faults.effect_on(where) is None:
            return self._log(where)
        return await self.link.exchange(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self.link.stream(request) as stream:
            yield stream

    def _log(self, where: Route) -> Response:
        if where.name in self.logs:
            return Response(status=200, body=self.logs[where.name].encode())
        words = f'previous terminated container in pod "{where.name}" not found'
        return _said(400, {"kind": "Status", "status": "Failure", "reason": "BadRequest", "message": words})


def _said(status: int, body: Object) -> Response:
    return Response(status=status, body=msgspec.json.encode(body))


class Rights(UserTransport):
    """A server that also says what we may: everything but what is in `missing`."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.cluster)
        self.link = scene.door.link
        self.missing: set[tuple[str, str]] = set()
        self.asked: list[tuple[str, str, str]] = []
        """Verb, resource and namespace."""

    async def exchange(self, request: Request) -> Response:
        if not request.path.endswith("/selfsubjectaccessreviews"):
            return await super().exchange(request)
        what = msgspec.json.decode(request.body)["spec"]["resourceAttributes"]
        self.asked.append((what["verb"], what["resource"], what.get("namespace", "")))
        status = {"allowed": (what["verb"], what["resource"]) not in self.missing}
        return Response(
            status=201, body=msgspec.json.encode({"kind": "SelfSubjectAccessReview", "spec": {}, "status": status})
        )


def with_programs(folder: Path) -> Path:
    """With kubectl and both programs of ours; none of them runs."""
    for name in ("kubectl", "kubectl-kruise_ds", "kubectl_complete-kruise_ds"):
        (folder / name).touch(0o755)
    return folder
