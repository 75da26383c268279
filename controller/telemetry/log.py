"""Configures structured logging: one JSON object per line, or readable text; bound context is in every line."""

from __future__ import annotations

import logging
import re
import sys
from typing import BinaryIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from controller.daemonset.redaction import MASK
from controller.settings import LogFormat

LEVELS = ("debug", "info", "warning", "error", "critical")

SECRET_KEYS = frozenset({"authorization", "token", "password", "client_key", "client-key-data", "secret"})
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")


def configure(level: str, lines: LogFormat, out: BinaryIO | None = None) -> None:
    """Send all log lines to `out` (default: standard error), also those of libraries.

    `level` is one of `LEVELS`, else ValueError is raised; `lines` is the form of the lines. It may be called again.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is none of {', '.join(LEVELS)}")
    stream = sys.stderr.buffer if out is None else out
    if lines == "auto":
        lines = "console" if stream.isatty() else "json"
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            hide_secrets,
            *_rendering(lines, colors=stream.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_FromLibraries()]
    root.setLevel(max(number, logging.WARNING) if number > logging.DEBUG else logging.INFO)


def hide_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mask credentials, by the names of their keys and inside error messages, so that none reaches the log."""
    for key, value in event.items():
        if key.lower() in SECRET_KEYS:
            event[key] = MASK
        elif isinstance(value, str) and ("earer " in value or "asic " in value):
            event[key] = _BEARER.sub(rf"\1 {MASK}", value)
    return event


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


class _FromLibraries(logging.Handler):
    """Sends log lines of the standard library (asyncio, aiohttp) through structlog, in the form of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info or None)
