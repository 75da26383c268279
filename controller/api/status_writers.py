"""Finds out who wrote the status last, by `metadata.managedFields`. Pure.

Only fields that nobody but a controller writes are considered; anybody may write conditions. A person with kubectl
does not count as another controller. Times are in whole seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.api.base import JSONObject, Value, View
from controller.api.meta import epoch

OURS = "kruise-ds"
"""The field manager of our writes: the name in the User-Agent."""
COUNTS = ("f:numberReady", "f:numberAvailable", "f:observedGeneration", "f:desiredNumberScheduled")


class ManagedFields(View):
    manager: str = ""
    subresource: str = ""
    time: str | None = None
    fields_v1: JSONObject | None = None


class StatusWriters(Value):
    """The last writes of a status by us and by another controller, in seconds since 1970; 0: never."""

    ours: float = 0.0
    theirs: float = 0.0
    other: str = ""
    """The field manager of the other controller; empty: none."""

    def rival_since(self, before: StatusWriters) -> str:
        """The other controller, if it has written since `before` and the status was ours then; "" otherwise.

        What counts is that the entry has changed, not which time is later: two controllers that react to the same
        event write in the same second. An entry with an earlier time is no new write: it is left when our write takes
        over the fields of a later one.
        """
        changed = (self.theirs, self.other) != (before.theirs, before.other)
        return self.other if before.ours and changed and self.theirs >= before.theirs else ""

    @property
    def rival_wrote(self) -> float:
        """When another controller wrote after us, if no `before` is known (seconds since 1970); 0: none did."""
        return self.theirs if 0 < self.ours < self.theirs else 0.0


def status_writers(entries: Iterable[ManagedFields]) -> StatusWriters:
    ours, theirs, other = 0.0, 0.0, ""
    for one in entries:
        if one.subresource != "status":
            continue
        time = epoch(one.time) or 0.0
        if one.manager == OURS:
            ours = max(ours, time)
        elif not one.manager.startswith("kubectl") and _has_counts(one.fields_v1) and time > theirs:
            theirs, other = time, one.manager
    return StatusWriters(ours=ours, theirs=theirs, other=other)


def _has_counts(fields: JSONObject | None) -> bool:
    status = (fields or {}).get("f:status")
    return isinstance(status, dict) and any(field in status for field in COUNTS)
