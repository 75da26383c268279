"""A person at a shell beside the simulated cluster: verbs of the plugin, while everything else goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from controller.kube.requests import Request, Response
from kubectl_plugin.host import own_version
from tests.beds.simulator.route import route
from tests.beds.simulator.transport import WRITES
from tests.plugin.in_process import Ran, call, surroundings
from tests.plugin.users_machine import UsersMachine, UserTransport
from tests.simulation.record import As
from tests.simulation.stage import NAMESPACE, Stage

T = TypeVar("T")


class Door(As):
    before_write: Callable[[], Awaitable[None]] | None = None
    """What happens between what the plugin has read and its next write."""

    async def exchange(self, request: Request) -> Response:
        if self.before_write is not None and route(request).verb in WRITES:
            happens, self.before_write = self.before_write, None
            await happens()
        return await super().exchange(request)


class Person:
    """What `UsersMachine` asks of a scene."""

    kubectl = "v1.36.3"

    def __init__(self, stage: Stage) -> None:
        self._stage, self.version = stage, own_version()
        self.door = Door("plugin", UserTransport(stage.bed.simulator.cluster))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._stage.inside(work)

    def now(self) -> float:
        return self._stage.clock()

    def ticks(self) -> float:
        return self._stage.time

    def types(self, *words: str) -> Ran:
        def machine(*arguments: Any, **streams: Any) -> UsersMachine:
            return UsersMachine(cast("Any", self), None, 0.0, *arguments, **streams)

        given = [*words, "-n", NAMESPACE, "--controller-namespace", NAMESPACE]
        return call(given, environ=surroundings(NO_COLOR="1", LC_ALL="C.UTF-8"), host=machine)
