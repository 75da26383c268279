"""What has happened so far, a line each, with the second in which it happened."""

from __future__ import annotations

import asyncio
import time

from controller.api.objects import Value

STEP, COMMAND, FACT, NODE = "step", "command", "fact", "node"


class Line(Value):
    kind: str
    """STEP: what is done next; COMMAND: how kubectl does it; FACT: what came of it; NODE: news of one node."""
    at: float
    """Seconds since the journal was opened."""
    text: str

    def __str__(self) -> str:
        indent = "" if self.kind == STEP else "  "
        return f"{self.at:6.1f} s  {indent}{self.text}"


class Journal:
    """Lines in the order in which they were printed."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.news = asyncio.Event()
        """Set with each line; a reader clears it."""
        self._opened = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since the journal was opened."""
        return time.monotonic() - self._opened

    def tell(self, kind: str, text: str) -> None:
        self.lines.append(Line(kind=kind, at=self.now, text=text))
        self.news.set()
