"""What the plugin gets from its process and its machine: environment, streams, clock, event loop, network, programs.

`main` makes the only one and passes it down; the modules below use nothing of the process by themselves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, TextIO, TypeVar

from kubectl_plugin.units import own_version

if TYPE_CHECKING:
    from controller.kube.connection import Connection
    from controller.kube.credentials import Console
    from controller.kube.kubeconfig import Access
    from controller.kube.requests import Transport

T = TypeVar("T")


class Host:
    """Modules that take long to import are imported when they are first needed: `--help` needs none of them."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        stdin: TextIO | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        """Without arguments the streams are those of the process; one that the process does not have reads and writes
        nothing."""
        self.environ = environ
        self.stdin = stdin or sys.stdin or null_stream("r")
        self.out, self.err = out or sys.stdout or null_stream("w"), err or sys.stderr or null_stream("w")

    def now(self) -> float:
        """Seconds since 1970, by this machine's clock, which may be wrong or may be set meanwhile."""
        return time.time()

    def ticks(self) -> float:
        """Seconds on a monotonic clock, for differences only."""
        return time.monotonic()

    def version(self) -> str:
        """The plugin's own version."""
        return own_version()

    def run(self, body: Coroutine[object, object, T]) -> T:
        """Run `body` to its end in an event loop; returns what it returns."""
        import asyncio

        return asyncio.run(body)

    async def run_program(self, *command: str) -> tuple[int, bytes, bytes]:
        """Run another program; returns its exit code, and what it printed to stdout and stderr."""
        from controller.kube.credentials import run_program

        return await run_program(*command)

    async def connection(self, access: Access, login_seconds: float | None = None) -> Connection:
        """How to reach the server that kubectl would ask. An exec plugin of the kubeconfig may ask the person who
        runs us; it ends within `login_seconds`, if they are given. Raises ConfigError."""
        from controller.kube.config import connection_for

        return await connection_for(
            access, environ=self.environ, console=self._console(), login_seconds=login_seconds
        )

    def _console(self) -> Console | None:
        """None where nobody sees what is written to `err`, as after <TAB>."""
        from controller.kube.credentials import Console

        try:
            descriptor = self.err.fileno()
        except OSError:
            return None
        types = self.stdin.isatty()
        return Console(err=descriptor, types=types, terminal=types or self.err.isatty())

    def transport(self, connection: Connection, user_agent: str) -> AbstractAsyncContextManager[Transport]:
        from controller.kube.transport import open_transport

        return open_transport(connection, user_agent)


def null_stream(mode: Literal["r", "w"]) -> TextIO:
    """A stream in place of one that was closed before the plugin started, as with `2>&-`."""
    return open(os.devnull, mode, encoding="utf-8")
