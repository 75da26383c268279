"""Queries the Prometheus server of `--prometheus-url`. A bad answer costs one query and bounded memory. Redirects are
not followed, so that the token reaches no other server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import msgspec

from controller.api.formats import LONGEST_ITEM, truncated
from controller.api.objects import View, as_bytes
from controller.kube.connection import Connection, Credentials, ReloadedTLS, TokenFile, tls_context
from controller.kube.errors import ConfigError
from controller.kube.requests import NotConnected, Request, Stream, Transport
from controller.kube.transport import open_transport
from controller.settings import Settings, UnusableOption

QUERY_SECONDS: Final = 10.0
"""Seconds from the start of a query to the end of its answer."""
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_SERIES: Final = 100
"""The `limit` of a query, which older servers ignore."""
LONGEST_SERIES: Final = 120
_FORM: Final = "application/x-www-form-urlencoded"


class NoAnswer(Exception):
    """The query has no answer that can be used. The text says why, in one line, without the token."""

    def __init__(self, words: str, *, quoting: str = "") -> None:
        """`quoting` is what the line quotes from an answer or an error."""
        super().__init__(f"{words}: {_line(quoting)}" if quoting else words)
        self.words = words
        """The line without the quotation, for the log."""


class _Data(View, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(View):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: tuple[str, ...] = ()


class _Series(View):
    metric: dict[str, str]
    value: tuple[float, str] | None = None


class Prometheus:
    def __init__(self, transport: Transport, *, query_seconds: float = QUERY_SECONDS) -> None:
        self._transport, self._query_seconds = transport, query_seconds

    async def series(self, expression: str) -> str:
        """The first series that the expression returns now, and how many more; empty: none. Raises NoAnswer."""
        asked = {"query": expression, "timeout": f"{self._query_seconds:g}s", "limit": str(MOST_SERIES)}
        request = Request(
            method="POST",
            path="/api/v1/query",  # by POST, because the names of thousands of pods do not fit into a URL
            body=urlencode(asked).encode(),
            content_type=_FORM,
            timeout=self._query_seconds,
        )
        try:
            async with asyncio.timeout(self._query_seconds), self._transport.stream(request) as stream:
                return _read(stream.status, await _body(stream))
        except TimeoutError as error:
            raise NoAnswer(f"Prometheus does not answer within {self._query_seconds:g} s") from error
        except (OSError, ValueError) as error:
            words, why = "Prometheus cannot be asked", str(error) or type(error).__name__
            if isinstance(error, NotConnected):  # its text is always our own
                raise NoAnswer(f"{words}: {_line(why)}") from error
            raise NoAnswer(words, quoting=why) from error


async def _body(stream: Stream) -> bytes:
    chunks, size = [], 0
    async for chunk in stream.chunks():
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise NoAnswer(
                f"the answer is larger than {MOST_BYTES >> 20} MiB: the expression returns too many series"
            )
    return b"".join(chunks)


def _read(status: int, body: bytes) -> str:
    """Raises NoAnswer for anything but a list of series."""
    answer: _Answer | None = None
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        answer = None
    if status != 200 or (answer is not None and answer.status != "success"):
        if 300 <= status < 400:
            raise NoAnswer(f"Prometheus answers {status}: redirects are not followed")
        raise NoAnswer(f"Prometheus answers {status}", quoting=answer.error if answer is not None else "")
    if answer is None or answer.data is None:
        raise NoAnswer("Prometheus answers something else than the result of a query")
    kind = answer.data.result_type
    if kind not in ("vector", "matrix"):
        raise NoAnswer(f"the expression returns a {_line(kind)}, which is always there: it must return series")
    try:
        found = msgspec.json.decode(answer.data.result, type=list[_Series])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise NoAnswer("Prometheus answers something else than series") from error
    if not found and answer.warnings:
        raise NoAnswer("Prometheus found nothing, but warns", quoting=answer.warnings[0])
    return _brief(found)


def _brief(found: Sequence[_Series]) -> str:
    if not found:
        return ""
    first = min(found, key=lambda series: sorted(series.metric.items()))
    value = f" {first.value[1]}" if first.value is not None else ""
    more = f" and {len(found) - 1:,} more series" if len(found) > 1 else ""
    return f"{truncated(_labels(first.metric), LONGEST_SERIES)}{truncated(value, 32)}{more}"


def _labels(metric: Mapping[str, str]) -> str:
    rest = ", ".join(f"{key}={as_bytes(value).decode()}" for key, value in metric.items() if key != "__name__")
    return f"{metric.get('__name__', '')}{{{rest}}}"


def _line(text: str) -> str:
    return truncated(" ".join(text.split()), LONGEST_ITEM)


@asynccontextmanager
async def connected(settings: Settings, *, query_seconds: float = QUERY_SECONDS) -> AsyncIterator[Prometheus | None]:
    """The Prometheus of `--prometheus-url`; None without one. Nothing is sent before the first query. Raises
    UnusableOption."""
    if not settings.prometheus_url:
        yield None
        return
    async with open_transport(_connection(settings)) as transport:
        yield Prometheus(transport, query_seconds=query_seconds)


def _connection(settings: Settings) -> Connection:
    tls, token, ca_file = None, Credentials(), settings.prometheus_ca_file
    try:
        if settings.prometheus_url.startswith("https:"):
            load = partial(tls_context, ca_file or None)
            tls = ReloadedTLS(load, *([Path(ca_file)] if ca_file else []))
    except OSError as error:
        raise UnusableOption(f"--prometheus-ca-file {ca_file}: {error}") from error
    try:
        if settings.prometheus_token_file:
            token = TokenFile(Path(settings.prometheus_token_file))
    except ConfigError as error:
        raise UnusableOption(f"--prometheus-token-file: {error}") from error
    return Connection(
        server=settings.prometheus_url,
        credentials=token,
        tls=tls.context() if tls is not None else None,
        tls_now=tls.context if tls is not None else None,
    )
