"""The rules of the Lease, what LeaseLock sends, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec
import pytest
from msgspec.structs import replace

from controller.kube.errors import (
    ApiError,
    ConfigError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreadable,
)
from controller.kube.requests import Request, Response
from controller.runtime.leader_election import (
    LEASE_DURATION,
    RENEW_DEADLINE,
    WATCHDOG_SECONDS,
    Lease,
    LeaseLock,
    LeaseSpec,
    held_spec,
    micro_time,
    released_spec,
    seconds_until_free,
)
from tests.beds.scripted import Answer, Script, Watch, ok
from tests.beds.virtual_time import now, virtual_time_from

WALL = 1795255200.25


def lease(holder: str | None, seconds: int | None = 15) -> Lease:
    return Lease(spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds), version="7")


@pytest.mark.parametrize(
    ("seen", "now", "seconds"),
    [
        (None, 100.0, 5.0),
        (None, 105.0, 0.0),
        (lease("other"), 100.0, 15.0),
        (lease("other"), 114.0, 1.0),
        (lease("other"), 115.0, 0.0),
        (lease("other", 40), 115.0, 25.0),
        (lease("other", None), 114.0, 1.0),
        (lease("", 1), 100.0, 0.0),
        (lease(None), 100.0, 0.0),
        (lease("me"), 100.0, 0.0),
    ],
)
def test_for_how_long_a_candidate_leaves_the_lease_alone(seen: Lease | None, now: float, seconds: float) -> None:
    assert seconds_until_free(seen, 100.0, "me", now) == seconds


def test_taking_over_counts_a_transition_and_starts_a_new_reign() -> None:
    first = held_spec(None, "other", WALL)
    assert first.lease_transitions == 0
    other = replace(first, renew_time="2099-01-01T00:00:00.000000Z", lease_transitions=4)
    mine = held_spec(other, "me", WALL + 1)
    assert mine == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time=micro_time(WALL + 1),
        renew_time=micro_time(WALL + 1),
        lease_transitions=5,
    )
    assert held_spec(mine, "me", WALL + 2) == replace(mine, renew_time=micro_time(WALL + 2))
    spec = released_spec(mine, WALL + 2)
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("", 1, 5)


def test_the_fence_stands_between_our_deadline_and_the_next_holder() -> None:
    assert RENEW_DEADLINE < WATCHDOG_SECONDS < LEASE_DURATION


ANSWER = b"""{"metadata": {"name": "kruise-ds-controller", "resourceVersion": "42", "labels": {"x": "y"}},
"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3,
"acquireTime": "2026-11-21T10:00:00.000000Z", "renewTime": "2026-11-21T10:00:02.000000Z", "strategy": "x"}}"""
MINE = LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time="2026-11-21T10:00:02.000000Z")


LEASES = "/apis/coordination.k8s.io/v1/namespaces/kruise-ds-system/leases"


def on(*answers: Answer, refresh: Callable[[], Awaitable[None]] | None = None) -> tuple[LeaseLock, list[Request]]:
    script = Script(*answers)
    return LeaseLock(script, "kruise-ds-system", "kruise-ds-controller", refresh=refresh), script.requests


@virtual_time_from(1000.0)
async def test_get() -> None:
    api, asked = on(ok(ANSWER), Response(status=404, body=b'{"kind": "Status", "reason": "NotFound"}'))
    lease = await api.get()
    assert lease is not None
    assert (lease.version, lease.spec.holder_identity, lease.spec.lease_transitions) == ("42", "a", 3)
    assert (asked[0].method, asked[0].path) == ("GET", f"{LEASES}/kruise-ds-controller")
    assert asked[0].timeout == 2.0
    assert await api.get() is None


async def test_create_sends_a_whole_lease_and_a_lost_race_is_none() -> None:
    taken = Response(status=409, body=b'{"kind": "Status", "reason": "AlreadyExists"}')
    api, asked = on(ok(ANSWER, 201), taken)
    assert await api.create(MINE) is not None
    assert asked[0].method == "POST"
    assert msgspec.json.decode(asked[0].body) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kruise-ds-controller", "namespace": "kruise-ds-system"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-21T10:00:02.000000Z"},
    }
    assert await api.create(MINE) is None


async def test_without_the_namespace_creation_fails() -> None:
    api, _ = on(Response(status=404, body=b'{"kind": "Status", "reason": "NotFound"}'))
    with pytest.raises(NotFound, match="kruise-ds-system"):
        await api.create(MINE)


async def test_update_is_guarded_by_the_version_and_a_conflict_is_none() -> None:
    api, asked = on(ok(ANSWER), *(Response(status=status, body=b"{}") for status in (404, 409)))
    assert await api.update(MINE, "41") is not None
    assert (asked[0].method, asked[0].content_type) == ("PATCH", "application/json-patch+json")
    guard, write = msgspec.json.decode(asked[0].body)
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": "41"}
    assert (write["op"], write["path"], write["value"]["holderIdentity"]) == ("add", "/spec", "a")
    for _ in (404, 409):
        assert await api.update(MINE, "41") is None


async def test_a_watch_follows_one_lease_and_tells_deletions() -> None:
    line = b'{"type": "MODIFIED", "object": %s}\n' % ANSWER.replace(b"\n", b"")
    gone = line.replace(b"MODIFIED", b"DELETED")
    api, asked = on(Watch([line[:30], line[30:] + gone, b'{"type": "ERROR", "object": {}}\n', line]))
    async with aclosing(api.watch("41")) as changes:
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


async def test_a_lease_that_cannot_be_read_ends_its_watch() -> None:
    api, _ = on(Watch([b'{"type": "MODIFIED", "object": {"metadata": {}, "spec": []}}\n']))
    with pytest.raises(Unreadable, match="spec"):
        async with aclosing(api.watch("41")) as changes:
            await anext(changes)


async def test_a_refused_watch_renews_the_credentials_for_the_next_call() -> None:
    async def refresh() -> None:
        raise ConfigError("log in again")

    api, asked = on(Watch([b'{"kind": "Status", "message": "Unauthorized"}'], 401), refresh=refresh)
    with pytest.raises(Unauthorized, match="log in again"):
        async with aclosing(api.watch("41")) as changes:
            await anext(changes)
    assert len(asked) == 1, "there is nothing new to ask with"


@virtual_time_from(1000.0)
async def test_a_busy_server_is_asked_again_for_two_seconds_at_most() -> None:
    api, asked = on(*[Response(status=429, body=b'{"kind": "Status"}', retry_after=0.75)] * 3)
    with pytest.raises(TooManyRequests):
        await api.update(MINE, "41")
    assert (len(asked), now()) == (3, 1001.5)
    assert [request.timeout for request in asked] == [2.0, 1.25, 0.5]
