"""What is counted of a pass, nothing of a DaemonSet or node that went meanwhile; and the line of one that crashed."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import pytest
import structlog
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Rollout
from controller.api.in_place import UpdateInProgress
from controller.api.names import InPlaceRefusal
from controller.api.objects import Key, Ref, rfc3339
from controller.informers import Informers
from controller.inplace.change import InPlaceChange
from controller.kube.errors import ApiError, Conflict, Forbidden, NotFound, Unreachable, redacted
from controller.kube.requests import Request
from controller.kube.sender import Call, Exchange
from controller.observe import log
from controller.observe.instrumentation import Instrumentation
from controller.observe.metrics import Metrics
from controller.planner.actions import CreatePod, CreateRevision, DeleteReason, ResizePod, UpdateInPlace
from controller.runtime.watch import Connectivity
from controller.runtime.workers import Done, Outcome, Pass, Requeue, RequeueAfter, Retry, workers
from controller.runtime.workqueue import WorkItem, WorkQueue
from tests.beds.virtual_time import run
from tests.beds.worlds import NOW, ago, ds, everywhere, node, pod, revision
from tests.unit.controller.office import DELETE, Office, instrumentation_of

CREATE = CreatePod(node="node-0", name="node-0-v2", revision=revision("v2"))
SURGING = ds("v2", max_surge=1)


@pytest.mark.parametrize("stays", [True, False])
async def test_an_update_is_timed_where_the_node_stays(stays: bool) -> None:
    nodes = (node("node-0"),) if stays else ()
    office = Office(ds("v2"), nodes=nodes)
    office.acted(ds("v2"), DELETE, CREATE)
    surging = Office(SURGING, nodes=nodes, pods=everywhere(1))
    surging.acted(SURGING, CREATE)
    assert (office.updated(ds("v2")), surging.updated(SURGING)) == (stays, stays), "gone with its pod, or meanwhile"


async def test_an_update_is_forgotten_with_its_node() -> None:
    office = Office(ds("v2"), nodes=(node("node-0"),))
    office.acted(ds("v2"), DELETE)
    office.lose(node("node-0"))
    office.acted(ds("v2"), CREATE)
    assert office.updated(ds("v2")) == 0


async def test_a_pass_that_ends_after_its_daemonset_leaves_nothing_behind() -> None:
    daemonset = ds("v2")
    office = Office(daemonset, nodes=(node("node-0"),))
    office.acted(daemonset, CREATE)
    assert office.count("kruise_daemonset_pod_operations_total") == 1
    office.lose_daemonset(daemonset)
    office.acted(daemonset, DELETE, CREATE)
    healthy = DaemonSetStatus(rollout=Rollout(phase="Healthy", start_time=rfc3339(ago(60))))
    office.parts.instrumentation.status_written(daemonset, None, healthy)
    office.put_back(daemonset)
    assert office.count("kruise_daemonset_pod_operations_total") == 0
    assert office.count("kruise_daemonset_rollouts_total") == 0
    assert office.updated(daemonset) == 0


def alone(metrics: Metrics) -> Instrumentation:
    """Of a process that knows of no object."""
    return instrumentation_of(metrics, Informers(()).caches)


@pytest.fixture
def out() -> Iterator[io.BytesIO]:
    root = logging.getLogger()
    handlers, level, stream = root.handlers, root.level, io.BytesIO()
    log.configure("debug", "json", stream)
    yield stream
    structlog.reset_defaults()
    root.handlers, root.level = handlers, level


REACHED, AWAY = (
    Connectivity(state="reachable"),
    Connectivity(state="unreachable", error=Unreachable("list", "pods", "no answer")),
)
FORBIDDEN = Connectivity(state="forbidden", error=Forbidden("list", "pods", "no right"))
MISSING = Connectivity(state="missing", error=NotFound("list", "imagepulljobs", "no such kind"))


async def test_problems_are_logged_per_resource_and_a_lost_server_once(
    out: io.BytesIO,
) -> None:
    instrumentation = alone(Metrics(version="0"))
    for resource, contact in (
        ("nodes", REACHED),
        ("pods", FORBIDDEN),
        ("daemonsets", FORBIDDEN),
        ("nodes", AWAY),
        ("pods", AWAY),
        ("nodes", REACHED),
        ("pods", REACHED),
        ("daemonsets", REACHED),
    ):
        instrumentation.connectivity(resource, contact)
    assert [json.loads(line)["msg"] for line in out.getvalue().splitlines()] == [
        "API server reached",
        "cannot watch pods",
        "cannot watch daemonsets",
        "API server not reached, retrying",
        "API server reached",
        "daemonsets can be watched",
    ]


@pytest.mark.parametrize("last", [REACHED, MISSING, FORBIDDEN], ids=["reachable", "missing", "forbidden"])
async def test_any_answer_to_the_last_watch_means_that_the_server_is_reached(
    out: io.BytesIO, last: Connectivity
) -> None:
    instrumentation = alone(Metrics(version="0"))
    for resource, contact in (("nodes", AWAY), ("imagepulljobs", AWAY), ("nodes", REACHED), ("imagepulljobs", last)):
        instrumentation.connectivity(resource, contact)
    logged = [json.loads(line)["msg"] for line in out.getvalue().splitlines()]
    assert logged[:2] == ["API server not reached, retrying", "API server reached"], logged


async def test_a_crashed_pass_is_logged_once_with_its_id(out: io.BytesIO) -> None:
    instrumentation, queue, over = alone(Metrics(version="0")), WorkQueue[Key](), asyncio.Event()
    tries: list[Key] = []

    async def handle(taken: WorkItem[Key], requeue: Requeue) -> Outcome:
        tries.append(taken.key)
        structlog.get_logger().info("inside")
        if len(tries) == 1:
            raise KeyError("pod-1")
        return Done()

    @contextmanager
    def around(taken: WorkItem[Key]) -> Iterator[Callable[[Pass[Key]], None]]:
        with instrumentation.passes.about(taken) as passed:
            yield passed
        if len(tries) == 2:
            over.set()

    async with workers(1, queue, handle, around=around, drain=0.0):
        queue.add(Key("shop", "agent"), "pod changed")
        queue.add(Key("shop", "agent"), "node changed")
        await asyncio.wait_for(over.wait(), 60)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    logged = [(line["msg"], line.get("result"), line["daemonset"], line.get("reconcile_id")) for line in lines]
    first, second = (line["reconcile_id"] for line in lines if line["msg"] == "inside")
    assert logged == [
        ("inside", None, "shop/agent", first),
        ("reconciled", "error", "shop/agent", first),
        ("inside", None, "shop/agent", second),
        ("reconciled", "success", "shop/agent", second),
    ]
    crashed = lines[1]
    assert (crashed["reason"], crashed["level"]) == ("pod changed,node changed", "error")
    assert [line.get("panic") for line in lines] == [None, True, None, None]
    assert crashed["why"] == "KeyError"
    assert crashed["exception"].endswith("handle\nKeyError")


@pytest.mark.parametrize(
    ("error", "level"),
    [(Forbidden("create", "pods", "no", status=403), "warning"), (Conflict("patch", "pods", "moved"), "info")],
)
def test_an_error_is_a_warning_unless_the_next_pass_settles_it(out: io.BytesIO, error: ApiError, level: str) -> None:
    taken = WorkItem(Key("shop", "agent"), ("pod changed",), 0.0)
    with alone(Metrics(version="0")).passes.about(taken) as passed:
        passed(Pass(taken, Retry(error), 0.1, crashed=False))
    line = json.loads(out.getvalue())
    assert (line["level"], line["result"], line["why"]) == (level, "error", redacted(error))


def test_a_wait_that_lasts_is_logged_when_that_is_known_and_when_it_is_over(out: io.BytesIO) -> None:
    passes, taken = alone(Metrics(version="0")).passes, WorkItem(Key("shop", "agent"), ("pod changed",), 0.0)
    unseen, rival = RequeueAfter(1.0, "own writes not seen yet"), RequeueAfter(60.0, "another controller")
    outcomes: list[Outcome] = [*[unseen] * 3, Done(), *[unseen] * 14, *[rival] * 2, RequeueAfter(5.0), Done()]

    async def all_passes() -> None:
        for outcome in outcomes:
            with passes.about(taken) as passed:
                passed(Pass(taken, outcome, 0.1, crashed=False))
            await asyncio.sleep(outcome.after if isinstance(outcome, RequeueAfter) else 0.0)

    run(all_passes())
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    fields = ("requeue_reason", "waited_for", "waited_seconds")
    assert [tuple(line.get(field) for field in fields) for line in told if line["level"] == "info"] == [
        ("own writes not seen yet", None, None),
        ("another controller", "own writes not seen yet", 14.0),
        ("time passed", "another controller", 120.0),
    ]


async def test_each_write_is_logged_at_debug_with_the_id_of_its_pass(out: io.BytesIO) -> None:
    parts = Office(ds("v2")).parts
    taken = WorkItem(ds("v2").key, ("pod changed",), 0.0)
    with parts.instrumentation.passes.about(taken):
        parts.instrumentation.action_done(ds("v2"), CREATE, None)
        parts.instrumentation.action_done(ds("v2"), DELETE, Forbidden("delete", "pods default/node-0-v1", "no"))
        parts.instrumentation.action_done(ds("v2"), CreateRevision(name="demo-v2", hash="v2", number=2), None)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    fields = ("msg", "level", "action", "object", "node", "why")
    assert [tuple(line.get(field) for field in fields) for line in lines] == [
        ("write", "debug", "CreatePod", "node-0-v2", "node-0", None),
        ("write", "debug", "DeletePod", "node-0-v1", "node-0", "delete pods default/node-0-v1: Forbidden"),
        ("write", "debug", "CreateRevision", "demo-v2", None, None),
    ]
    process = parts.identity.rpartition("_")[2]
    assert {line["reconcile_id"] for line in lines} == {f"{process}-1"}


def sample(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


async def test_a_failed_pass_is_counted_under_the_controller_that_made_it() -> None:
    metrics = Metrics(version="0.1.0")
    instrumentation, key = alone(metrics), Key("shop", "pull")
    queues = {"daemonset": instrumentation.passes, "imagepulljob": instrumentation.job_passes}
    queues["daemonset-images"] = instrumentation.image_passes
    metrics.watch_queues({name: WorkQueue[Key]() for name in queues})
    for name, crashed in (("imagepulljob", True), ("daemonset-images", False)):
        taken = WorkItem(key=key, reasons=("timer",), queued_seconds=0.0)
        with queues[name].about(taken) as passed:
            passed(Pass(taken, Retry(KeyError("pod-1")), 0.5, crashed))
    for name, failed, panics in (("daemonset", 0, 0), ("imagepulljob", 1, 1), ("daemonset-images", 1, 0)):
        assert sample(metrics, "controller_runtime_reconcile_total", controller=name, result="error") == failed, name
        assert sample(metrics, "controller_runtime_reconcile_total", controller=name, result="success") == 0, name
        assert sample(metrics, "controller_runtime_reconcile_errors_total", controller=name) == failed, name
        assert sample(metrics, "controller_runtime_reconcile_panics_total", controller=name) == panics, name
        assert sample(metrics, "controller_runtime_reconcile_time_seconds_count", controller=name) == failed, name
        assert sample(metrics, "workqueue_work_duration_seconds_count", name=name) == failed, name


def test_requests_are_counted_by_code_and_method() -> None:
    metrics = Metrics(version="0.1.0", host="api")
    for verb, status, seconds in (("create", 201, 0.01), ("create", 409, 0.01), ("patch", 0, 30.0)):
        call = Call(verb=verb, what="pod shop/agent-x")
        request = Request(method="", path="")
        metrics.request_answered(Exchange(call=call, request=request, status=status, seconds=seconds))
    for code, method in (("201", "POST"), ("409", "POST"), ("<error>", "PATCH")):
        assert sample(metrics, "rest_client_requests_total", code=code, method=method, host="api") == 1, code
    assert sample(metrics, "rest_client_request_duration_seconds_count", verb="create", host="api") == 2


CHANGED = UpdateInPlace(
    pod=Ref(namespace="default", name="agent-x", uid="uid-agent-x"),
    node="node-0",
    before="v1",
    revision=revision("v2"),
    change=InPlaceChange(images={"main": "demo:v2"}),
)
IN_PLACE = ds("v2", rolling_update_type="InPlaceIfPossible", min_ready=30)


def timed(office: Office) -> tuple[float, float]:
    """How many updates in place were timed, and their seconds in all."""
    name = "kruise_ds_node_update_duration_seconds"
    return office.count(f"{name}_count", method="in_place"), office.count(f"{name}_sum", method="in_place")


async def test_an_update_in_place_ends_when_the_pod_is_available_as_updated() -> None:
    office = Office(IN_PLACE, nodes=(node("node-0"),))
    office.acted(IN_PLACE, CHANGED)
    pod_seen, end_finished = office.pod_seen, office.parts.metrics.daemonset_counters.updates.end_finished
    pod_seen(IN_PLACE, pod("node-0", "v1", name="agent-x"), NOW)
    end_finished(NOW + 300)
    assert timed(office) == (0, 0), "as it was before"
    late = pod("node-0", "v2", name="agent-x", ready=NOW + 290)
    pod_seen(IN_PLACE, replace(late, in_progress=UpdateInProgress(until=inf, restarting=("main",))), NOW + 300)
    end_finished(NOW + 400)
    assert timed(office) == (0, 0), "the old container still runs"
    pod_seen(IN_PLACE, late, NOW + 300)
    end_finished(NOW + 319)
    assert timed(office) == (0, 0), "not yet for minReadySeconds"
    end_finished(NOW + 321)
    assert timed(office) == (1, 320), "which count from the start of the container, not from when it was seen"


async def test_an_unproven_update_ends_when_it_counts_as_finished() -> None:
    office = Office(IN_PLACE, nodes=(node("node-0"),))
    office.acted(IN_PLACE, CHANGED)
    changed = replace(
        pod("node-0", "v2", name="agent-x"), in_progress=UpdateInProgress(until=NOW + 10, restarting=("main",))
    )
    office.pod_seen(IN_PLACE, changed, NOW + 1)
    office.parts.metrics.daemonset_counters.updates.end_finished(NOW + 60)
    assert timed(office) == (1, 10)


async def test_a_change_that_restarts_nothing_is_through_at_once() -> None:
    """Its pod has been available all the time; and the cache may have been quicker than the answer."""
    changed = pod("node-0", "v2", name="agent-x")
    office = Office(IN_PLACE, nodes=(node("node-0"),), pods=(changed,))
    office.acted(IN_PLACE, CHANGED)
    office.parts.metrics.daemonset_counters.updates.end_finished(NOW)
    assert timed(office) == (1, 0)


async def test_writes_in_place_and_their_refusals_are_counted() -> None:
    office = Office(IN_PLACE, nodes=(node("node-0"),))
    office.acted(IN_PLACE, CHANGED, ResizePod(pod=CHANGED.pod, node="node-0"))
    office.acted(IN_PLACE, replace(DELETE, refusal=InPlaceRefusal.TEMPLATE), DELETE)
    office.acted(IN_PLACE, replace(DELETE, why=DeleteReason.NOT_RESIZED, refusal=InPlaceRefusal.RESIZE_REFUSED))
    operations, fallbacks = "kruise_daemonset_pod_operations_total", "kruise_daemonset_in_place_fallbacks_total"
    assert [office.count(operations, operation=one, result="success") for one in ("update", "resize")] == [1, 1]
    counted = {one.value: office.count(fallbacks, reason=one.value) for one in InPlaceRefusal}
    assert {reason: count for reason, count in counted.items() if count} == {"Template": 1, "ResizeRefused": 1}
