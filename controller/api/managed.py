"""Who wrote the status last, by `metadata.managedFields`. Pure.

Only fields that the controller alone writes are looked at: conditions may be anybody's. A person with kubectl is no
other controller. Times are whole seconds.
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
    """The other's name."""

    def rival_since(self, before: StatusWriters) -> str:
        """Who has written since the status was as `before`, when it was ours already; "" for nobody.

        By the change and not by the times: two that answer the same event write in the same second, and so does a
        controller that takes over from the other. An earlier time is no write: ours took the later one's fields away.
        """
        changed = (self.theirs, self.other) != (before.theirs, before.other)
        return self.other if before.ours and changed and self.theirs >= before.theirs else ""

    @property
    def rival_wrote(self) -> float:
        """When another wrote after us, for want of a `before`; 0: nobody did."""
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
