"""Evaluates the checks of open steps (`planner.checks`) every 30 s, beside the passes: none of them waits for
Prometheus. A pass sets what to evaluate; a changed result, and one that a step waits for, enqueues its key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Final

import msgspec

from controller.api.daemonset import Check, CheckState, DaemonSet, DaemonSetStatus, rollout_of
from controller.api.objects import Key, epoch
from controller.kube.prometheus import NoAnswer, Prometheus
from controller.planner.checks import INTERVAL, CheckRequest, CheckResult, fresh_seconds
from controller.planner.world import CLOCK_GRAIN
from controller.reconcile.caches import Caches
from controller.reconcile.dependencies import Observer
from controller.runtime.clock import Instant, elapsed
from controller.runtime.pacing import PacedQueue

MOST_QUERIES: Final = 10
"""The most queries under way. Those of one DaemonSet follow each other, so that it does not use them all."""
NO_SERVER: Final = "the controller has no --prometheus-url"


class _Known(msgspec.Struct):
    """The answers to one check. Times are `elapsed`."""

    query: str
    sent_at: float = -inf
    latest: float = -inf
    """`sent_at`, or when the record of another process was read if that is later (`elapsed`)."""
    series: str = ""
    since: float = inf
    problem: str = ""
    reported: tuple[object, ...] = ()
    """The result for which a pass was last enqueued."""

    def answered(self, series: str, sent_at: float, fresh: float) -> None:
        """`fresh`: seconds for which an answer counts."""
        if not series:
            self.since = inf
        elif self.since == inf or self.latest < sent_at - fresh:
            self.since = sent_at
        self.sent_at = self.latest = sent_at
        self.series, self.problem = series, ""

    def is_news(self, moment: float, fresh: float) -> bool:
        """Whether the result that a pass sees has changed since the last call."""
        is_fresh = moment - self.sent_at <= fresh
        before, self.reported = self.reported, (True, bool(self.series)) if is_fresh else (False, self.problem)
        return before != self.reported


class CheckResults(msgspec.Struct):
    """The answers of Prometheus to the checks of one revision of a DaemonSet."""

    revision: str | None = None
    known: dict[str, _Known] = msgspec.field(default_factory=dict)
    """By name of the check."""
    failing: dict[str, float] | None = None
    """Since when checks fail as recorded by another process (`elapsed`), by name; None before the first look."""
    tried: float = -inf
    """When the last evaluation began (`elapsed`)."""
    is_under_way: bool = False

    def observe(self, status: DaemonSetStatus | None, now: Instant) -> None:
        """Reads the status once; what this process has seen itself counts afterwards."""
        if self.failing is None:
            records = rollout_of(status).checks or ()
            self.failing = {
                record.name: now.to_elapsed(min(epoch(record.since) or now.wall, now.wall))
                for record in records
                if record.state == CheckState.FAILING
            }
            self.revision = status.update_revision if status is not None else None

    def forget(self) -> None:
        """Forgets the answers, because no step is open."""
        self.known, self.failing = {}, {}

    def prepare(self, request: CheckRequest, moment: float) -> None:
        """Drops answers to another revision or another query."""
        if request.revision != self.revision:
            self.revision, self.known, self.failing = request.revision, {}, {}
        known, begun, self.failing = self.known, self.failing or {}, {}
        self.known = {}
        for check in request.checks:
            known_check = known.get(check.name)
            if known_check is None or known_check.query != check.query:
                known_check = _Known(check.query, since=begun.get(check.name, inf), latest=moment)
                self.tried = -inf
            self.known[check.name] = known_check

    def dated(self, now: Instant) -> dict[str, CheckResult]:
        """Times in seconds since 1970."""
        return {
            name: CheckResult(
                sent_at=now.to_wall(known_check.sent_at),
                series=known_check.series,
                since=now.to_wall(known_check.since),
                problem=known_check.problem,
            )
            for name, known_check in self.known.items()
        }


class _Open(msgspec.Struct):
    """A DaemonSet with an open step."""

    uid: str
    results: CheckResults
    request: CheckRequest
    checked_from: float
    """`CheckRequest.checked_from` (`elapsed`); `inf` without one."""

    @property
    def fresh(self) -> float:
        return fresh_seconds(len(self.request.checks))

    @property
    def due(self) -> float:
        if self.results.is_under_way:
            return inf
        due = self.results.tried + INTERVAL
        return min(due, self.checked_from + CLOCK_GRAIN) if self.results.tried < self.checked_from else due


class Checks:
    def __init__(
        self, prometheus: Prometheus | None, caches: Caches, queue: PacedQueue[Key], observer: Observer
    ) -> None:
        self._prometheus, self._caches, self._queue, self._observer = prometheus, caches, queue, observer
        self._open: dict[Key, _Open] = {}
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(MOST_QUERIES)

    def set_request(
        self, daemonset: DaemonSet, results: CheckResults, request: CheckRequest | None, now: Instant
    ) -> None:
        """Sets what to evaluate, as a pass decided; None if no step is open."""
        if request is None:
            self._open.pop(daemonset.key, None)
            results.forget()
            return
        results.prepare(request, now.elapsed)
        end = inf if request.checked_from is None else now.to_elapsed(request.checked_from)
        self._open[daemonset.key] = _Open(daemonset.uid, results, request, end)
        self._changed.set()

    @asynccontextmanager
    async def evaluating(self) -> AsyncIterator[None]:
        """Evaluates inside the block; leaving it drops the queries under way."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._evaluate(), name="checks")
            yield
            task.cancel()

    async def _evaluate(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                now, following = elapsed(), inf
                for key, step in list(self._open.items()):
                    if self._is_gone(key, step):
                        del self._open[key]
                    elif step.due <= now:
                        group.create_task(self._ask_all(key, step), name="check")
                        step.results.is_under_way = True
                    else:
                        following = min(following, step.due)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(following if following < inf else None):
                        await self._changed.wait()

    def _is_gone(self, key: Key, step: _Open) -> bool:
        daemonset = self._caches.daemonsets.get(key)
        return daemonset is None or daemonset.terminating or daemonset.uid != step.uid

    async def _ask_all(self, key: Key, step: _Open) -> None:
        try:
            ends_soak = step.results.tried < step.checked_from <= elapsed()
            step.results.tried = elapsed()
            for check in step.request.checks:
                async with self._slots:
                    await self._ask(key, step, check)
                known = step.results.known.get(check.name)
                if known is not None and known.is_news(elapsed(), step.fresh):
                    self._queue.enqueue(key, "urgent", f"check {check.name}")
            if ends_soak:
                self._queue.enqueue(key, "urgent", "checks")
        finally:
            step.results.is_under_way = False
            self._changed.set()

    async def _ask(self, key: Key, step: _Open, check: Check) -> None:
        sent, series, problem, words = elapsed(), "", NO_SERVER, NO_SERVER
        if self._prometheus is not None:
            try:
                query = step.request.query(check, key.namespace, key.name)
                series, problem, words = await self._prometheus.series(query), "", ""
            except NoAnswer as error:
                problem, words = str(error), error.words
        known, revision = step.results.known.get(check.name), step.results.revision
        if known is None or known.query != check.query or revision != step.request.revision:
            return  # the check or its revision has changed meanwhile
        if problem != known.problem:
            self._observer.check_answered(key, check.name, words)
        if problem:
            known.problem = problem
        else:
            known.answered(series, sent, step.fresh)
