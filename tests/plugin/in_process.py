"""The program itself, run inside a test: its clock, event loop and way to the server are replaced, nothing else."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from controller.kube.access import Access
from controller.kube.connection import Connection, Fixed
from tests.plugin.door import Door

SERVER: Final = "https://127.0.0.1:6443"
CONTEXT: Final = "sample"
OURS: Final = frozenset({"FORCE_COLOR", "NO_COLOR", "KRUISE_DS_NOW", "KRUISE_DS_PROMPT"})
"""Variables of the environment that must not come from whoever runs the tests."""


@dataclass(frozen=True)
class Ran:
    """How a verb ended, and what it wrote."""

    code: int
    out: str
    err: str


@contextmanager
def replaced(
    *,
    run: Callable[..., Any],
    now: Callable[[], float],
    ticks: Callable[[], float],
    door: Door,
    environ: dict[str, str],
) -> Iterator[None]:
    """`run` instead of `asyncio.run`, `now` instead of `time.time`, `ticks` instead of `time.monotonic`."""
    from kubectl_plugin import terminal
    from kubectl_plugin.cluster import session

    @asynccontextmanager
    async def through(*_: object) -> AsyncIterator[Door]:
        yield door

    async def connection(_: Access) -> Connection:
        return Connection(server=SERVER, credentials=Fixed(), context=CONTEXT, source=f"context {CONTEXT}")

    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environ))
        for name in OURS - environ.keys():
            os.environ.pop(name, None)
        stack.enter_context(patch.object(asyncio, "run", run))
        stack.enter_context(patch.object(terminal, "time", SimpleNamespace(time=now, monotonic=ticks)))
        stack.enter_context(patch.object(session, "connection_for", connection))
        stack.enter_context(patch.object(session, "open_transport", through))
        yield


def call(words: list[str], *, terminal: bool, typed: str, elsewhere: Collection[str] = ()) -> Ran:
    """`kubectl kruise-ds WORDS`; on a `terminal` a person types `typed`. Of `stdin`, `stdout` and `stderr` those that
    lead `elsewhere` are no terminals.
    """
    from kubectl_plugin.program import NAME, app

    names = ("stdin", "stdout", "stderr")
    given, out, err = (_Stream(terminal=terminal and name not in elsewhere) for name in names)
    given.write(typed)
    given.seek(0)
    code = 0
    with patch("sys.stdin", given), redirect_stdout(out), redirect_stderr(err):
        try:
            app(words, prog_name=NAME)
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, out.text(), err.text())


class _Stream(io.TextIOWrapper):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.seek(0)
        return self.read()
