"""Logs one line for each pass over a key of any queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from controller.api.meta import Key
from controller.kube.errors import ApiError
from controller.kube.meaning import meaning_of
from controller.runtime.workers import ComeBack, Done, Outcome, Pass, Retry
from controller.runtime.workqueue import Taken

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
    def about(self, taken: Taken[Key]) -> Iterator[Callable[[Pass[Key]], None]]:
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
                settles_itself = isinstance(error, ApiError) and meaning_of(error).write.settles_itself
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
