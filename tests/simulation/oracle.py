"""A Prometheus with the one check of the stories, and the laws of checks: `/docs/progressive-rollouts.md`.

- While a check fails, by the last answer that a process has, no node newly gets the revision; without a recent answer
  by which it passes, no node that serves is taken.
- A step is over only after an answer to a query that was sent after its soak, by which the check passes.
- What fails for longer than `onFailure.after`, and only that, is a failure of the revision.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from controller.kube.requests import Request
from tests.beds.prometheus.played import Played

FRESH = 70.0
"""Seconds for which an answer counts, where there is one check."""
AFTER = 20.0
"""Of the stories' onFailure."""
HOWS = ("passes", "fails", "is away", "is silent", "is slow")
GRAIN = 1.5


@dataclass(frozen=True)
class Answered:
    sent: float
    came: float
    query: str
    passes: bool


class Oracle(Played):
    def __init__(self, clock: Callable[[], float], who: Callable[[], str], fired: Counter[str]) -> None:
        super().__init__()
        self._clock, self._who, self._fired = clock, who, fired
        self._answers: defaultdict[str, list[Answered]] = defaultdict(list)
        """By process."""
        self.how = "passes"

    def says(self, how: str) -> None:
        self.how = how
        self.found.clear()
        if how == "fails":
            self.fails()
        self.is_dead, self.is_silent, self.seconds = how == "is away", how == "is silent", 9.0 * (how == "is slow")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        sent, how, who = self._clock(), self.how, self._who()
        (query,) = parse_qs(request.body.decode())["query"]
        self._fired[f"Prometheus {how}"] += 1
        async with super().stream(request) as stream:
            await asyncio.sleep(0)
            self._answers[who].append(Answered(sent, self._clock(), query, not self.found))
            yield stream

    def _of(self, who: str, revision: str, until: float) -> list[Answered]:
        return [one for one in self._answers[who] if f'"{revision}"' in one.query and one.came <= until]

    def fails_surely(self, who: str, revision: str, since: float, at: float) -> bool:
        """Whether the check fails by each answer that the process may take for the last one. What was sent before
        `since` does not count."""
        found = self._of(who, revision, at)
        last = found[-1:] if not found or found[-1].came < at - GRAIN else found[-2:]
        return bool(last) and all(not one.passes and one.sent > max(since, at - FRESH + GRAIN) for one in last)

    def has_passed(self, who: str, revision: str, since: float, at: float) -> bool:
        """Whether it has an answer by which the check passes, to a query that was sent since then."""
        return any(one.passes and one.sent >= since for one in self._of(who, revision, at))

    def abort(self, who: str, revision: str, at: float) -> Iterator[str]:
        found = self._of(who, revision, at)
        if not any(not one.passes and one.sent >= at - FRESH - GRAIN for one in found):
            yield "aborted because of a check that does not fail by any recent answer"
        if any(one.passes and one.sent >= at - AFTER + GRAIN for one in found):
            yield f"aborted because of a check that has passed within {AFTER:g} s"
