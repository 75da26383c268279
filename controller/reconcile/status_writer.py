"""Writes the status: only fields that differ, and never foreign conditions. Counts are guarded by uid alone, because
only this controller writes them; conditions by the version, because writing the list would remove those that others
add meanwhile. A status that another controller writes is left to it for a while."""

from __future__ import annotations

from math import inf
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from controller.api import patch
from controller.api.daemonset import DaemonSet, DaemonSetStatus, rollout_of
from controller.api.names import AVAILABLE, CONDITION_TYPES, READY, RECONCILING
from controller.api.objects import JSON, JSONObject, Part, as_json, rfc3339
from controller.kube.errors import ApiError, WriteVerdict, classify
from controller.kube.requests import DAEMONSETS
from controller.planner.actions import Note
from controller.planner.conditions import Condition
from controller.planner.plan import Plan
from controller.planner.status import Status
from controller.reconcile.backoff import FIRST_DELAY, MOST_REPEATS, RepeatedWrites, WriteBackoff
from controller.reconcile.dependencies import Dependencies
from controller.runtime.clock import elapsed
from controller.runtime.expectations import CacheProgress
from controller.runtime.pacing import StatusPacer
from controller.runtime.workers import AnswerTimer, Requeue

S = TypeVar("S")

Conditions: TypeAlias = tuple[JSONObject, ...]

FOLLOWING = (AVAILABLE, READY, RECONCILING)
"""Conditions that change with every pod or together with another one. A write of only these is not urgent."""


class OwnStatus(msgspec.Struct, Generic[S]):
    """The last status written."""

    status: S | None = None
    """None once the cache shows it."""
    version: int = 0
    """The resourceVersion of that write; 0 before the first."""
    at: float = 0.0
    """When the server answered it (`elapsed`)."""

    def wrote(self, status: S, version: str, moment: float) -> None:
        if version.isdigit():
            self.status, self.version, self.at = status, int(version), moment

    def observe(self, reach: CacheProgress) -> None:
        """Forgets the status if the cache at `reach` must show it."""
        if self.status is not None and reach.covers(self.version, self.at):
            self.status = None

    def latest(self, version: str, cached: S | None) -> tuple[str, S | None]:
        """The newest known status and its resourceVersion: the last one written, or the `cached` one of `version` if
        that is newer."""
        if self.status is not None and version.isdigit() and int(version) < self.version:
            return str(self.version), self.status
        return version, cached


class DueStatus(msgspec.Struct, frozen=True):
    patch: patch.JsonPatch
    result: DaemonSetStatus
    """The status with the patch applied."""
    urgent: bool
    """Whether a generation was observed, a condition changed, or the rollout is complete."""


class StatusBackoff:
    """Delays status writes that were refused late, and those that are reverted each time."""

    def __init__(self) -> None:
        self._backoff = WriteBackoff[Literal["refused", "reverted"]]()
        self._repeated = RepeatedWrites[object]()

    def delay(self, wanted: Status, moment: float) -> float:
        until = self._backoff.in_backoff(moment)
        due = until.get("refused", moment)
        if self._repeated.times(_content(wanted), moment, self._backoff.delay_of("reverted")):
            due = max(due, until.get("reverted", moment))
        return due - moment

    def refused(self, moment: float) -> None:
        self._backoff.record_failure("refused", moment, first=FIRST_DELAY)

    def wrote(self, status: Status, moment: float) -> bool:
        """Records a write; returns whether it was repeated too often. One repetition may follow an edit by a user."""
        self._backoff.record_success("refused")
        content, delay = _content(status), self._backoff.delay_of("reverted")
        if not self._repeated.times(content, moment, delay):
            self._repeated.accepted.clear()
            self._backoff.record_success("reverted")
        times = self._repeated.record(content, moment, delay)
        if times >= MOST_REPEATS:
            self._backoff.record_failure("reverted", moment, first=FIRST_DELAY)
        return times > MOST_REPEATS


