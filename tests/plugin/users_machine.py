"""Where a user runs the plugin: a machine beside the simulated cluster of a scene, with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec

from controller.kube.connection import Connection, Credentials
from controller.kube.kubeconfig import Access
from kubectl_plugin.host import Host
from tests.plugin.user_transport import UserTransport

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
        **streams: TextIO,
    ) -> None:
        super().__init__(environ, **streams)
        self._scene, self._meanwhile = scene, meanwhile
        self._ahead = clock_ahead if callable(clock_ahead) else lambda: clock_ahead

    def run(self, body: Coroutine[Any, Any, T]) -> T:
        return self._scene.do(body if self._meanwhile is None else self._scene.beside(body, self._meanwhile))

    def now(self) -> float:
        return self._scene.now() + self._ahead()

    def ticks(self) -> float:
        return self._scene.ticks()

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
