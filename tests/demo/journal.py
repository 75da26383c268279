"""What has happened so far, a line each, with the second in which it happened."""

from __future__ import annotations

import time
from collections.abc import Callable

from controller.api.base import Value

STEP, FACT, NODE = "step", "fact", "node"


class Line(Value):
    kind: str
    """STEP: what is done next; FACT: what came of it; NODE: news of one node."""
    at: float
    """Seconds since the journal was opened."""
    text: str

    def __str__(self) -> str:
        indent = "" if self.kind == STEP else "  "
        return f"{self.at:6.1f} s  {indent}{self.text}"


class Journal:
    """Lines in the order in which they were told; `listener` hears each at once."""

    def __init__(self, listener: Callable[[Line], None] = lambda line: None) -> None:
        self.lines: list[Line] = []
        self._listener = listener
        self._opened = time.monotonic()

    @property
    def now(self) -> float:
        """Seconds since the journal was opened."""
        return time.monotonic() - self._opened

    def tell(self, kind: str, text: str) -> None:
        line = Line(kind=kind, at=self.now, text=text)
        self.lines.append(line)
        self._listener(line)
