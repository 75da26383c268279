"""What the controller says while it works: one line a pass, nothing while nothing happens, and no text of others."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from controller.observe import log
from tests.beds.api import DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, PODS
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset
from tests.beds.simulator.faults import Answer, ErrorEvent, LateWatch, Rule, Warn
from tests.system.pulls import job, over, pulling

TOKEN = "tok-7fK2mQ9x"
WORDS = f'denied: exec "/bin/agent --token={TOKEN}", args[0] is \\u003c{TOKEN}\\u003e'
"""As a server, a webhook or a kubelet says it, with Go's escapes."""
LEASES = "leases.coordination.k8s.io"


@pytest.fixture
def out(plain_log: None) -> Iterator[io.BytesIO]:
    """All that is logged at debug, as in a pod."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.BytesIO()
    log.configure("debug", "json", stream)
    yield stream
    root.handlers, root.level = handlers, level


def lines(out: io.BytesIO, level: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    return [line for line in found if line["msg"] == "reconciled" and level in ("", line["level"])]


def answer(status: int, reason: str = TOKEN) -> Answer:
    """A webhook chooses the reason too."""
    return Answer(status, reason, WORDS)


QUOTED = {
    "a create is 403": Rule(verb="create", resource="pods", times=4, effect=answer(403, "Forbidden")),
    "a create is 422": Rule(verb="create", resource="pods", times=4, effect=answer(422, "Invalid")),
    "a create is 500": Rule(verb="create", resource="pods", times=4, effect=answer(500)),
    "a dry run is 422": Rule(verb="create", resource="pods", nth=(3, 4, 5), effect=answer(422)),
    "a delete is 403": Rule(verb="delete", resource="pods", times=3, effect=answer(403)),
    "a revision is 403": Rule(verb="create", resource="controllerrevisions.apps", times=8, effect=answer(403)),
}
"""An event or a condition has these words."""
UNQUOTED = {
    "a create is 409": Rule(verb="create", resource="pods", times=2, effect=answer(409)),
    "a status is 422": Rule(verb="patch", resource="daemonsets.apps.kruise.io/status", times=3, effect=answer(422)),
    "a list is 403": Rule(verb="list,watch", resource="pods", times=3, effect=answer(403)),
    "a watch ends with 500": Rule(
        verb="watch", resource="pods", times=2, effect=ErrorEvent(events=1, status=500, reason=TOKEN, message=WORDS)
    ),
    "an event is 403": Rule(verb="create", resource="events", effect=answer(403)),
    "the Lease is 403": Rule(verb="get,create", resource=LEASES, times=2, effect=answer(403)),
    "the Lease is 422": Rule(verb="patch", resource=LEASES, times=2, effect=answer(422)),
}


@pytest.mark.parametrize("answered", [*QUOTED, *UNQUOTED])
async def test_what_a_server_says_is_in_no_log_line_and_no_metric(out: io.BytesIO, answered: str) -> None:
    rule = (QUOTED | UNQUOTED)[answered]
    async with simulated(rule) as bed:
        await bed.controller.stop()
        of_lease = {"leader_elect": rule.resource == LEASES, "lease_namespace": bed.api.namespace}
        bed.controller.start(replace(bed.controller.settings, **of_lease))
        bed.patience = 600.0
        await bed.deploy(daemonset(), nodes=2)
        await bed.set_image(V2)
        await asyncio.sleep(120)
        assert (TOKEN in await told(bed)) is (answered in QUOTED)
        assert TOKEN not in out.getvalue().decode()
        assert TOKEN not in bed.controller.scrape()
        if answered not in ("an event is 403", "a watch ends with 500"):
            assert f"(HTTP {answered[-3:]})" in out.getvalue().decode(), "the log says how it was refused"


@pytest.mark.parametrize(
    "behaviour",
    [Behaviour(missing_images=(V2,), registry=WORDS), Behaviour(reject=TOKEN)],
    ids=["a missing image", "a pod that is not admitted"],
)
async def test_what_a_kubelet_says_is_in_no_log_line_and_no_metric(out: io.BytesIO, behaviour: Behaviour) -> None:
    async with pulling() as bed:
        await bed.deploy(daemonset(), nodes=2)
        for node in ("node-0", "node-1"):
            bed.nodes.behave(node, behaviour)
        await bed.set_image(V2)
        await bed.api.create(IMAGE_PULL_JOBS, job(image=V2))
        await bed.api.delete(PODS, (await bed.pods())["node-0"]["metadata"]["name"])
        await asyncio.sleep(900)
        assert TOKEN in await told(bed)
        assert TOKEN not in out.getvalue().decode()
        assert TOKEN not in bed.controller.scrape()


@pytest.mark.parametrize("of_each", [False, True], ids=["of all pods the same", "of each pod another"])
async def test_a_warning_of_the_server_is_an_event_or_a_few_and_in_no_log_line(
    out: io.BytesIO, of_each: bool
) -> None:
    text = f"pod {{name}} on {TOKEN}" if not of_each else f"{{name}}{{name}} {TOKEN}"
    warned = Rule(verb="create", resource="pods", effect=Warn(f'299 - "{text}", 299 - "", 199 - "other {TOKEN}"'))
    async with simulated(warned) as bed:
        await bed.deploy(daemonset(), nodes=40)
        await bed.set_image(V2)
        await asyncio.sleep(600)
        events = [one for one in await bed.api.list(EVENTS) if one["reason"] == "ServerWarning"]
        assert [one["involvedObject"]["name"] for one in events] == ["agent"] * (5 if of_each else 1)
        assert of_each or events[0]["message"] == f"pod agent-… on {TOKEN}"
        assert TOKEN not in out.getvalue().decode()
        assert TOKEN not in bed.controller.scrape()


async def told(bed: Bed) -> str:
    """All that events and statuses have said so far."""
    statuses = [write.body for write in bed.journal.statuses]
    return f"{await bed.api.list(EVENTS)} {statuses} {await bed.api.list(IMAGE_PULL_JOBS)}"


async def test_a_pass_has_one_line_and_a_quiet_one_none_at_info(bed: Bed, out: io.BytesIO) -> None:
    await bed.deploy(daemonset(), nodes=3)
    acted = lines(out, "info")
    assert sum(line.get("CreatePod", 0) for line in acted) == 3
    assert {line["daemonset"] for line in acted} == {"agents/agent"}
    assert all(line["reason"] and line["result"] and line["seconds"] >= 0 for line in acted)
    ids = [line["reconcile_id"] for line in lines(out)]
    assert len(ids) == len(set(ids)), "one line a pass"
    out.truncate(0)
    out.seek(0)
    note = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    await bed.api.patch(DAEMONSETS, "agent", note)
    await bed.idle(1.0)
    assert [line["level"] for line in lines(out)] == ["debug"] * len(lines(out))
    assert lines(out), "it did look"


async def test_what_a_rollout_waits_for_is_in_the_line_of_the_pass_that_found_it(bed: Bed, out: io.BytesIO) -> None:
    await bed.deploy(daemonset(), nodes=3)
    await bed.api.patch(DAEMONSETS, "agent", {"spec": {"updateStrategy": {"rollingUpdate": {"paused": True}}}})
    await bed.set_image(V2)
    await bed.phase("Paused")
    await bed.api.patch(DAEMONSETS, "agent", {"spec": {"updateStrategy": {"rollingUpdate": {"paused": False}}}})
    await bed.phase("Healthy")
    await bed.idle(1.0)  # the line comes at the end of the pass that wrote it
    phases, waits = ([line[key] for line in lines(out, "info") if key in line] for key in ("phase", "progressing"))
    assert "Paused" in phases
    assert "Paused" in waits
    assert (phases[-1], waits[-1]) == ("Healthy", "RolloutComplete")
    assert all(line["status_written"] for line in lines(out) if "phase" in line)


async def test_the_line_of_a_pass_has_the_metrics_word_and_why_it_is_back(out: io.BytesIO) -> None:
    async with simulated(
        Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3)),
        Rule(verb="create", resource="pods", nth=(1,), effect=Answer(403, "Forbidden", "no")),
    ) as bed:
        await bed.deploy(daemonset(minReadySeconds=30), nodes=3)
        await bed.idle(60)
        text, told = bed.controller.scrape(), lines(out)
    for result in ("success", "requeue_after", "error"):
        count = sum(line["result"] == result for line in told)
        assert count
        assert f'controller_runtime_reconcile_total{{controller="daemonset",result="{result}"}} {count}.0' in text
    again = [line for line in told if line["result"] == "requeue_after"]
    assert {line["requeue_reason"] for line in again} == {"own writes not seen yet", "time passed"}
    assert all(line["requeue_after"] > 0 for line in again)


async def test_each_pass_for_images_has_its_own_line_id_and_queue(
    out: io.BytesIO,
) -> None:
    async with pulling(Rule(verb="create", resource="pods", nth=(1,), effect=Answer(403, "Forbidden", "no"))) as bed:
        await bed.add_nodes(5)
        await bed.api.create(IMAGE_PULL_JOBS, job())
        await over(bed)
        await bed.deploy(daemonset())
        await bed.update(V2)
        await bed.idle(0.5)
        text = bed.controller.scrape()
    told = lines(out)
    assert len({line["reconcile_id"] for line in told}) == len(told)
    jobs = [line for line in told if line.get("queue") == "imagepulljob"]
    assert all(line["image_pull_job"] and "daemonset" not in line for line in jobs)
    assert all(line["reason"] for line in jobs)
    assert sum(line.get("StartPuller", 0) for line in jobs if line["image_pull_job"] == "agents/pull") == 5
    (failed,) = [line for line in jobs if line["result"] == "error"]
    assert (failed["StartPuller_failed"], failed["level"]) == (1, "warning")
    assert {line["level"] for line in jobs if line.get("status_written") and line is not failed} == {"info"}
    rollouts = [line for line in told if line.get("queue") == "daemonset-images"]
    assert all(line["daemonset"] == "agents/agent" for line in rollouts)
    assert [line["level"] for line in rollouts if line.get("CreateJob")] == ["info"]
    assert sum(line.get("DeleteJob", 0) for line in rollouts) == 1
    for queue, retries in (("imagepulljob", 1), ("daemonset-images", 0), ("daemonset", 0)):
        assert f'workqueue_retries_total{{name="{queue}"}} {retries}.0' in text
    for queue, passes in (("imagepulljob", jobs), ("daemonset-images", rollouts)):
        for name in ("workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"):
            assert f'{name}_count{{name="{queue}"}} {len(passes)}.0' in text
        assert f'workqueue_adds_total{{name="{queue}"}} {len(passes)}.0' in text
        assert f'workqueue_depth{{name="{queue}"}} 0.0' in text
