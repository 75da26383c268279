"""A simulated cluster in virtual time with the real controller, in which verbs of the plugin are run and read.

    with opened() as scene:
        ran = scene.run("status", "node-agent", "-n", "observability")
        assert ran.code == 0

`tests.plugin.scene` has clusters in which something goes on. All is the same in every run: clock, uids, pod names.
Time passes only while a verb waits, or by `pass_time` and `go_to`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any, TextIO, TypeVar

import structlog

from controller.api.objects import rfc3339
from controller.settings import Settings
from kubectl_plugin.host import own_version
from tests.beds.api import DAEMONSETS, LEASES, MERGE_PATCH, NAMESPACES, PODS, Api, Object, Refusal
from tests.beds.controller.running import Controller
from tests.beds.nodes import Nodes
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.transport import InProcess
from tests.beds.virtual_time import VirtualLoop
from tests.plugin.golden import check
from tests.plugin.in_process import Ran, call, surroundings
from tests.plugin.users_machine import UsersMachine, UserTransport

__all__ = ["HOME", "LEASE", "NAMESPACE", "NOW", "Meanwhile", "Ran", "Scene", "controller_pod", "opened", "renewed"]

T = TypeVar("T")

NAMESPACE = "observability"
HOME = "kruise-ds-system"
LEASE = "kruise-ds-controller"
NOW = 1_763_640_250.0
"""When the scenes are looked at: 2025-11-20T12:04:10Z."""
BEGIN = NOW - 62 * 86_400
"""What the clock says at first."""
PATIENCE = 3600.0
"""Seconds of virtual time for whatever is waited for."""

_SILENT = structlog.make_filtering_bound_logger(logging.CRITICAL)

Meanwhile = Callable[["Scene"], Awaitable[None]]


class Scene:
    """Made by `opened`. `api` may do everything; `door` is the user's way in, which may be narrowed. `environ` is
    more of the plugin's environment, `version` its own version and `kubectl` that of kubectl.
    """

    def __init__(self, runner: asyncio.Runner, *, namespaces: tuple[str, ...] = ()) -> None:
        self._runner, self._stop = runner, asyncio.Event()
        self.cluster = Cluster(self.now, strict_namespaces=True)
        self.door = UserTransport(self.cluster)
        self.api = Api(InProcess(self.cluster), NAMESPACE)
        self.environ: Mapping[str, str] = {}
        self.version, self.kubectl = own_version(), "v1.36.3"
        self.nodes: Nodes
        self.controller: Controller
        self._settings = Settings(
            namespaces=namespaces, leader_elect=False, metrics_address=None, health_address=None
        )

    def now(self) -> float:
        """Seconds since 1970, in virtual time."""
        return BEGIN + self.ticks()

    def ticks(self) -> float:
        """What the loop's clock says."""
        return self._runner.get_loop().time()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` among the controller and the nodes. The controller logs nothing."""
        before = structlog.get_config()
        structlog.configure(
            wrapper_class=_SILENT, logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False
        )
        try:
            return self._runner.run(work)
        finally:
            structlog.configure(**before)

    def running(self) -> set[asyncio.Task[Any]]:
        """The tasks of controller, nodes and all others that a test has started."""
        return asyncio.all_tasks(self._runner.get_loop())

    def run(
        self,
        *arguments: str,
        columns: int = 80,
        colour: bool = False,
        only_ascii: bool = False,
        terminal: bool = False,
        typed: str | Callable[[], str] = "",
        environ: dict[str, str] | None = None,
        meanwhile: Meanwhile | None = None,
        clock_ahead: float | Callable[[], float] = 0.0,
        elsewhere: Collection[str] = (),
        out: TextIO | None = None,
        ticks: Callable[[], float] | None = None,
    ) -> Ran:
        """Run `kubectl kruise-ds ARGUMENTS…` in this process.

        `terminal`: on a terminal, at which a person types `typed`; not the streams `elsewhere`. `meanwhile` is in
        the cluster while the verb waits, and cut off when it ends. `clock_ahead`: seconds by which the user's
        clock is wrong, or who tells them while it is set again and again.
        `ticks`: its monotonic clock. `out`: stdout itself, of which nothing is
        read then.
        """
        words = [*arguments, *(["--ascii"] if only_ascii else [])]
        given = {"COLUMNS": str(columns), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        given |= {"FORCE_COLOR": "1"} if colour else {} if terminal else {"NO_COLOR": "1"}
        environ = surroundings(**{**given, **self.environ, **(environ or {})})
        host = functools.partial(UsersMachine, self, meanwhile, clock_ahead, ticks=ticks)
        return call(words, terminal=terminal, typed=typed, elsewhere=elsewhere, environ=environ, out=out, host=host)

    def check(self, name: str, *arguments: str, **options: Any) -> Ran:
        """Run a verb and compare all it wrote with `golden/NAME.txt`."""
        ran = self.run(*arguments, **options)
        err = "".join(f"stderr: {line}\n" for line in ran.err.splitlines())
        check(name, f"{ran.out}{err}exit {ran.code}\n")
        return ran

    def pass_time(self, seconds: float) -> None:
        """Everybody goes on for so long."""
        self.do(asyncio.sleep(seconds))

    def go_to(self, moment: float) -> None:
        """Be there, in seconds since 1970. Of a long time only the first 90 seconds and the last 60 are played."""
        loop = self._runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        if moment - self.now() > 3600.0:
            self.pass_time(90.0)
            loop.freeze(moment - self.now() - 60.0)
            self.do(self._beat())
        self.pass_time(moment - self.now())

    async def until(self, done: Callable[[Object], bool], name: str = "node-agent", namespace: str = "") -> Object:
        """Wait for a state of the DaemonSet."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.api.get(DAEMONSETS, name, namespace=namespace)
                if done(found):
                    return found
                await asyncio.sleep(1.0)

    async def edit(self, change: Object, name: str = "node-agent", namespace: str = "") -> Object:
        """Merge `change` into the DaemonSet."""
        return await self.api.patch(
            DAEMONSETS, name, change, namespace=namespace or NAMESPACE, content_type=MERGE_PATCH
        )

    async def pod_on(self, node: str) -> Object:
        """The live pod on `node`."""
        found = [pod for pod in await self.api.list(PODS) if pod["spec"].get("nodeName") == node]
        (pod,) = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        return pod

    async def say_last_words(self, pod: Object, message: str) -> None:
        """`message` is what the first container ended with the last time."""
        states = pod["status"]["containerStatuses"]
        states[0]["lastState"]["terminated"]["message"] = message
        body = {"status": {"containerStatuses": states}}
        await self.api.patch(PODS, pod["metadata"]["name"], body, sub="status", content_type=MERGE_PATCH)

    async def host(self, ready: asyncio.Event) -> None:
        """Controller and nodes, until `leave`."""
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            for name in (NAMESPACE, HOME):
                await self.api.create(NAMESPACES, {"metadata": {"name": name}})
            self.nodes = await stack.enter_async_context(Nodes(self.api.transport, clock=self.now))
            self.controller = Controller(InProcess(self.cluster, keep=0), "", tasks, clock=self.now)
            self.controller.start(self._settings)
            await self._beat()
            heart = tasks.create_task(self._heart(), name="lease")
            ready.set()
            await self._stop.wait()
            heart.cancel()
            await self.controller.kill()

    def leave(self) -> None:
        self._stop.set()

    async def _heart(self) -> None:
        """Whether a controller is active is read from its Lease; the real election would not survive `go_to`."""
        while True:
            await asyncio.sleep(50.0)  # less than the seconds after which status calls a controller silent
            await self._beat()

    async def _beat(self) -> None:
        if self.controller.is_running:
            await renewed(self)

    async def beside(self, body: Coroutine[Any, Any, T], meanwhile: Meanwhile) -> T:
        """Run `body` with `meanwhile` in the cluster, which is cut off when it ends."""
        other = asyncio.ensure_future(meanwhile(self))
        try:
            return await body
        finally:
            other.cancel()
            await asyncio.wait([other])
            if not other.cancelled():
                other.result()


async def renewed(scene: Scene, namespace: str = HOME, name: str = LEASE, holder: str = "") -> None:
    """This Lease is renewed now."""
    moment = rfc3339(scene.now()).replace("Z", ".000000Z")
    holder = holder or "kruise-ds-controller-0_sample"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": moment}
    try:
        await scene.api.patch(LEASES, name, {"spec": spec}, namespace=namespace, content_type=MERGE_PATCH)
    except Refusal:
        await scene.api.create(LEASES, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def controller_pod(
    scene: Scene, image: str, *, number: int = 0, namespace: str = HOME, version: str | None = None
) -> str:
    """A pod as the manifests have it, with `version` as a label; returns its name."""
    labels = {"app.kubernetes.io/name": "kruise-ds", "app.kubernetes.io/component": "controller"}
    if version:
        labels["app.kubernetes.io/version"] = version
    name = f"kruise-ds-controller-{number}"
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    scene.do(scene.api.create(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}]}}))
    return name


@contextmanager
def opened() -> Iterator[Scene]:
    """An empty cluster with namespace `observability`, no nodes, and the controller running."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        ready = asyncio.Event()
        scene = Scene(runner)

        async def begin() -> asyncio.Task[None]:
            task = asyncio.get_running_loop().create_task(scene.host(ready))
            await asyncio.wait([task, asyncio.ensure_future(ready.wait())], return_when="FIRST_COMPLETED")
            return task

        async def end() -> None:
            scene.leave()
            await host

        host = scene.do(begin())
        try:
            yield scene
        finally:
            scene.do(end())
