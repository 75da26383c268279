"""Configures structured logging: one JSON object per line, or readable text; bound context is in every line.

Logs one line for each pass over a key of any queue.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from typing import BinaryIO, Final

import msgspec
import structlog
from structlog.contextvars import bound_contextvars
from structlog.typing import EventDict, Processor, WrappedLogger

from controller.api.objects import Key
from controller.kube.errors import ApiError, classify, redacted
from controller.runtime.workers import ComeBack, Done, Outcome, Pass, Retry
from controller.runtime.workqueue import WorkItem
from controller.settings import LogFormat

LEVELS = ("debug", "info", "warning", "error", "critical")

_FIXED = re.compile(r"[\w ,.'%-]*")
"""The beginning of a library's message that it has not composed from anything."""

MOST_FRAMES = 40
"""Frames of a traceback that are logged, the innermost ones: an endless recursion has a thousand."""


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
            errors_without_texts,
            *_rendering(lines, colors=stream.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_FromLibraries()]
    root.setLevel(max(number, logging.WARNING) if number > logging.DEBUG else logging.INFO)


def errors_without_texts(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Log of each error what `redacted` has of it, and of a traceback the types and frames: the text of an error may
    quote what a server, a webhook or a kubelet says."""
    raised = event.pop("exc_info", None)
    error = raised[1] if isinstance(raised, tuple) else sys.exception() if raised is True else raised
    for key, value in event.items():
        if isinstance(value, BaseException):
            event[key] = redacted(value)
    if isinstance(error, BaseException):
        event["exception"] = "\n".join(_trace(error))
    return event


def _trace(error: BaseException) -> Iterator[str]:
    """The traceback as Python prints it, but without texts and lines of code."""
    if error.__cause__ is not None:
        yield from (*_trace(error.__cause__), "caused:")
    elif error.__context__ is not None and not error.__suppress_context__:
        yield from (*_trace(error.__context__), "while it was handled:")
    for frame, line in list(walk_tb(error.__traceback__))[-MOST_FRAMES:]:
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


class _FromLibraries(logging.Handler):
    """Sends log lines of libraries (asyncio, aiohttp) through structlog, in the form of ours. Of a message only the
    fixed beginning is logged: the rest may quote an error or bytes of an answer."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _FIXED.match(str(record.msg))
        message = found[0].strip() if found is not None else ""
        log = structlog.get_logger()
        log.log(record.levelno, message, logger=record.name, exc_info=record.exc_info or None)


RESULT_OF: Final[Mapping[type[Outcome], str]] = {Done: "success", ComeBack: "requeue_after", Retry: "error"}
"""The results as controller-runtime names them, for the log and the metrics."""


class PassLog:
    """The log of one queue; each pass is made inside `about` its key."""

    def __init__(
        self, ids: Iterator[str], subject: str, count: Callable[[Pass[Key]], None], *, queue: str = ""
    ) -> None:
        """`ids` are names of passes, none used twice. `subject` is the key of the object in log lines.
        `count` updates the metrics. `queue` is the name of the queue in log lines, if `subject` does not identify the
        queue."""
        self._log = structlog.get_logger()
        self._ids, self._subject, self._count = ids, subject, count
        self._queue = {"queue": queue} if queue else {}
        self._did: dict[Key, Counter[str]] = {}
        """The writes so far of each pass in progress, by key; one worker at a time has a key."""

    @contextmanager
    def about(self, taken: WorkItem[Key]) -> Iterator[Callable[[Pass[Key]], None]]:
        """The context of one pass: all log lines in it have its object, its id and its reason. Yields the function to
        call with the finished pass."""
        about = {self._subject: str(taken.key), **self._queue, "reconcile_id": next(self._ids)}
        self._did[taken.key] = Counter()
        try:
            with bound_contextvars(**about, reason=",".join(taken.reasons)):
                yield self._passed
        finally:
            del self._did[taken.key]

    def did(self, key: Key, what: str) -> None:
        """Count an answered write of the pass over `key`; ignored once that pass is over."""
        if (did := self._did.get(key)) is not None:
            did[what] += 1

    def _passed(self, done: Pass[Key]) -> None:
        """Write the line of the pass: at debug where nothing was written and nothing failed, at warning where it
        failed and the next pass will hardly settle it."""
        did, seconds = self._did[done.taken.key], round(done.work_seconds, 6)
        match done.outcome:
            case Retry(error=error) if done.crashed:
                fields = {"result": RESULT_OF[Retry], "panic": True, "seconds": seconds}
                self._log.error("reconciled", **fields, why=error, exc_info=error)
            case Retry(error=error):
                settles_itself = isinstance(error, ApiError) and classify(error).write.settles_itself
                say = self._log.info if settles_itself else self._log.warning
                say("reconciled", result=RESULT_OF[Retry], why=error, seconds=seconds, **did)
            case ComeBack(after=after, reason=reason):
                say = self._log.info if did else self._log.debug
                fields = {"requeue_after": round(after, 3), "requeue_reason": reason}
                say("reconciled", result=RESULT_OF[ComeBack], **fields, seconds=seconds, **did)
            case Done():
                say = self._log.info if did else self._log.debug
                say("reconciled", result=RESULT_OF[Done], seconds=seconds, **did)
        self._count(done)
