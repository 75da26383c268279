"""What a client sees of each fault of the simulator, that the plan of faults keeps account, and what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from controller.kube.requests import Request, Response
from tests.beds.api import CONFIGMAPS, PODS, Api, Object, Refusal
from tests.beds.objects import configmap, pod
from tests.beds.quantities import canonical, quantity
from tests.beds.simulator import Cluster, FaultPlan, InProcess, Rule, kinds
from tests.beds.simulator.faults import (
    Answer,
    CloseWatch,
    CutIdle,
    CutLine,
    Effect,
    ErrorEvent,
    Hang,
    LateRequest,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    NoConnection,
    StaleList,
)
from tests.beds.simulator.updates import UpdateRequest
from tests.beds.virtual_time import clock, now, virtual_time


def api_with(*rules: Rule) -> tuple[Api, Api, InProcess]:
    """A way that suffers from the rules, one that does not, and the transport of the first."""
    cluster = Cluster(clock)
    transport = InProcess(cluster, faults=FaultPlan(*rules))
    return Api(transport), Api(InProcess(cluster)), transport


async def outcome(asked: Awaitable[object]) -> str:
    """What a client gets: nothing but an answer, a refusal, or the error of its connection."""
    try:
        await asked
    except Refusal as refusal:
        return f"{refusal.status} {refusal.reason} {refusal.retry_after}"
    except (OSError, TimeoutError) as error:
        return type(error).__name__
    return ""


@pytest.mark.parametrize(
    ("effect", "expected", "done", "seconds"),
    [
        (Answer(429, retry_after=3), "429 TooManyRequests 3", False, 0),
        (LoseRequest(), "ConnectionResetError", False, 0),
        (LoseAnswer(), "ConnectionResetError", True, 0),
        (LoseAnswer(status=504), "504 Timeout None", True, 0),
        (NoConnection(), "NotConnected", False, 0),
        (Hang(), "TimeoutError", False, 30),
        (Hang(done=True), "TimeoutError", True, 30),
        (Hang(seconds=5), "", True, 5),
    ],
    ids=str,
)
def test_what_becomes_of_a_create(effect: Effect, expected: str, done: bool, seconds: float) -> None:
    @virtual_time
    async def story() -> None:
        api, healthy, _ = api_with(Rule(effect, verb="create", times=1))
        assert (await outcome(api.create(PODS, pod("one"))), now()) == (expected, seconds)
        assert (await healthy.find(PODS, "one") is not None) is done
        assert await outcome(api.create(PODS, pod("two"))) == "", "once only"

    story()


@virtual_time
async def test_a_late_request_is_done_when_no_client_waits_for_it_any_more() -> None:
    api, healthy, _ = api_with(Rule(LateRequest(seconds=5), verb="create", times=1))
    with pytest.raises(ConnectionResetError):
        await api.create(PODS, pod("one"))
    await asyncio.sleep(4.9)
    assert await healthy.find(PODS, "one") is None
    await asyncio.sleep(0.2)
    assert await healthy.find(PODS, "one") is not None


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


@pytest.mark.parametrize(
    ("effect", "told", "seconds"),
    [
        (LateWatch(seconds=7), "ADDED ADDED ADDED", 3 + 7),
        (CloseWatch(events=2), "ADDED ADDED", 2),
        (CloseWatch(events=1, reset=True), "ADDED ConnectionResetError", 1),
        (CutLine(events=1), "ADDED ConnectionResetError", 2),
        (CutIdle(seconds=1.5), "ADDED ADDED ADDED ConnectionResetError", 4.5),
        (CutIdle(seconds=0.5), "ConnectionResetError", 0.5),
        (ErrorEvent(events=1), "ADDED ERROR", 1),
    ],
    ids=str,
)
def test_what_becomes_of_a_watch(effect: Effect, told: str, seconds: float) -> None:
    """Meanwhile three config maps appear, one a second."""

    async def make(api: Api) -> None:
        for name in ("a", "b", "c"):
            await asyncio.sleep(1)
            await api.create(CONFIGMAPS, configmap(name))

    @virtual_time
    async def story() -> None:
        api, healthy, _ = api_with(Rule(effect, verb="watch"))
        found: list[str] = []

        async def follow() -> None:
            async for event in api.watch(CONFIGMAPS, resourceVersion="1"):
                found.append(event.type)
                if len(found) == 3 and isinstance(effect, LateWatch):
                    break

        async with asyncio.TaskGroup() as group:
            group.create_task(make(healthy))
            ended = await outcome(follow())
            assert (" ".join(filter(None, [*found, ended])), now()) == (told, seconds)

    story()


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
async def test_rules_pick_requests_by_number_name_and_chance() -> None:
    second = Rule(Answer(500), verb="get", resource="pods", nth=(2,))
    named = Rule(Answer(500), verb="delete,patch", resource="pods", name="agent-*")
    often = Rule(Answer(500), verb="create", resource="configmaps", percentage=30)
    api, healthy, transport = api_with(second, named, often)
    for name in ("agent-1", "other"):
        await healthy.create(PODS, pod(name))
    assert [bool(await outcome(api.get(PODS, "other"))) for _ in range(3)] == [False, True, False]
    assert await outcome(api.delete(PODS, "agent-1"))
    assert not await outcome(api.delete(PODS, "other"))
    for number in range(200):
        await outcome(api.create(CONFIGMAPS, configmap(f"map-{number}")))
    assert (transport.faults.fired(second), transport.faults.fired(named)) == (1, 1)
    assert 40 <= transport.faults.fired(often) <= 80


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
    await api.patch(PODS, "one", {}, sub="status")
    await outcome(api.delete(PODS, "one"))
    assert transport.drop_watches() == 0
    assert transport.counts() == {"create pods": 1, "patch pods/status": 1, "delete pods": 1}
    assert [(seen.route.verb, seen.status) for seen in transport.writes("pods")] == [("create", 201), ("delete", 0)]


@virtual_time
async def test_latency_is_time_of_the_loop() -> None:
    transport = InProcess(Cluster(clock), latency=0.5)
    response: Response = await transport.exchange(Request(method="GET", path="/version"))
    assert response.status == 200
    assert now() == 0.5


@virtual_time
async def test_what_is_stored_never_changes_in_place() -> None:
    cluster = Cluster(clock)
    before = cluster.create(kinds.PODS, "default", pod("one", labels={"a": "1"}))
    kept = before.copy()

    def relabel(found: Object) -> Object:
        found["metadata"]["labels"]["a"] = "2"
        return found

    after = cluster.update(kinds.PODS, "default", "one", UpdateRequest(relabel))
    assert (before.object, after.metadata["labels"]) == (kept, {"a": "2"})


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("100m", 0.1), ("1.5", 1.5), ("64Mi", 64 * 2**20), ("2Gi", 2 * 2**30), ("1k", 1000)],
)
def test_quantities(text: str, number: float) -> None:
    assert float(quantity(text)) == pytest.approx(number)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (0.16, "160m"),
        ("1.50", "1500m"),
        ("1024Mi", "1Gi"),
        ("1500Mi", "1500Mi"),
        ("2000", "2k"),
        ("0", "0"),
        ("plenty", "plenty"),
        ("9" * 1000, "9" * 1000),
    ],
)
def test_a_quantity_is_stored_in_its_canonical_form(given: str | float, stored: str) -> None:
    assert canonical(given) == stored
