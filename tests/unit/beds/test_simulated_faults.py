"""The fault plan: what a client sees of each fault, and that the plan keeps account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller.kube.requests import NotConnected, Request, Response
from tests.beds.api import CONFIGMAPS, PODS, Api, Event, Refusal
from tests.beds.objects import configmap, pod
from tests.beds.simulator import Cluster, FaultPlan, InProcess, Rule
from tests.beds.simulator.faults import (
    Answer,
    CloseWatch,
    CutIdle,
    CutLine,
    ErrorEvent,
    Hang,
    LateRequest,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    NoConnection,
    StaleList,
)
from tests.beds.virtual_time import clock, virtual_time


def api_with(*rules: Rule) -> tuple[Api, Api, InProcess]:
    """A way that suffers from the rules, one that does not, and the transport of the first."""
    cluster = Cluster(clock)
    transport = InProcess(cluster, faults=FaultPlan(*rules))
    return Api(transport), Api(InProcess(cluster)), transport


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_a_busy_server_does_nothing_and_says_when_to_come_back() -> None:
    api, healthy, _ = api_with(Rule(Answer(429, retry_after=3), verb="create", resource="pods"))
    with pytest.raises(Refusal) as caught:
        await api.create(PODS, pod("one"))
    assert (caught.value.status, caught.value.reason, caught.value.retry_after) == (429, "TooManyRequests", 3)
    assert await healthy.find(PODS, "one") is None


@virtual_time
async def test_a_late_request_is_done_when_nobody_waits_for_it_any_more() -> None:
    api, healthy, _ = api_with(Rule(LateRequest(seconds=5), verb="create", times=1))
    with pytest.raises(ConnectionResetError):
        await api.create(PODS, pod("one"))
    await asyncio.sleep(4.9)
    assert await healthy.find(PODS, "one") is None
    await asyncio.sleep(0.2)
    assert await healthy.find(PODS, "one") is not None


@virtual_time
async def test_a_lost_request_is_not_done_and_a_lost_answer_is() -> None:
    api, healthy, _ = api_with(Rule(LoseRequest(), verb="create", times=1), Rule(LoseAnswer(), verb="create"))
    with pytest.raises(ConnectionResetError):
        await api.create(PODS, pod("one"))
    assert await healthy.find(PODS, "one") is None
    with pytest.raises(ConnectionResetError):
        await api.create(PODS, pod("one"))
    assert await healthy.find(PODS, "one") is not None


@virtual_time
async def test_a_proxy_may_lose_the_answer_too() -> None:
    api, healthy, _ = api_with(Rule(LoseAnswer(status=504), verb="delete"))
    await healthy.create(PODS, pod("one"))
    with pytest.raises(Refusal) as caught:
        await api.delete(PODS, "one")
    assert caught.value.status == 504
    assert await healthy.find(PODS, "one") is None


@virtual_time
async def test_no_connection_is_known_to_have_done_nothing() -> None:
    api, _, transport = api_with(Rule(NoConnection(), times=1))
    with pytest.raises(NotConnected):
        await api.list(PODS)
    transport.up = False
    with pytest.raises(NotConnected):
        await api.list(PODS)
    transport.up = True
    assert await api.list(PODS) == []


@virtual_time
async def test_a_server_that_hangs_runs_into_the_clients_patience() -> None:
    api, healthy, _ = api_with(Rule(Hang(), verb="get"), Rule(Hang(done=True), verb="create"))
    with pytest.raises(TimeoutError):
        await api.get(PODS, "one")
    assert now() == 30.0
    with pytest.raises(TimeoutError):
        await api.create(PODS, pod("one"))
    assert await healthy.find(PODS, "one") is not None


@virtual_time
async def test_a_slow_server_answers_in_the_end() -> None:
    api, _, _ = api_with(Rule(Hang(seconds=5), verb="list"))
    assert await api.list(PODS) == []
    assert now() == 5.0


@virtual_time
async def test_a_stale_list_shows_the_past() -> None:
    api, healthy, _ = api_with(Rule(StaleList(seconds=10), verb="list"))
    await healthy.create(CONFIGMAPS, configmap("old"))
    await asyncio.sleep(20)
    await healthy.create(CONFIGMAPS, configmap("new"))
    await healthy.delete(CONFIGMAPS, "old")
    page = await api.page(CONFIGMAPS)
    assert [item["metadata"]["name"] for item in page["items"]] == ["old"]
    behind = int(page["metadata"]["resourceVersion"])
    assert behind < int((await healthy.page(CONFIGMAPS))["metadata"]["resourceVersion"])


async def watched(api: Api, names: list[str], healthy: Api) -> list[Event]:
    """The events of a watch during which config maps of these names appear, one by one."""
    events: AsyncIterator[Event] = api.watch(CONFIGMAPS, resourceVersion="1")
    found: list[Event] = []

    async def make() -> None:
        for name in names:
            await asyncio.sleep(1)
            await healthy.create(CONFIGMAPS, configmap(name))

    async with asyncio.TaskGroup() as group:
        group.create_task(make())
        async with asyncio.timeout(50):
            async for event in events:
                found.append(event)
                if len(found) == len(names):
                    break
    return found


@virtual_time
async def test_a_late_watch_tells_everything_later() -> None:
    api, healthy, _ = api_with(Rule(LateWatch(seconds=7), verb="watch"))
    events = await watched(api, ["a", "b"], healthy)
    assert [event.object["metadata"]["name"] for event in events] == ["a", "b"]
    assert now() == 2 + 7


@virtual_time
async def test_a_watch_may_be_closed_after_some_events() -> None:
    api, healthy, _ = api_with(Rule(CloseWatch(events=2), verb="watch"))
    assert len(await watched(api, ["a", "b", "c"], healthy)) == 2


@pytest.mark.parametrize("effect", [CloseWatch(events=1, reset=True), CutLine(events=1)], ids=["reset", "cut"])
def test_a_watch_may_break(effect: CloseWatch | CutLine) -> None:
    @virtual_time
    async def body() -> None:
        api, healthy, _ = api_with(Rule(effect, verb="watch"))
        with pytest.raises(ExceptionGroup) as caught:
            await watched(api, ["a", "b", "c"], healthy)
        assert caught.group_contains(ConnectionResetError)

    body()


@virtual_time
async def test_a_watch_may_be_cut_when_nothing_has_come_for_too_long() -> None:
    api, healthy, _ = api_with(Rule(CutIdle(seconds=1.5), verb="watch"))
    assert len(await watched(api, ["a", "b", "c"], healthy)) == 3, "one a second"
    api, healthy, _ = api_with(Rule(CutIdle(seconds=0.5), verb="watch"))
    with pytest.raises(ExceptionGroup) as caught:
        await watched(api, ["a"], healthy)
    assert caught.group_contains(ConnectionResetError)


@virtual_time
async def test_a_cut_line_is_half_an_event() -> None:
    cluster = Cluster(clock)
    transport = InProcess(cluster, faults=FaultPlan(Rule(CutLine(), verb="watch")))
    await Api(InProcess(cluster)).create(CONFIGMAPS, configmap("a"))
    request = Request(method="GET", path="/api/v1/configmaps", query=(("watch", "1"), ("resourceVersion", "1")))
    async with transport.stream(request) as stream:
        chunks = stream.chunks()
        received = await anext(chunks)
        with pytest.raises(ConnectionResetError):
            await anext(chunks)
    assert received.startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap"')
    assert b"\n" not in received


@virtual_time
async def test_an_error_event_ends_a_watch() -> None:
    api, healthy, _ = api_with(Rule(ErrorEvent(events=1), verb="watch"))
    events = await watched(api, ["a", "b"], healthy)
    assert [event.type for event in events] == ["ADDED", "ERROR"]
    assert (events[1].object["code"], events[1].object["reason"]) == (410, "Expired")


@virtual_time
async def test_open_watches_can_be_broken_from_outside() -> None:
    api, _, transport = api_with()

    async def broken() -> None:
        with pytest.raises(ConnectionResetError):
            await anext(api.watch(PODS))

    async with asyncio.TaskGroup() as group:
        group.create_task(broken())
        await asyncio.sleep(1)
        assert transport.drop_watches("pods") == 1


@virtual_time
async def test_rules_pick_requests_by_number_name_and_chance() -> None:
    second = Rule(Answer(500), verb="get", resource="pods", nth=(2,))
    named = Rule(Answer(500), verb="delete,patch", resource="pods", name="agent-*")
    often = Rule(Answer(500), verb="create", resource="configmaps", percentage=30)
    api, healthy, transport = api_with(second, named, often)
    for name in ("agent-1", "other"):
        await healthy.create(PODS, pod(name))
    outcomes = [await status_of(api, "GET", PODS.path("default", "other")) for _ in range(3)]
    assert outcomes == [200, 500, 200]
    assert await status_of(api, "DELETE", PODS.path("default", "agent-1")) == 500
    assert await status_of(api, "DELETE", PODS.path("default", "other")) == 200
    for number in range(200):
        await status_of(api, "POST", CONFIGMAPS.path("default"), configmap(f"map-{number}"))
    assert (transport.faults.fired(second), transport.faults.fired(named)) == (1, 1)
    assert 40 <= transport.faults.fired(often) <= 80


async def status_of(api: Api, method: str, path: str, body: object = None) -> int:
    try:
        await api.send(method, path, body)
    except Refusal as refusal:
        return refusal.status
    return 200


@virtual_time
async def test_a_rule_that_never_fired_is_found_out() -> None:
    idle = Rule(Answer(500), verb="create", resource="leases.coordination.k8s.io")
    api, _, transport = api_with(idle)
    await api.list(PODS)
    with pytest.raises(AssertionError, match=r"leases\.coordination"):
        transport.faults.check()
    transport.faults.remove(idle)
    transport.faults.check()


@virtual_time
async def test_all_requests_are_on_record() -> None:
    api, _, transport = api_with(Rule(LoseRequest(), verb="delete"))
    await api.create(PODS, pod("one"))
    await status_of(api, "PATCH", PODS.path("default", "one", "status"), {})
    with pytest.raises(ConnectionResetError):
        await api.delete(PODS, "one")
    assert transport.counts() == {"create pods": 1, "patch pods/status": 1, "delete pods": 1}
    assert [(seen.route.verb, seen.status) for seen in transport.writes("pods")] == [("create", 201), ("delete", 0)]


@virtual_time
async def test_latency_is_time_of_the_loop() -> None:
    transport = InProcess(Cluster(clock), latency=0.5)
    response: Response = await transport.exchange(Request(method="GET", path="/version"))
    assert response.status == 200
    assert now() == 0.5
