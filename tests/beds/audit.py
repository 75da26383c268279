"""Who asked the API server for what, from its audit log; what the manifests allow, and a token for just that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from tests.beds.control_plane import ControlPlane, User
from tests.beds.control_plane.access import service_account

WRITES = ("create", "update", "patch", "delete", "deletecollection")


@dataclass(frozen=True)
class Asked:
    """One answered request. `resource` has the subresource behind a slash."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    code: int
    dry: bool
    began: str
    at: str
    """When it was answered; both in UTC, to the microsecond."""
    ended: bool
    """False: it is a stream, and this is its beginning."""
    allowed: bool
    """Whether RBAC let it through; a quota or a policy may still have refused it."""

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and not self.dry


class Audit:
    """The requests of one user from now on."""

    def __init__(self, plane: ControlPlane, user: User) -> None:
        self._path, self._user = plane.audit_path, user.name
        self._start = self._path.stat().st_size if self._path.exists() else 0

    def requests(self) -> list[Asked]:
        """In the order in which they came in: that of the lines is the one in which the server got round to them."""
        with open(self._path, "rb") as log:
            if self._start:  # which may lie within a line, as the server writes it
                log.seek(self._start - 1)
                log.readline()
            lines = [line for line in log if line.endswith(b"\n")]
        events: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines]
        return sorted((_asked(event) for event in events if _is_by(event, self._user)), key=lambda one: one.began)

    async def until(self, asked: str, times: int = 1, seconds: float = 60.0) -> list[Asked]:
        """The requests, once so many `verb resource` are among them: the log comes shortly after the answer."""
        async with asyncio.timeout(seconds):
            while sum(f"{one.verb} {one.resource}" == asked for one in self.requests()) < times:
                await asyncio.sleep(0.02)  # a file sends no notice when it grows
        return self.requests()

    def refused(self) -> list[Asked]:
        """Those that the server did not take from this user: no right, or no valid token."""
        return [one for one in self.requests() if not one.allowed]

    def rights(self) -> set[Right]:
        """What was asked for, one (group, resource, verb) each."""
        return {Right(one.group, one.resource, one.verb) for one in self.requests() if one.resource}

    async def rights_with(self, wanted: set[Right]) -> set[Right]:
        """`rights`, once all of `wanted` are among them or the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                while not wanted <= self.rights():  # a file sends no notice when it grows
                    await asyncio.sleep(0.02)
        return self.rights()

    def writes(self, resource: str = "") -> list[Asked]:
        """What was really written, or tried to be."""
        return [one for one in self.requests() if one.is_write and resource in ("", one.resource)]


def _is_by(event: dict[str, Any], user: str) -> bool:
    """A client without a valid token has no name; ours call themselves kruise-ds."""
    name = event["user"].get("username")
    return name == user or (not name and event.get("userAgent", "").startswith("kruise-ds"))


def _asked(event: dict[str, Any]) -> Asked:
    what = event.get("objectRef") or {}
    sub = f"/{what['subresource']}" if what.get("subresource") else ""
    code = (event.get("responseStatus") or {}).get("code", 0)
    return Asked(
        verb=event["verb"],
        group=what.get("apiGroup", ""),
        resource=what.get("resource", "") + sub,
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=code,
        dry="dryRun=" in event.get("requestURI", ""),
        began=event["requestReceivedTimestamp"],
        at=event["stageTimestamp"],
        ended=event["stage"] != "ResponseStarted",
        allowed=code != 401 and (event.get("annotations") or {}).get("authorization.k8s.io/decision") != "forbid",
    )


NAMESPACE, NAME = "kruise-ds-system", "kruise-ds-controller"
GROUPS = service_account(NAMESPACE, NAME).groups
USER = service_account(NAMESPACE, NAME).name


class Right(NamedTuple):
    """One cell of a rule: what it takes for one request. `resource` has the subresource behind a slash."""

    group: str
    resource: str
    verb: str


OLD_SERVERS = {
    Right(group, resource, "list")
    for group, resource in (
        ("apps.kruise.io", "daemonsets"),
        ("apps", "controllerrevisions"),
        ("", "pods"),
        ("", "nodes"),
    )
}
"""Only where the server cannot send the first list as a watch; test_start.py has one that cannot."""


def granted(built: Iterable[Any]) -> set[Right]:
    """All that the controller's account may do once these documents (a built overlay) are applied."""
    documents = list(built)
    bound = {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in documents if _is_ours(one)}
    roles = [one for one in documents if (one["kind"], one["metadata"]["name"]) in bound]
    return {right for role in roles for rule in role["rules"] for right in _rights(rule)}


async def token_account(plane: ControlPlane) -> User:
    """The account with a token that the server itself has signed, as the kubelet asks for it; for a day."""
    done = await plane.run_kubectl("create", "token", NAME, f"--namespace={NAMESPACE}", "--duration=24h")
    assert done.returncode == 0, done.stderr
    return User(USER, GROUPS, done.stdout.strip())


def _is_ours(document: Any) -> bool:
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    return account in (document.get("subjects") or ())


def _rights(rule: Any) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(group, resource, verb)
