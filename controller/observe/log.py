"""Structured logging with bound context, one JSON object per line or readable text."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from traceback import walk_tb
from typing import BinaryIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from controller.kube.errors import redacted
from controller.settings import LogFormat, LogLevel

_LITERAL = re.compile(r"[\w ,.'%-]*")
"""The fixed beginning of a library's message."""

MAX_FRAMES = 40
"""Innermost frames of a traceback that are logged: an endless recursion has a thousand."""


def configure(level: LogLevel, lines: LogFormat, out: BinaryIO | None = None) -> None:
    """Sends log lines from this level, also of libraries, to `out` (default: standard error). Repeatable."""
    stream = sys.stderr.buffer if out is None else out
    if lines == "auto":
        lines = "console" if stream.isatty() else "json"
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            redact_errors,
            *_rendering(lines, colors=stream.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_LibraryHandler()]
    root.setLevel(max(number, logging.WARNING) if number > logging.DEBUG else logging.INFO)


def redact_errors(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Redacts errors, which may quote a server, webhook or kubelet; keeps only types and frames of tracebacks."""
    raised = event.pop("exc_info", None)
    error = raised[1] if isinstance(raised, tuple) else sys.exception() if raised is True else raised
    for key, value in event.items():
        if isinstance(value, BaseException):
            event[key] = redacted(value)
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_trace(error))
    return event


def _trace(error: BaseException) -> Iterator[str]:
    """Like Python's traceback, without texts and lines of code."""
    if error.__cause__ is not None:
        yield from (*_trace(error.__cause__), "caused:")
    elif error.__context__ is not None and not error.__suppress_context__:
        yield from (*_trace(error.__context__), "while it was handled:")
    for frame, line in list(walk_tb(error.__traceback__))[-MAX_FRAMES:]:
        code = frame.f_code
        yield f'  File "{code.co_filename}", line {line}, in {code.co_qualname}'
    yield redacted(error)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from (f"    {line}" for line in _trace(inner))


def _rendering(lines: LogFormat, *, colors: bool) -> tuple[Processor, ...]:
    if lines == "json":
        return (structlog.processors.EventRenamer("msg"), structlog.processors.JSONRenderer(serializer=_encode))
    console = structlog.dev.ConsoleRenderer(
        colors=colors,
        timestamp_key="time",
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=48,
    )
    return (console, lambda _, __, line: str(line).encode())


def _encode(event: EventDict, **_: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)


class _LibraryHandler(logging.Handler):
    """Sends libraries' log lines through structlog, without parts that may quote an error or answer."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _LITERAL.match(str(record.msg))
        message = found[0].strip() if found is not None else ""
        log = structlog.get_logger()
        log.log(record.levelno, message, logger=record.name, exc_info=record.exc_info or None)
