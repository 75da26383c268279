"""Who is let in to a page, what the others are told, and how often the API server is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.kube.client import Reviewed
from controller.kube.errors import ApiError, Unreachable
from controller.observe.http import REMEMBERED, REMEMBERED_SECONDS, BearerGuard, ServedPage
from tests.beds.virtual_time import virtual_time

READER, STRANGER = "reader-token", "stranger-token"


class Cluster:
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


def guarding(cluster: Cluster, on_failure: Callable[[ApiError], None]) -> BearerGuard:
    """With one way to ask for all."""
    return BearerGuard(cluster, cluster, on_failure)


def told(page: ServedPage | None) -> tuple[int, str]:
    return (200, "") if page is None else (page.status, page.body.decode().strip())


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
async def test_who_is_let_in(authorization: str, answer: tuple[int, str]) -> None:
    guard = guarding(Cluster(), lambda error: None)
    assert told(await guard(authorization, "/metrics")) == answer


@virtual_time
async def test_the_right_to_one_page_says_nothing_about_another() -> None:
    guard = guarding(Cluster(), lambda error: None)
    assert await guard(f"Bearer {READER}", "/metrics") is None
    refused = await guard(f"Bearer {READER}", "/secrets")
    assert refused is not None
    assert refused.status == 403


@virtual_time
async def test_each_answer_is_kept_for_a_minute() -> None:
    cluster = Cluster()
    guard = guarding(cluster, lambda error: None)
    for _ in range(3):
        await guard(f"Bearer {READER}", "/metrics")
        await guard("Bearer made-up", "/metrics")
    assert cluster.asked == [READER, "made-up"]
    cluster.readers.clear()
    await asyncio.sleep(REMEMBERED_SECONDS - 1)
    assert await guard(f"Bearer {READER}", "/metrics") is None
    await asyncio.sleep(2)
    assert told(await guard(f"Bearer {READER}", "/metrics"))[0] == 403


async def test_made_up_tokens_do_not_pile_up_and_push_out_nobody_who_was_let_in() -> None:
    cluster = Cluster()
    guard = guarding(cluster, lambda error: None)
    await guard(f"Bearer {READER}", "/metrics")
    for number in range(REMEMBERED + 1):
        await guard(f"Bearer {number}", "/metrics")
    cluster.asked.clear()
    for token in (READER, str(REMEMBERED), "0"):
        await guard(f"Bearer {token}", "/metrics")
    assert cluster.asked == ["0"], "the oldest was forgotten"


async def test_while_the_api_server_is_away_no_request_is_let_in() -> None:
    cluster, failures = Cluster(), list[ApiError]()
    guard = guarding(cluster, failures.append)
    cluster.away = True
    status, words = told(await guard(f"Bearer {READER}", "/metrics"))
    assert (status, "connection refused" in words) == (503, False)
    assert "connection refused" in str(*failures)
    cluster.away = False
    assert await guard(f"Bearer {READER}", "/metrics") is None
