"""A Prometheus in a test's hand, in virtual time: it is asked as a real one is, and answers as it is set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import msgspec

from controller.kube.prometheus import Prometheus
from controller.kube.requests import NotConnected, Request, Response

SICK: list[Mapping[str, Any]] = [{"metric": {"pod": "agent-x"}, "value": [1.0, "12"]}]


class _Stream:
    def __init__(self, status: int, body: bytes) -> None:
        self.status, self._body = status, body
        self.retry_after: float | None = None
        self.date = ""

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body


class Played:
    """A `Transport`. A query that contains a key of `found` returns these series, any other one none."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.asked: list[tuple[float, str]] = []
        """When which query came."""
        self.fails_if: Callable[[str], bool] = lambda query: False
        self.is_silent_if: Callable[[str], bool] = lambda query: self.is_silent
        self.seconds = 0.0
        """That an answer takes."""
        self.most_at_once = self._at_once = 0
        self.is_dead = self.is_silent = False
        self.prometheus = Prometheus(self)

    def fails(self, part: str = "errors") -> None:
        self.found[part] = SICK

    def passes(self) -> None:
        self.found.clear()

    async def exchange(self, request: Request) -> Response:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        assert (request.method, request.path) == ("POST", "/api/v1/query")
        (query,) = parse_qs(request.body.decode())["query"]
        self.asked.append((asyncio.get_running_loop().time(), query))
        if self.is_dead:
            raise NotConnected("prometheus:9090: Connection refused")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(3600 if self.is_silent_if(query) else self.seconds)
        finally:
            self._at_once -= 1
        found: list[Mapping[str, Any]] = next((found for part, found in self.found.items() if part in query), [])
        yield _Stream(200, _vector(SICK if self.fails_if(query) else found))


def _vector(found: list[Mapping[str, Any]]) -> bytes:
    return msgspec.json.encode({"status": "success", "data": {"resultType": "vector", "result": found}})
