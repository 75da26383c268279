"""Where the picture goes: a terminal shows it live, anything else gets the journal line by line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from rich.console import Console
from rich.live import Live

from tests.demo.drawing import draw
from tests.demo.journal import NODE, Journal, Line
from tests.demo.picture import Picture

FRAME = 0.1  # seconds


def is_live() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def journal_for(live: bool) -> Journal:
    """A journal that prints each line at once, unless there is a live picture."""
    return Journal() if live else Journal(print_line)


def print_line(line: Line) -> None:
    """Standard output without control characters, whatever the terminal is told elsewhere."""
    print(_printable(str(line)), flush=True)


def shown(picture: Callable[[], Picture], live: bool) -> AbstractAsyncContextManager[None]:
    """Show the picture while the block runs; the terminal is then as it was before."""
    return _redrawn(picture) if live else nullcontext()


def print_outcome(journal: Journal) -> None:
    """What remains on the terminal after the live picture: the steps and what came of them."""
    for line in journal.lines:
        if line.kind != NODE:
            print_line(line)


@asynccontextmanager
async def _redrawn(picture: Callable[[], Picture]) -> AsyncIterator[None]:
    console = Console(highlight=False)
    ascii_only = _is_ascii()

    def frame() -> None:
        width, height = console.size
        live.update(draw(picture(), width=width, height=height, ascii_only=ascii_only), refresh=True)

    async def redraw() -> None:
        while True:
            frame()
            await asyncio.sleep(FRAME)

    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(redraw())
            yield
            drawing.cancel()


def _is_ascii() -> bool:
    return (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"


def _printable(text: str) -> str:
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
