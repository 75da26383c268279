"""Writes the status: only what differs, and never somebody else's conditions.

Counts are guarded by the uid alone, because only we write them; conditions by the version, because others may add
theirs, and a list that is written whole would remove those.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from controller.api import patch
from controller.api.base import JSON, JSONObject, as_json
from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.meta import rfc3339
from controller.api.wellknown import AVAILABLE, CONDITION_TYPES, READY, RECONCILING
from controller.kube.client import Client
from controller.kube.kinds import DAEMONSETS
from controller.planner.readiness import Verdict
from controller.planner.status import Status

Conditions: TypeAlias = tuple[JSONObject, ...]

FOLLOWING = (AVAILABLE, READY, RECONCILING)
"""Conditions that turn with pods, or together with another one: nobody waits for these alone."""


class DueStatus(msgspec.Struct, frozen=True):
    """A status write that is due."""

    patch: patch.JsonPatch
    result: DaemonSetStatus
    """The status once the patch is applied."""
    urgent: bool
    """Somebody waits for this: a generation was observed, a condition turned, or the rollout is complete."""


def change_of(
    daemonset: DaemonSet, wanted: Status, latest: tuple[str, DaemonSetStatus | None], now: float
) -> DueStatus | None:
    """What has to be written so that the status reads as wanted; None when it does. `latest`: the newest status that
    is known, and the version of the object that carries it."""
    version, known = latest
    before = known if known is not None else DaemonSetStatus()
    after = _merged(before, wanted, daemonset.generation, now)
    if known is not None and after == before:
        return None
    fields = _differences(before, after, everything=known is None)
    urgent = known is None or wanted.settled or _turned(before, after)
    if known is None:
        return DueStatus(patch.guarded_by_uid(daemonset.uid, patch.add(fields, "status")), after, urgent)
    operations = tuple(patch.add(value, "status", field) for field, value in fields.items())
    if "conditions" in fields:
        return DueStatus(patch.guarded_by_version(version, *operations), after, urgent)
    return DueStatus(patch.guarded_by_uid(daemonset.uid, *operations), after, urgent)


async def write(client: Client, daemonset: DaemonSet, change: DueStatus) -> str:
    """Returns the version at which the server stored it. Raises ApiError; a Conflict only means that the DaemonSet
    changed meanwhile."""
    written = await client.patch(DAEMONSETS, daemonset.key, change.patch, sub="status")
    return written.version


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
    """Ours as wanted, the others where they were. The transition time moves only with the status."""
    old = {condition.get("type"): condition for condition in before}
    ours = {one.type: _condition(one, old.get(one.type, {}), generation, now) for one in wanted.conditions}
    partial = wanted.counts is None  # a refused spec says nothing about progress: leave those conditions alone
    kept = []
    for condition in before:
        kind = str(condition.get("type"))
        if kind in ours:
            kept.append(ours.pop(kind))
        elif partial or kind not in CONDITION_TYPES:
            kept.append(condition)
    return (*kept, *ours.values())


def _condition(verdict: Verdict, old: JSONObject, generation: int, now: float) -> JSONObject:
    same = old.get("status") == verdict.status and bool(old.get("lastTransitionTime"))
    return {
        "type": verdict.type,
        "status": verdict.status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": old["lastTransitionTime"] if same else rfc3339(now),
        "observedGeneration": generation,
    }


def _differences(before: DaemonSetStatus, after: DaemonSetStatus, *, everything: bool) -> JSONObject:
    """The fields to write, under their JSON names. The first write holds every field, so that a 0 prints as 0."""
    names = {"collision_count"} if after.collision_count is None else set()
    told = as_json(after)
    return {
        field.encode_name: _without_nulls(told[field.encode_name])
        for field in msgspec.structs.fields(DaemonSetStatus)
        if field.name not in names and (everything or getattr(before, field.name) != getattr(after, field.name))
    }


def _without_nulls(value: JSON) -> JSON:
    """A field that is unset is left out: the schema knows no null."""
    return {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value


def _turned(before: DaemonSetStatus, after: DaemonSetStatus) -> bool:
    if (before.observed_generation, before.update_revision) != (after.observed_generation, after.update_revision):
        return True

    def words(status: DaemonSetStatus) -> list[tuple[JSON, JSON, JSON]]:
        conditions = (one for one in status.conditions or () if one.get("type") not in FOLLOWING)
        return [(one.get("type"), one.get("status"), one.get("reason")) for one in conditions]

    return words(before) != words(after)
