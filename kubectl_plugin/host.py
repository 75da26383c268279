"""What the plugin uses of its process and machine; no module below `main` accesses them in another way."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Literal, TextIO, TypeVar

if TYPE_CHECKING:
    from controller.kube.connection import Connection
    from controller.kube.credentials import Console
    from controller.kube.kubeconfig import Access
    from controller.kube.requests import Transport

T = TypeVar("T")
UNKNOWN: Final = "unknown"


class ServerClock:
    """The local clock, read once, corrected by the `Date` header of the server's responses where they disagree."""

    def __init__(self, ticks: Callable[[], float], at_first: float) -> None:
        """`ticks`: a monotonic clock in seconds. `at_first`: seconds since 1970 by the local clock."""
        self._ticks, self._epoch = ticks, at_first - ticks()
        self._least, self._most = -math.inf, math.inf

    def local(self) -> float:
        """Seconds since 1970 by the local clock."""
        return self._epoch + self._ticks()

    def now(self) -> float:
        """Seconds since 1970 by the server's clock."""
        return self.local() + min(max(0.0, self._least), self._most)

    def learn(self, date: str, asked: float) -> None:
        """Learns from a response that has just come: its `Date` header, and `local()` when its request was sent."""
        try:
            server = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        least, most = server - self.local(), server + 1.0 - asked
        if max(least, self._least) > min(most, self._most):  # the server's clock was set, or this machine slept
            self._least, self._most = least, most
        else:
            self._least, self._most = max(least, self._least), min(most, self._most)


def own_version() -> str:
    """The plugin's version; "unknown" when it runs without being installed."""
    from importlib import metadata

    try:
        return metadata.version("kruise-ds")
    except metadata.PackageNotFoundError:
        return UNKNOWN


PLUGIN, COMPLETION = "kubectl-kruise_ds", "kubectl_complete-kruise_ds"
"""The programs that kubectl calls: for the verbs, and for <TAB>."""


class Host:
    """Imports slow modules on first use, because `--help` needs none of them."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        stdin: TextIO | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        """Streams default to those of the process; a missing one reads and writes nothing."""
        self.environ = environ
        self.stdin = stdin or sys.stdin or null_stream("r")
        self.out, self.err = out or sys.stdout or null_stream("w"), err or sys.stderr or null_stream("w")

    def now(self) -> float:
        """Seconds since 1970 by the local clock, which may be wrong or be set at any time."""
        return time.time()

    def ticks(self) -> float:
        """Monotonic seconds, for differences only."""
        return time.monotonic()

    def version(self) -> str:
        return own_version()

    def on_path(self, program: str) -> str:
        """The path of the program; empty if it is not on the PATH."""
        return shutil.which(program, path=self.environ.get("PATH")) or ""

    def run(self, body: Coroutine[object, object, T]) -> T:
        import asyncio

        return asyncio.run(body)

    async def run_program(self, *command: str) -> tuple[int, bytes, bytes]:
        """Returns the exit code, stdout and stderr of another program."""
        from controller.kube.credentials import run_program

        return await run_program(*command)

    async def connection(self, access: Access, login_seconds: float | None = None) -> Connection:
        """Connects as kubectl does. An exec plugin may prompt for up to `login_seconds`. Raises ConfigError."""
        from controller.kube.config import connection_for

        return await connection_for(
            access, environ=self.environ, console=self._console(), login_seconds=login_seconds
        )

    def _console(self) -> Console | None:
        """None where output to `err` is not visible, as during completion."""
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
    """Replaces a stream that was closed before the plugin started, as with `2>&-`."""
    return open(os.devnull, mode, encoding="utf-8")
