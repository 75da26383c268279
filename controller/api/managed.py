"""Who wrote the status last, by `metadata.managedFields`. Pure.

Only fields that the controller alone writes are looked at: conditions may be anybody's. A person with kubectl is no
other controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.api.base import JSONObject, View
from controller.api.meta import epoch

OURS = "kruise-ds"
"""The field manager of our writes: the name in the User-Agent."""
COUNTS = ("f:numberReady", "f:numberAvailable", "f:observedGeneration", "f:desiredNumberScheduled")


class ManagedFields(View):
    manager: str = ""
    subresource: str = ""
    time: str | None = None
    fields_v1: JSONObject | None = None


def foreign_writer(entries: Iterable[ManagedFields]) -> tuple[str, str]:
    """Manager and time of the last write of counts that came after our own last one; empty where there is none, or
    where we have never written: then it is what we take over.

    Times are whole seconds. A write in the second of ours counts: two that answer the same events write together.
    """
    statuses = [one for one in entries if one.subresource == "status"]
    ours = max((epoch(one.time) or 0.0 for one in statuses if one.manager == OURS), default=None)
    if ours is None:
        return "", ""
    found = [
        one
        for one in statuses
        if one.manager != OURS
        and not one.manager.startswith("kubectl")
        and (epoch(one.time) or 0.0) >= ours
        and _has_counts(one.fields_v1)
    ]
    last = max(found, key=lambda one: epoch(one.time) or 0.0, default=None)
    return ("", "") if last is None else (last.manager, last.time or "")


def _has_counts(fields: JSONObject | None) -> bool:
    status = (fields or {}).get("f:status")
    return isinstance(status, dict) and any(field in status for field in COUNTS)
