"""A transport that plays a script: one answer per request, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from controller.kube.requests import Request, Response


@dataclass
class Slow:
    """An answer that takes its time; longer than the request's timeout, it does not come at all."""

    seconds: float
    then: Response


@dataclass
class Watch:
    """A stream: bytes are sent, numbers are seconds of silence, an error breaks it; after the last, it closes."""

    steps: Sequence[bytes | float | OSError] = ()
    status: int = 200
    retry_after: float | None = None
    date: str = ""
    timeout: float | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self.steps:
            match step:
                case bytes():
                    yield step
                case OSError():
                    raise step
                case seconds:
                    async with asyncio.timeout(self.timeout):
                        await asyncio.sleep(seconds)


Part: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Works out an answer, and takes its time, whatever the request's timeout is."""
Answer: TypeAlias = Response | Slow | Watch | OSError | Part


class Script:
    """Implements `Transport`. `requests` is what was asked, and at what loop time."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.times: list[float] = []

    def _next(self, request: Request) -> Answer:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        assert self.answers, f"the script ends before {request.method} {request.path} {dict(request.query)}"
        return self.answers.pop(0)

    async def exchange(self, request: Request) -> Response:
        await asyncio.sleep(0)
        match self._next(request):
            case Response() as response:
                return _with_labels(request, response)
            case Slow(seconds, then):
                async with asyncio.timeout(request.timeout):
                    await asyncio.sleep(seconds)
                return _with_labels(request, then)
            case part if callable(part):
                return await part(request)
            case Watch():
                raise AssertionError(f"the script has a watch where {request.method} {request.path} came")
            case error:
                raise error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Watch]:
        await asyncio.sleep(0)
        match self._next(request):
            case Watch() as watch:
                watch.timeout = request.timeout
                yield watch
            case OSError() as error:
                raise error
            case other:
                raise AssertionError(f"the script has {other!r} where a watch came: {dict(request.query)}")


def _with_labels(request: Request, response: Response) -> Response:
    """The answer to a create, with the labels that were sent, as a server has them."""
    if request.method != "POST" or b'"labels"' not in request.body or response.status >= 300:
        return response
    answer = msgspec.json.decode(response.body)
    answer["metadata"].setdefault("labels", msgspec.json.decode(request.body)["metadata"].get("labels"))
    return msgspec.structs.replace(response, body=msgspec.json.encode(answer))


def ok(body: bytes = b'{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}', status: int = 200) -> Response:
    return Response(status=status, body=body)
