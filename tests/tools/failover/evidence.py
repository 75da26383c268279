"""Who wrote when, by the audit log and the API server's own clock: the judge of fencing. Events in, judgement out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.beds.audit import WRITES


@dataclass(frozen=True)
class Write:
    """One request that was no read, whatever its answer. Times are seconds since 1970 on the server's clock."""

    user: str
    what: str
    """Verb and resource, the subresource behind a slash."""
    code: int
    received: float
    done: float

    @property
    def is_lease(self) -> bool:
        return self.what.endswith(" leases")

    def __str__(self) -> str:
        return f"{self.what} ({self.code}) at {self.received:.6f}, done at {self.done:.6f}"


def writes_in(log: Path, namespace: str) -> list[Write]:
    """All writes to that namespace so far, in the order in which they came in; dry runs and refused ones too."""
    lines = [line for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    wanted = f'"namespace":"{namespace}"'.encode()
    events = (msgspec.json.decode(line, type=dict[str, Any]) for line in lines if wanted in line)
    found = [_write(event) for event in events if event["verb"] in WRITES]
    return sorted(found, key=lambda write: write.received)


def acquisition(writes: Iterable[Write], user: str, since: float = 0.0) -> Write | None:
    """The first write by which `user` got the Lease at `since` or later."""
    taken = (write for write in writes if write.user == user and write.is_lease and write.code in (200, 201))
    return next((write for write in taken if write.received >= since), None)


def first_work(writes: Iterable[Write], user: str, since: float) -> Write | None:
    """The first thing that `user` did at `since` or later beside the Lease."""
    return next((one for one in writes if one.user == user and not one.is_lease and one.received >= since), None)


def late(writes: Iterable[Write], user: str, taken: Write) -> list[Write]:
    """What `user` wrote although another process had taken the Lease: came in, or took effect, after that.

    A write to the Lease is guarded by its version, so one that had come in before took effect before or not at all.
    When it was done says nothing: a successor hears of a release, and may be answered, before the old leader is.
    """
    mine = (write for write in writes if write.user == user)
    return [one for one in mine if one.received > taken.received or (one.done > taken.done and not one.is_lease)]


def _write(event: dict[str, Any]) -> Write:
    about = event.get("objectRef") or {}
    sub = f"/{about['subresource']}" if about.get("subresource") else ""
    return Write(
        user=event["user"]["username"],
        what=f"{event['verb']} {about.get('resource', '')}{sub}",
        code=(event.get("responseStatus") or {}).get("code", 0),
        received=_seconds(event["requestReceivedTimestamp"]),
        done=_seconds(event["stageTimestamp"]),
    )


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
