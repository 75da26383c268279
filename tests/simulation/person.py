"""A person at a shell beside the simulated cluster: verbs of the plugin, while everything else goes on."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from kubectl_plugin.host import own_version
from tests.plugin.in_process import Ran, call, surroundings
from tests.plugin.users_machine import UsersMachine, UserTransport
from tests.simulation.record import As
from tests.simulation.stage import NAMESPACE, Stage

T = TypeVar("T")


class Person:
    """What `UsersMachine` asks of a scene."""

    kubectl = "v1.36.3"

    def __init__(self, stage: Stage) -> None:
        self._stage, self.version = stage, own_version()
        self.door = As("plugin", UserTransport(stage.bed.simulator.cluster))

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
