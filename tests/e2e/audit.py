"""Who asked the API server for what, from its audit log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.control_plane import ControlPlane, User

WRITES = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True)
class Asked:
    """One finished request. `resource` has the subresource behind a slash."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    dry: bool
    at: str

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and not self.dry


class Audit:
    """The requests of one user from now on."""

    def __init__(self, plane: ControlPlane, user: User) -> None:
        self._path, self._user = plane.audit_path, user.name
        self._start = self._path.stat().st_size if self._path.exists() else 0

    def requests(self) -> list[Asked]:
        with open(self._path, "rb") as log:
            log.seek(self._start)
            lines = [line for line in log if line.endswith(b"\n")]
        events: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
        return [_asked(event) for event in events if event["user"]["username"] == self._user]

    async def until(self, asked: str, seconds: float = 10.0) -> list[Asked]:
        """The requests, once a `verb resource` like this is among them: the log comes shortly after the answer."""
        async with asyncio.timeout(seconds):
            while not any(f"{one.verb} {one.resource}" == asked for one in self.requests()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # a file tells nobody that it has grown
        return self.requests()

    def refused(self) -> list[Asked]:
        """Those that RBAC did not allow."""
        return [one for one in self.requests() if one.code in (401, 403)]

    def writes(self, resource: str = "") -> list[Asked]:
        """What was really written, or tried to be."""
        return [one for one in self.requests() if one.is_write and resource in ("", one.resource)]


def _asked(event: dict[str, Any]) -> Asked:
    what = event.get("objectRef") or {}
    sub = f"/{what['subresource']}" if what.get("subresource") else ""
    return Asked(
        verb=event["verb"],
        group=what.get("apiGroup", ""),
        resource=what.get("resource", "") + sub,
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        dry="dryRun=" in event.get("requestURI", ""),
        at=event["stageTimestamp"],
    )
