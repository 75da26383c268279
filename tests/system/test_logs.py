"""What the controller says while it works: one line a pass, nothing while nothing happens, and never a secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from controller.telemetry import log
from tests.beds.api import DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.objects import V2, daemonset
from tests.beds.simulator.faults import Answer, LateWatch, Rule
from tests.system.pulls import job, over, pulling

IN_ENV, IN_ARGS = "s3cr3t-Pa55word", "--token=tok-7fK2mQ9x"
ECHO = (
    f'Pod "x" is invalid: spec.containers[0].env[0].value: Invalid value: "{IN_ENV}": too plain; '
    f"policy says {IN_ENV} and {IN_ARGS} are no secrets"
)


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


def keeping_secrets(**more: Any) -> Object:
    container = {"name": "agent", "image": V2, "args": [IN_ARGS], "env": [{"name": "PASSWORD", "value": IN_ENV}]}
    return daemonset(pod={"containers": [container]}, **more)


REFUSED = Answer(422, "Invalid", ECHO)
TROUBLE = {
    "TemplateRefused": (Rule(verb="create", resource="pods", nth=(3,), effect=REFUSED),),
    "FailedCreate": (
        Rule(verb="create", resource="pods", nth=(4, 5), effect=REFUSED),
        Rule(verb="delete", resource="pods", nth=(1,), effect=Answer(403, "Forbidden", ECHO)),
    ),
}
"""Event to the faults that bring it about: two pods are created first, then comes the dry run of the new template."""


@pytest.mark.parametrize("event", TROUBLE)
async def test_values_of_the_template_reach_no_log_event_or_condition(out: io.BytesIO, event: str) -> None:
    async with simulated(*TROUBLE[event]) as bed:
        await bed.deploy(daemonset(), nodes=2)
        await bed.edit({"template": keeping_secrets()["spec"]["template"]})
        told = await bed.event(event)
        assert "env[0].value: Invalid value: (hidden)" in told["message"], "the field is named"
        await bed.idle(0.5)
        whole, events = out.getvalue().decode(), str(await bed.api.list(EVENTS))
        statuses = str([write.body for write in bed.journal.statuses])
        assert "(hidden)" in statuses
        for where, text in (("log", whole), ("events", events), ("statuses", statuses)):
            assert IN_ENV not in text, where
            assert "7fK2mQ9x" not in text, where


@pytest.mark.parametrize(
    "rule",
    [
        Rule(verb="patch", resource="daemonsets.apps.kruise.io/status", times=3, effect=REFUSED),
        Rule(verb="create", resource="controllerrevisions.apps", times=2, effect=Answer(403, "Forbidden", ECHO)),
        Rule(verb="list,watch", resource="pods", times=3, effect=Answer(403, "Forbidden", ECHO.partition(";")[0])),
    ],
    ids=lambda rule: f"{rule.verb} {rule.resource}",
)
async def test_what_the_server_says_about_any_request_is_logged_without_them(out: io.BytesIO, rule: Rule) -> None:
    async with simulated(rule) as bed:
        await bed.deploy(keeping_secrets(), nodes=1)
        whole = out.getvalue().decode()
        assert "env[0].value: Invalid value: (hidden)" in whole, "its words are there"
        assert IN_ENV not in whole
        assert "7fK2mQ9x" not in whole


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
