"""A block on a terminal that is drawn anew in its place. What was drawn last stays there."""

from __future__ import annotations

from collections.abc import Sequence

from rich.live import Live
from rich.text import Text

from kubectl_plugin.terminal import Terminal


class LiveBlock(Live):
    """Lines are cut, never wrapped; of a block that is taller than the terminal the end is left out until it is drawn
    for the last time.
    """

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(console=terminal.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._terminal = terminal

    def start(self, refresh: bool = False) -> None:
        super().start(refresh)
        self.console.show_cursor(True)  # a signal that ends the process at once leaves a usable terminal then

    def draw(self, lines: Sequence[Text]) -> None:
        self.console.width = self._terminal.columns  # it may have been resized
        self.update(Text("\n", no_wrap=True, overflow="crop").join(lines), refresh=True)
