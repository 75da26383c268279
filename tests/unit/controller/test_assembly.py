"""What the parts are given of what was asked for, and how those of the metrics work together."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import msgspec
import pytest

from controller.api.objects import Key
from controller.informers import RESTORED_SECONDS, Informers
from controller.kube.requests import NODES, PODS, Request, Response
from controller.observe.http import CACHE_SECONDS, Refusal
from controller.observe.metrics import encoded
from controller.runtime.clock import system_clock
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.scripted import Script, ok
from tests.beds.stores import fill
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, ds
from tests.unit.controller.observe.test_delegated_auth import READER, answer_of


class Api:
    """The transport to an API server that knows the reader's token; an answer takes 10 ms."""

    async def exchange(self, request: Request) -> Response:
        await asyncio.sleep(0.01)
        review = msgspec.json.decode(request.body)
        if request.path.endswith("/tokenreviews"):
            status = {"authenticated": review["spec"]["token"] == READER, "user": {"username": "reader"}}
        else:
            status = {"allowed": True}
        return ok(msgspec.json.encode({**review, "status": status}), 201)

    def stream(self, request: Request) -> NoReturn:
        raise AssertionError(f"nobody watches here: {request.path}")


async def test_build_info_names_the_commit_that_the_image_was_built_from() -> None:
    parts = Parts(Settings(revision="4f2d1c0"), Script(), server="", refresh=None, clock=system_clock)
    text, _ = encoded(tuple(parts.metrics.families()))
    assert b'revision="4f2d1c0"' in text


@virtual_time
async def test_requests_keep_the_rate_and_the_burst_that_were_asked_for() -> None:
    answers = [msgspec.structs.replace(ok(), date="Fri, 15 Jan 2027 08:00:00 GMT")] * 5
    parts = Parts(Settings(qps=1.0, burst=3), Script(*answers), clock=system_clock)
    for _ in answers:
        await parts.client.get(PODS, Key("default", "a"))
    assert now() == 2.0
    assert parts.server_clock.ahead(NOW - 30) == 30.0, "as the last answer says"


@pytest.mark.parametrize("zones", [True, False])
@virtual_time
async def test_metrics_by_zone_are_shown_where_asked_for_and_all_only_by_the_leader(zones: bool) -> None:
    parts = Parts(Settings(zone_metrics=zones), Script(), clock=lambda: NOW)
    fill(parts.informers.caches.daemonsets, [ds()])

    def shown() -> str:
        return encoded(tuple(parts.metrics.families()))[0].decode()

    assert ("kruise_daemonset_rollout_zone_nodes" in shown()) is zones
    assert 'daemonset="demo"' not in shown()
    parts.leadership.deadline = float("inf")
    assert 'kruise_daemonset_rollouts_total{daemonset="demo"' in shown()


class Relisted:
    """A reflector that counts its lists."""

    def __init__(self, resource: object) -> None:
        self.resource, self.namespace, self.lists = resource, "", 0

    def relist(self) -> None:
        self.lists += 1


@virtual_time
async def test_who_notices_a_restored_server_has_all_others_list_again_once() -> None:
    informers, told = Informers(()), list[tuple[object, ...]]()
    pods, nodes = Relisted(PODS), Relisted(NODES)
    informers._needed = [cast("Any", pods), cast("Any", nodes)]
    triggers: Any = SimpleNamespace(on_server_restored=lambda *about: told.append(about))
    for noticed_by in (pods, nodes):
        informers._restored(triggers, cast("Any", noticed_by))
        assert (pods.lists, nodes.lists, told) == (0, 1, [(PODS, "")])
    await asyncio.sleep(RESTORED_SECONDS)
    informers._restored(triggers, cast("Any", nodes))
    assert (pods.lists, nodes.lists, told[1:]) == (1, 1, [(NODES, "")]), "another time"


@virtual_time
async def test_a_flood_of_made_up_tokens_holds_up_no_known_scraper() -> None:
    """100 tokens a second for a minute, each review takes 10 ms: through real throttles (`REVIEWS_QPS`)."""
    scraped = list[float]()
    async with asyncio.TaskGroup() as group:
        parts = Parts(Settings(), Api(), server="", refresh=None, clock=system_clock)
        assert await parts.metrics_auth.check(f"Bearer {READER}", "/metrics") is None
        answers = list[asyncio.Task[Refusal | None]]()

        async def flood() -> None:
            for number in range(6_000):
                answers.append(group.create_task(parts.metrics_auth.check(f"Bearer made-up-{number}", "/metrics")))
                await asyncio.sleep(0.01)

        await asyncio.sleep(CACHE_SECONDS - 5)  # in the midst of the flood it has to be asked about again
        flooding = group.create_task(flood())
        while not flooding.done():
            began = now()
            assert await parts.metrics_auth.check(f"Bearer {READER}", "/metrics") is None
            scraped.append(now() - began)
            await asyncio.sleep(7.0)
        ended = now()
    assert max(scraped) <= 0.1, f"the known scraper waited {max(scraped)} s"
    assert now() - ended <= 6.0, "tokens were still waiting for their turn"
    told_to = Counter(answer_of(answer.result())[0] for answer in answers)
    assert told_to[401] <= 10 * 70
    assert told_to[429] == len(answers) - told_to[401]
