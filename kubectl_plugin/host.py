"""What the plugin has from its process and its machine: environment, streams, clock, event loop, network, programs.

`main` makes the one that there is, and hands it down. Nothing below reaches for any of it by itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, TextIO, TypeVar

from kubectl_plugin.releases import own_version

if TYPE_CHECKING:
    from controller.kube.access import Access
    from controller.kube.connection import Connection
    from controller.kube.request import Transport

T = TypeVar("T")


class Host:
    """What takes long to import is imported when it is needed: `--help` needs none of it."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        stdin: TextIO | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        """The streams are the process's own unless given; one that the process does not have leads nowhere."""
        self.environ = environ
        self.stdin = stdin or sys.stdin or nowhere("r")
        self.out, self.err = out or sys.stdout or nowhere("w"), err or sys.stderr or nowhere("w")

    def now(self) -> float:
        """Seconds since 1970, by a clock that may be wrong, and may be set."""
        return time.time()

    def ticks(self) -> float:
        """Seconds since whenever, by one that nobody sets."""
        return time.monotonic()

    def version(self) -> str:
        """The plugin's own."""
        return own_version()

    def run(self, body: Coroutine[object, object, T]) -> T:
        """To its end, in an event loop."""
        import asyncio

        return asyncio.run(body)

    async def run_program(self, *command: str) -> tuple[int, bytes, bytes]:
        """Run another program; returns its exit code, and what it printed to stdout and stderr."""
        from controller.kube.exec_run import run_program

        return await run_program(*command)

    async def connection(self, access: Access) -> Connection:
        """To the server that kubectl would ask. Raises ConfigError."""
        from controller.kube.config import connection_for

        return await connection_for(access, environ=self.environ)

    def transport(self, connection: Connection, user_agent: str) -> AbstractAsyncContextManager[Transport]:
        from controller.kube.transport import open_transport

        return open_transport(connection, user_agent)


def nowhere(mode: Literal["r", "w"]) -> TextIO:
    """A stream in place of one that was closed before we began, as with `2>&-`."""
    return open(os.devnull, mode, encoding="utf-8")
