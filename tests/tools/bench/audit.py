"""The API server's audit log: who asked for what, and when it was done. One clock for all peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, frozen=True):
    resource: str = ""
    subresource: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    user: _User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    object_ref: _Object = _Object()
    response_status: _Status = _Status()
    request_uri: str = msgspec.field(name="requestURI", default="")


class Entry(msgspec.Struct, frozen=True):
    """One finished request. `received` and `done` are seconds since 1970."""

    user: str
    verb: str
    resource: str
    subresource: str
    name: str
    """Empty for a create whose name the server made."""
    code: int
    dry: bool
    """It only asks whether the server would do it."""
    received: float
    done: float

    @property
    def mutates(self) -> bool:
        """Dry runs and events too."""
        return self.verb in WRITES

    @property
    def writes(self) -> bool:
        """Whether it changes anything but events. A dry run counts: the server does the same work for it."""
        return self.mutates and self.resource != "events"

    @property
    def what(self) -> str:
        """Such as `patch daemonsets/status`."""
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{subresource}{' (dry run)' if self.dry else ''}"

    @property
    def failed(self) -> bool:
        return self.code >= 400


class AuditLog:
    """A log that grows; `mark` says where it ends now, `since` reads on from there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decode = msgspec.json.Decoder(_Line).decode

    def mark(self) -> int:
        return self._path.stat().st_size

    def since(self, mark: int) -> list[Entry]:
        """Everything that was finished after `mark`, except a last line that is still being written."""
        with open(self._path, "rb") as log:
            log.seek(mark)
            lines = log.read().split(b"\n")[:-1]
        return [_entry(self._decode(line)) for line in lines]


def asked_by(user: str, entries: Iterable[Entry]) -> list[Entry]:
    """The requests of `user`, without watches."""
    return [entry for entry in entries if entry.user == user and entry.verb != "watch"]


def written_by(user: str, entries: Iterable[Entry]) -> list[Entry]:
    """The writes of `user`, without events."""
    return [entry for entry in asked_by(user, entries) if entry.writes]


def by_kind(entries: Iterable[Entry]) -> str:
    """How often each kind of request was made, the most frequent first."""
    return ", ".join(f"{count} {what}" for what, count in Counter(entry.what for entry in entries).most_common())


def _entry(line: _Line) -> Entry:
    return Entry(
        user=line.user.username,
        verb=line.verb,
        resource=line.object_ref.resource,
        subresource=line.object_ref.subresource,
        name=line.object_ref.name,
        code=line.response_status.code,
        dry="dryRun=" in line.request_uri,
        received=line.request_received_timestamp.timestamp(),
        done=line.stage_timestamp.timestamp(),
    )
