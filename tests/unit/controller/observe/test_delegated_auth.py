"""Which requests may get a page, how the others are refused, and how often the API server is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.kube.errors import ApiError, Unreachable
from controller.kube.typed import Reviewed, Reviews
from controller.observe.http import CACHE_SECONDS, CACHE_SIZE, DelegatedAuth, Refusal
from tests.beds.virtual_time import virtual_time

READER, STRANGER = "reader-token", "stranger-token"


class Cluster(Reviews):
    """Knows two tokens; of the users only the reader may get /metrics."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.readers = {"reader"}
        self.away = False

    async def user_of(self, token: str) -> Reviewed | None:
        self.asked.append(token)
        if self.away:
            raise Unreachable("create", "a TokenReview", "connection refused")
        known = {READER: "reader", STRANGER: "stranger"}
        return Reviewed(username=known[token]) if token in known else None

    async def may_get(self, user: Reviewed, path: str) -> bool:
        return user.username in self.readers and path == "/metrics"


def auth_of(cluster: Cluster, on_failure: Callable[[ApiError], None]) -> DelegatedAuth:
    """With one way to ask for all."""
    return DelegatedAuth(cluster, cluster, on_failure)


def answer_of(refusal: Refusal | None) -> tuple[int, str]:
    return refusal or (200, "")


@pytest.mark.parametrize(
    ("authorization", "answer"),
    [
        ("", (401, "a bearer token is needed")),
        ("Basic cmVhZGVyOng=", (401, "a bearer token is needed")),
        ("Bearer ", (401, "a bearer token is needed")),
        (READER, (401, "a bearer token is needed")),
        ("Bearer made-up", (401, "the API server does not take this token")),
        (f"Bearer {STRANGER}", (403, 'stranger may not get nonResourceURL "/metrics"')),
        (f"Bearer {READER}", (200, "")),
        (f"bearer   {READER} ", (200, "")),
    ],
)
async def test_only_accepted_tokens_of_users_with_the_right_may_get_a_page(
    authorization: str, answer: tuple[int, str]
) -> None:
    auth = auth_of(Cluster(), lambda error: None)
    assert answer_of(await auth.check(authorization, "/metrics")) == answer


@virtual_time
async def test_the_right_to_one_page_says_nothing_about_another() -> None:
    auth = auth_of(Cluster(), lambda error: None)
    assert await auth.check(f"Bearer {READER}", "/metrics") is None
    refused = await auth.check(f"Bearer {READER}", "/secrets")
    assert refused is not None
    assert refused.status == 403


@virtual_time
async def test_each_answer_is_kept_for_a_minute() -> None:
    cluster = Cluster()
    auth = auth_of(cluster, lambda error: None)
    for _ in range(3):
        await auth.check(f"Bearer {READER}", "/metrics")
        await auth.check("Bearer made-up", "/metrics")
    assert cluster.asked == [READER, "made-up"]
    cluster.readers.clear()
    await asyncio.sleep(CACHE_SECONDS - 1)
    assert await auth.check(f"Bearer {READER}", "/metrics") is None
    await asyncio.sleep(2)
    assert answer_of(await auth.check(f"Bearer {READER}", "/metrics"))[0] == 403


async def test_refused_tokens_are_bounded_and_evict_no_accepted_one() -> None:
    cluster = Cluster()
    auth = auth_of(cluster, lambda error: None)
    await auth.check(f"Bearer {READER}", "/metrics")
    for number in range(CACHE_SIZE + 1):
        await auth.check(f"Bearer {number}", "/metrics")
    cluster.asked.clear()
    for token in (READER, str(CACHE_SIZE), "0"):
        await auth.check(f"Bearer {token}", "/metrics")
    assert cluster.asked == ["0"], "the oldest was forgotten"


async def test_no_request_is_accepted_while_the_api_server_is_away() -> None:
    cluster, failures = Cluster(), list[ApiError]()
    auth = auth_of(cluster, failures.append)
    cluster.away = True
    status, words = answer_of(await auth.check(f"Bearer {READER}", "/metrics"))
    assert (status, "connection refused" in words) == (503, False)
    assert "connection refused" in str(*failures)
    cluster.away = False
    assert await auth.check(f"Bearer {READER}", "/metrics") is None
