"""What `ServerLease` sends, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from controller.kube.errors import (
    ApiError,
    Busy,
    ConfigError,
    Forbidden,
    ServerError,
    Unauthorized,
    Unknown,
    Unreachable,
    Unreadable,
)
from controller.kube.request import Request, Response
from controller.runtime.lease import ServerLease
from controller.runtime.lease_rules import LeaseSpec
from tests.beds.virtual_time import now, virtual_time_from

ANSWER = b"""{"metadata": {"name": "kruise-ds-controller", "resourceVersion": "42", "labels": {"x": "y"}},
"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3,
"acquireTime": "2026-11-21T10:00:00.000000Z", "renewTime": "2026-11-21T10:00:02.000000Z", "strategy": "x"}}"""
MINE = LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time="2026-11-21T10:00:02.000000Z")


class ScriptedStream:
    retry_after: float | None = None

    def __init__(self, status: int, chunks: list[bytes]) -> None:
        self.status, self._chunks = status, chunks

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


class ScriptedTransport:
    def __init__(self, answer: Response | OSError, stream: ScriptedStream | None = None) -> None:
        self.answer, self.opened = answer, stream
        self.asked: list[Request] = []

    async def exchange(self, request: Request) -> Response:
        self.asked.append(request)
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[ScriptedStream]:
        self.asked.append(request)
        assert self.opened is not None
        yield self.opened


def on(answer: Response | OSError, stream: ScriptedStream | None = None) -> tuple[ServerLease, list[Request]]:
    transport = ScriptedTransport(answer, stream)
    return ServerLease(transport, "kruise-ds-system", "kruise-ds-controller"), transport.asked


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kruise-ds-system/leases"


@virtual_time_from(1000.0)
async def test_get() -> None:
    api, asked = on(Response(status=200, body=ANSWER))
    lease = await api.get_lease()
    assert lease is not None
    assert (lease.version, lease.spec.holder_identity, lease.spec.lease_transitions) == ("42", "a", 3)
    assert (asked[0].method, asked[0].path) == ("GET", f"{LEASES}/kruise-ds-controller")
    assert asked[0].timeout == 2.0


async def test_no_lease_is_none() -> None:
    api, _ = on(Response(status=404, body=b'{"kind": "Status", "reason": "NotFound"}'))
    assert await api.get_lease() is None


async def test_create_sends_a_whole_lease_and_a_lost_race_is_none() -> None:
    api, asked = on(Response(status=201, body=ANSWER))
    assert await api.create_lease(MINE) is not None
    assert asked[0].method == "POST"
    assert msgspec.json.decode(asked[0].body) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kruise-ds-controller", "namespace": "kruise-ds-system"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-21T10:00:02.000000Z"},
    }
    api, _ = on(Response(status=409, body=b'{"kind": "Status", "reason": "AlreadyExists"}'))
    assert await api.create_lease(MINE) is None


async def test_update_is_guarded_by_the_version_and_a_conflict_is_none() -> None:
    api, asked = on(Response(status=200, body=ANSWER))
    assert await api.update_lease(MINE, "41") is not None
    assert (asked[0].method, asked[0].content_type) == ("PATCH", "application/json-patch+json")
    guard, write = msgspec.json.decode(asked[0].body)
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": "41"}
    assert (write["op"], write["path"], write["value"]["holderIdentity"]) == ("add", "/spec", "a")
    for status in (404, 409):
        api, _ = on(Response(status=status, body=b"{}"))
        assert await api.update_lease(MINE, "41") is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Response(status=503, body=b"no healthy upstream"), ServerError),
        (Response(status=403, body=b'{"kind": "Status", "message": "no"}'), Forbidden),
        (Response(status=200, body=b"<html>"), Unreadable),
        (ConnectionResetError("reset"), Unreachable),
        (TimeoutError(), Unreachable),
    ],
)
async def test_other_answers_are_errors(answer: Response | OSError, error: type[ApiError]) -> None:
    api, _ = on(answer)
    with pytest.raises(error, match=r"leases\.coordination\.k8s\.io kruise-ds-system/kruise-ds-controller"):
        await api.get_lease()


async def test_a_write_without_an_answer_is_unknown() -> None:
    api, _ = on(ConnectionResetError("reset"))
    with pytest.raises(Unknown):
        await api.update_lease(MINE, "41")


async def test_a_watch_follows_one_lease_and_tells_deletions() -> None:
    line = b'{"type": "MODIFIED", "object": %s}\n' % ANSWER.replace(b"\n", b"")
    gone = b'{"type": "DELETED", "object": %s}\n' % ANSWER.replace(b"\n", b"")
    stream = ScriptedStream(200, [line[:30], line[30:] + gone, b'{"type": "ERROR", "object": {}}\n', line])
    api, asked = on(Response(status=500), stream)
    async with api.watch_lease("41") as changes:
        seen = [await anext(changes), await anext(changes)]
        with pytest.raises(ApiError):
            await anext(changes)
    assert [lease.version if lease else None for lease in seen] == ["42", None], "an error ends the watch"
    assert dict(asked[0].query) == {
        "watch": "1",
        "fieldSelector": "metadata.name=kruise-ds-controller",
        "timeoutSeconds": "300",
        "resourceVersion": "41",
    }


async def test_a_watch_that_is_not_allowed_says_so() -> None:
    api, _ = on(Response(status=500), ScriptedStream(403, [b'{"kind": "Status", ', b'"message": "may not watch"}']))
    with pytest.raises(Forbidden, match="may not watch"):
        async with api.watch_lease("41") as changes:
            await anext(changes)


@pytest.mark.parametrize("verb", ["get", "patch", "watch"])
async def test_a_refused_credential_is_renewed_for_the_next_call(verb: str) -> None:
    body = b'{"kind": "Status", "message": "Unauthorized"}'
    transport = ScriptedTransport(Response(status=401, body=body), ScriptedStream(401, [body]))
    renewed: list[str] = []

    async def refresh() -> None:
        renewed.append(verb)
        raise ConfigError("log in again")

    api = ServerLease(transport, "kruise-ds-system", "kruise-ds-controller", refresh=refresh)
    with pytest.raises(Unauthorized):
        await call(api, verb)
    assert renewed == [verb]
    assert len(transport.asked) == 1, "there is nothing new to ask with"


@virtual_time_from(1000.0)
async def test_a_busy_server_is_asked_again_after_two_seconds_at_most() -> None:
    api, asked = on(Response(status=429, body=b'{"kind": "Status"}', retry_after=0.75))
    with pytest.raises(Busy):
        await api.update_lease(MINE, "41")
    assert (len(asked), now()) == (3, 1001.5)
    assert [request.timeout for request in asked] == [2.0, 1.25, 0.5]


async def test_a_lease_that_cannot_be_read_ends_the_watch() -> None:
    line = b'{"type": "MODIFIED", "object": {"metadata": {"name": "x"}, "spec": []}}\n'
    api, _ = on(Response(status=500), ScriptedStream(200, [line]))
    async with api.watch_lease("41") as changes:
        with pytest.raises(Unreadable):
            await anext(changes)


async def call(api: ServerLease, verb: str) -> None:
    match verb:
        case "get":
            await api.get_lease()
        case "patch":
            await api.update_lease(MINE, "41")
        case _:
            async with api.watch_lease("41") as changes:
                await anext(changes)
