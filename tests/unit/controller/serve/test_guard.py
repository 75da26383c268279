"""Who is let in to a page, what the others are told, and how often the API server is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NoReturn

import msgspec
import pytest

from controller.assembly import Parts
from controller.kube.errors import ApiError, Unreachable
from controller.kube.request import Request, Response
from controller.kube.reviews import Reviewed
from controller.runtime.clock import system_clock
from controller.serve.guard import REMEMBERED, REMEMBERED_SECONDS, BearerGuard
from controller.serve.server import ServedPage
from controller.settings import Settings
from tests.beds.scripted import ok
from tests.beds.virtual_time import now, virtual_time

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


class Api:
    """The transport to an API server that knows the reader's token; an answer takes 10 ms."""

    async def exchange(self, request: Request) -> Response:
        await asyncio.sleep(0.01)
        spec = msgspec.json.decode(request.body)["spec"]
        if request.path.endswith("/tokenreviews"):
            good = spec["token"] == READER
            return ok(msgspec.json.encode({"status": {"authenticated": good, "user": {"username": "reader"}}}), 201)
        return ok(msgspec.json.encode({"status": {"allowed": True}}), 201)

    def stream(self, request: Request) -> NoReturn:
        raise AssertionError(f"nobody watches here: {request.path}")


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


@virtual_time
async def test_a_flood_of_made_up_tokens_is_turned_away_and_holds_up_no_known_scraper() -> None:
    """100 tokens a second for a minute, each review takes 10 ms: through real throttles (`REVIEWS_QPS`)."""
    scraped = list[float]()
    async with asyncio.TaskGroup() as group:
        parts = Parts(Settings(), Api(), server="", refresh=None, clock=system_clock)
        assert await parts.guard(f"Bearer {READER}", "/metrics") is None
        answers = list[asyncio.Task[ServedPage | None]]()

        async def flood() -> None:
            for number in range(6_000):
                answers.append(group.create_task(parts.guard(f"Bearer made-up-{number}", "/metrics")))
                await asyncio.sleep(0.01)

        await asyncio.sleep(REMEMBERED_SECONDS - 5)  # in the midst of the flood it has to be asked about again
        flooding = group.create_task(flood())
        while not flooding.done():
            began = now()
            assert await parts.guard(f"Bearer {READER}", "/metrics") is None
            scraped.append(now() - began)
            await asyncio.sleep(7.0)
        ended = now()
    assert max(scraped) <= 0.1, f"the known scraper waited {max(scraped)} s"
    assert now() - ended <= 6.0, "tokens were still waiting for their turn"
    told_to = Counter(told(answer.result())[0] for answer in answers)
    assert told_to[401] <= 10 * 70
    assert told_to[429] == len(answers) - told_to[401]


async def test_nobody_is_let_in_while_the_api_server_is_away_and_the_next_request_asks_again() -> None:
    cluster, failures = Cluster(), list[ApiError]()
    guard = guarding(cluster, failures.append)
    cluster.away = True
    status, words = told(await guard(f"Bearer {READER}", "/metrics"))
    assert (status, "connection refused" in words) == (503, False)
    assert "connection refused" in str(*failures)
    cluster.away = False
    assert await guard(f"Bearer {READER}", "/metrics") is None
