"""A block on a terminal that is drawn anew in its place. What was drawn last stays there."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live


class LiveBlock:
    """A context manager. Lines are cut, never wrapped; of a block that is taller than the terminal the end is left
    out until it is drawn for the last time.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="ellipsis",
        )

    def __enter__(self) -> Self:
        self._live.start()
        self._console.show_cursor(True)  # a signal that ends the process at once leaves a usable terminal then
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def draw(self, block: RenderableType, width: int) -> None:
        """`width`: of the terminal now, which may have been resized."""
        self._console.width = width
        self._live.update(_Unwrapped(block), refresh=True)


class _Unwrapped:
    """The same, but nothing in it wraps."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self._inner, options.update(no_wrap=True, overflow="crop"))