class StatusWriter:
    """Writes the status of one DaemonSet as the pacer allows, one write at a time."""

    def __init__(self) -> None:
        self.own = OwnStatus[DaemonSetStatus]()
        self._pacer = StatusPacer()
        self._is_under_way = False
        self._backoff = StatusBackoff()

    async def write_due(
        self, daemonset: DaemonSet, decided: Plan, dependencies: Dependencies, requeue: Requeue
    ) -> float | None:
        """Writes what differs; returns the seconds until the rest may be written, or None. Raises ApiError."""
        moment = elapsed()
        if decided.status is None or self._is_under_way:
            return None
        latest = self.own.latest(daemonset.version, daemonset.status)
        due = due_status(daemonset, decided.status, latest, dependencies.clock())
        if due is None:
            return None
        delay = max(self._pacer.delay(moment, urgent=due.urgent), self._backoff.delay(decided.status, moment))
        if delay > 0:
            return delay
        self._is_under_way = True
        try:
            with AnswerTimer(requeue) as answers:
                await self._write(daemonset, due, latest[1], decided, dependencies)
        except ApiError:
            if answers.is_late:
                self._backoff.refused(elapsed())
            raise
        finally:
            self._is_under_way = False
        return None

    async def _write(
        self,
        daemonset: DaemonSet,
        due: DueStatus,
        before: DaemonSetStatus | None,
        decided: Plan,
        dependencies: Dependencies,
    ) -> None:
        try:
            written = await dependencies.client.patch(DAEMONSETS, daemonset.key, due.patch, sub="status")
        except ApiError as error:
            dependencies.observer.status_answered(
                "conflict" if classify(error).write is WriteVerdict.CONFLICT else "error"
            )
            raise
        moment = elapsed()
        self._pacer.wrote(moment)
        self.own.wrote(due.result, written.version, moment)
        if decided.status is not None and self._backoff.wrote(decided.status, moment):
            dependencies.observer.event(daemonset, reverted_note())
        dependencies.observer.status_answered("success")
        dependencies.observer.status_written(daemonset, before, due.result)
        for note in decided.rollout_events:
            dependencies.observer.event(daemonset, note)


def due_status(
    daemonset: DaemonSet, wanted: Status, latest: tuple[str, DaemonSetStatus | None], now: float
) -> DueStatus | None:
    """The write that makes the status `wanted`, or None. `latest`: the newest status and its resourceVersion."""
    version, before = latest
    after = _merged(before or DaemonSetStatus(), wanted, daemonset.generation, now)
    if after == before:
        return None
    operations = status_changes(before, after)
    urgent = before is None or wanted.settled or _has_transition(before, after)
    if before is not None and before.conditions != after.conditions:
        return DueStatus(patch.guarded_by_version(version, *operations), after, urgent)
    return DueStatus(patch.guarded_by_uid(daemonset.uid, *operations), after, urgent)


def _merged(before: DaemonSetStatus, wanted: Status, generation: int, now: float) -> DaemonSetStatus:
    fields: dict[str, object] = {"columns": wanted.columns, "rollout": wanted.rollout}
    if wanted.counts is not None:
        fields |= msgspec.structs.asdict(wanted.counts)
    if wanted.revision_hash is not None:
        fields |= {"update_revision": wanted.revision_hash, "daemon_set_hash": wanted.revision_hash}
    if wanted.observed_generation is not None:
        fields["observed_generation"] = wanted.observed_generation
    if wanted.collision_count is not None:
        fields["collision_count"] = wanted.collision_count
    fields["conditions"] = _conditions(before.conditions or (), wanted, generation, now)
    return msgspec.structs.replace(before, **fields)


