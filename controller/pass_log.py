"""One line in the log about each pass, whatever queue its key is from."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from controller.api.meta import Key
from controller.runtime.workers import ComeBack, Done, Handle, Outcome, Pass, PassControl, Retry
from controller.runtime.workqueue import Taken

RESULTS: Final[Mapping[type[Outcome], str]] = {Done: "success", ComeBack: "requeue_after", Retry: "error"}
"""controller-runtime's words, in the log and in the metrics."""


class _PassLine:
    """What a pass has done so far. `about`: what every line of it says: of which object, of which pass, and why."""

    def __init__(self, about: Mapping[str, str]) -> None:
        self.about = about
        self.did: Counter[str] = Counter()


class PassLog:
    """Of one queue: `in_context` makes its passes, `passed` is told of their ends."""

    def __init__(
        self, ids: Iterator[int], subject: str, count: Callable[[Pass[Key]], None], *, queue: str = ""
    ) -> None:
        """`ids`: numbers of passes, each given once in the process. `subject`: what its keys are called in the log.
        `count`: keeps the metrics. `queue`: its name, where `subject` alone does not tell."""
        self._log = structlog.get_logger()
        self._ids, self._subject, self._count = ids, subject, count
        self._queue = {"queue": queue} if queue else {}
        self._lines: dict[Key, _PassLine] = {}
        """By what is worked on now, until `passed`; a key is with one worker at a time."""

    async def in_context(self, handle: Handle[Key], taken: Taken[Key], turn: PassControl) -> Outcome:
        """One pass: everything logged inside carries what it is about, its id and why it was made."""
        about = {self._subject: str(taken.key), **self._queue, "reconcile_id": f"{next(self._ids):x}"}
        line = self._lines[taken.key] = _PassLine({**about, "reason": ",".join(taken.reasons)})
        began = asyncio.get_running_loop().time()
        with bound_contextvars(**line.about):
            outcome = await handle(taken, turn)
            self._reconciled(line, outcome, asyncio.get_running_loop().time() - began)
            return outcome

    def did(self, key: Key, what: str) -> None:
        """A write of the pass over `key` was answered; nothing is said of it once that pass is over."""
        if (line := self._lines.get(key)) is not None:
            line.did[what] += 1

    def passed(self, done: Pass[Key]) -> None:
        """A pass is over, begun by `in_context`."""
        line = self._lines.pop(done.taken.key)
        if done.crashed and isinstance(done.outcome, Retry):  # the others have their line
            error = done.outcome.error
            with bound_contextvars(**line.about):
                self._log.error(
                    "reconciled",
                    result=RESULTS[Retry],
                    panic=True,
                    seconds=round(done.work_seconds, 6),
                    why=str(error) or type(error).__name__,
                    exc_info=error,
                )
        self._count(done)

    def _reconciled(self, line: _PassLine, outcome: Outcome, seconds: float) -> None:
        """At debug where nothing was written and nothing failed."""
        quiet = not line.did and not isinstance(outcome, Retry)
        fields: dict[str, object] = {"result": RESULTS[type(outcome)]}
        match outcome:
            case Done():
                pass
            case ComeBack(after=after, reason=reason):
                fields |= {"requeue_after": round(after, 3), "requeue_reason": reason}
            case Retry(error=error):
                fields["why"] = str(error) or type(error).__name__
        say = self._log.debug if quiet else self._log.info
        say("reconciled", **fields, seconds=round(seconds, 6), **line.did)
