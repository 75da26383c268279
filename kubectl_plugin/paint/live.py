"""A block of lines on a terminal that is redrawn in place. The last one stays on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.live import Live
from rich.text import Text

from kubectl_plugin.terminal import Terminal


class LiveBlock(Live):
    """Lines are cut, never wrapped. If a block is taller than the terminal, its end is left out, except in the last
    drawing.
    """

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(console=terminal.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._terminal = terminal

    def start(self, refresh: bool = False) -> None:
        super().start(refresh)
        self.console.show_cursor(True)  # keep it visible: a signal may end the process at once

    def draw(self, lines: Sequence[Text]) -> None:
        self.console.width = self._terminal.columns  # the window may have been resized
        self.update(Text("\n", no_wrap=True, overflow="crop").join(lines), refresh=True)
