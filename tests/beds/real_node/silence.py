"""For how long nodes gave no answer, whoever asks them and how often."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable


class Silence:
    """Seconds by node: from the first question in vain until the next answer. A node that has several who may answer
    is silent once the last question to each was in vain."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.waited: defaultdict[str, float] = defaultdict(float)
        self._since: dict[str, float] = {}
        self._answering: defaultdict[str, set[str]] = defaultdict(set)

    def broken(self, node: str, by: str = "") -> None:
        """An answer has come."""
        self._answering[node].add(by)
        if (since := self._since.pop(node, None)) is not None:
            self.waited[node] += self._clock() - since

    def kept(self, node: str, asked: float, by: str = "") -> None:
        """None came to what was asked at this moment (of the clock)."""
        self._answering[node].discard(by)
        if not self._answering[node]:
            self._since.setdefault(node, asked)

    def end(self) -> None:
        """Nobody asks any more: a silence that lasts counts as far as it has come."""
        for node in [*self._since]:
            self.broken(node)