def _conditions(before: Conditions, wanted: Status, generation: int, now: float) -> Conditions:
    """The wanted conditions and all foreign ones. The transition time changes only with the status."""
    old = {condition.get("type"): condition for condition in before}
    ours = {
        condition.type: _condition(condition, old.get(condition.type, {}), generation, now)
        for condition in wanted.conditions
    }
    partial = wanted.counts is None  # a refused spec says nothing about progress: leave those conditions alone
    kept = []
    for condition in before:
        kind = str(condition.get("type"))
        if kind in ours:
            kept.append(ours.pop(kind))
        elif partial or kind not in CONDITION_TYPES:
            kept.append(condition)
    return (*kept, *ours.values())


def _condition(wanted: Condition, old: JSONObject, generation: int, now: float) -> JSONObject:
    same = old.get("status") == wanted.status and bool(old.get("lastTransitionTime"))
    return {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": old["lastTransitionTime"] if same else rfc3339(now),
        "observedGeneration": generation,
    }


def status_changes(before: Part | None, after: Part) -> list[JSONObject]:
    """Operations that change a status. The first write has all fields, so that kubectl prints a 0 as 0."""
    new = _without_nulls(as_json(after))
    if before is None:
        return [patch.add(new, "status")]
    old = _without_nulls(as_json(before))
    gone = [patch.remove("status", name) for name in old if name not in new]
    return [patch.add(value, "status", name) for name, value in new.items() if old.get(name) != value] + gone


def _without_nulls(fields: JSONObject) -> JSONObject:
    """`fields` without unset ones: the schema does not allow null."""
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }


def _has_transition(before: DaemonSetStatus, after: DaemonSetStatus) -> bool:
    if (before.observed_generation, before.update_revision) != (after.observed_generation, after.update_revision):
        return True

    was, now = rollout_of(before), rollout_of(after)
    if (was.step, was.aborted_revision) != (now.step, now.aborted_revision):
        return True

    def words(status: DaemonSetStatus) -> list[tuple[JSON, JSON, JSON]]:
        conditions = (condition for condition in status.conditions or () if condition.get("type") not in FOLLOWING)
        return [(condition.get("type"), condition.get("status"), condition.get("reason")) for condition in conditions]

    return words(before) != words(after)


def _content(status: Status) -> tuple[object, ...]:
    record = status.rollout
    rollout = (
        record.phase,
        record.target,
        record.done,
        record.most_done,
        record.most_updated,
        record.stable_revision,
        record.previous_stable_revision,
        record.step,
        record.step_reached_time,
        record.aborted_revision,
    )
    rest = (status.observed_generation, status.revision_hash, status.collision_count, status.columns)
    return rollout, rest, status.counts, status.conditions


FOREIGN_STATUS = "ForeignStatusWrite"
STATUS_REVERTED = "StatusReverted"
FIRST_YIELD = 60.0
LONGEST_YIELD = 900.0
"""Seconds of the first and the longest pause; the note below states both."""


class OtherController(msgspec.Struct):
    """The pause that this controller makes after another one has written the status."""

    until: float = -inf
    """The end of the pause (`elapsed`); `-inf` before the first one."""
    pause: float = 0.0
    """Seconds from the other controller's last write to the end."""

    def wrote(self, moment: float) -> None:
        """Records a write of the other controller. During the pause it restarts the pause, within as long after its
        end it doubles it; later it begins a short pause again."""
        if moment > self.until + self.pause:
            self.pause = FIRST_YIELD
        elif moment >= self.until:
            self.pause = min(self.pause * 2, LONGEST_YIELD)
        self.until = moment + self.pause


def foreign_note(manager: str) -> Note:
    text = (
        f"{manager!r} wrote this status too. This controller leaves the DaemonSet alone until the other one has not "
        "written for a minute, later for up to 15. Stop one of the two, for example OpenKruise's "
        "kruise-controller-manager"
    )
    return Note(warning=True, reason=FOREIGN_STATUS, message=text)


def reverted_note() -> Note:
    text = "another controller or a webhook takes this status back; it is written again ever less often"
    return Note(warning=True, reason=STATUS_REVERTED, message=text)
