"""Where it is shown: a terminal gets the picture, live; anything else gets the journal, line by line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from rich.console import Console
from rich.live import Live

from tests.tools.demo.drawing import draw
from tests.tools.demo.journal import NODE, Journal, Line
from tests.tools.demo.picture import Picture

FRAME = 0.1  # seconds


def is_live() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def shown(picture: Callable[[], Picture], journal: Journal) -> AbstractAsyncContextManager[None]:
    """Show what happens while the block runs. A picture leaves the terminal as it was.

    The block is cancelled, with an OSError, when the terminal is gone.
    """
    return _redrawn(picture) if is_live() else _printed(journal)


def print_outcome(journal: Journal) -> None:
    """What remains on the terminal after the live picture: the steps and what came of them."""
    _print(line for line in journal.lines if line.kind != NODE)


@asynccontextmanager
async def _redrawn(picture: Callable[[], Picture]) -> AsyncIterator[None]:
    console = Console(highlight=False)
    ascii_only = _is_ascii()

    async def redraw(live: Live) -> None:
        while True:
            width, height = console.size
            live.update(draw(picture(), width=width, height=height, ascii_only=ascii_only), refresh=True)
            await asyncio.sleep(FRAME)

    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(redraw(live))
            yield
            drawing.cancel()


@asynccontextmanager
async def _printed(journal: Journal) -> AsyncIterator[None]:
    printed = 0

    def print_news() -> None:
        nonlocal printed
        news = journal.lines[printed:]
        printed = len(journal.lines)
        _print(news)

    async def follow() -> None:
        while True:
            journal.news.clear()
            print_news()
            await journal.news.wait()

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow())
        try:
            yield
        finally:
            following.cancel()
            print_news()


def _print(lines: Iterable[Line]) -> None:
    """Text alone: no control characters, and nothing that standard output cannot encode."""
    encoding = sys.stdout.encoding or "ascii"
    for line in lines:
        print(str(line).encode(encoding, "replace").decode(encoding), flush=True)


def _is_ascii() -> bool:
    return (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
