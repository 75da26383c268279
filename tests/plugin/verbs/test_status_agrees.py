"""`status -w` ends well only where the controller's own record says so too: we may know less of the nodes than it."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, NODES
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.refusal import forbidden
from tests.plugin import scene as scenes
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, held
from tests.plugin.verbs.looking import STATUS

TRACK = "track"


def limit_pods(scene: Scene, count: int) -> None:
    """No more than that many pods at a time, as by a quota."""

    def admit(attempt: Attempt) -> None:
        new = attempt.kind is PODS and attempt.verb == "create"
        if new and len(scene.cluster.store.objects[PODS]) >= count:
            raise forbidden(PODS, attempt.name, "exceeded quota: pods")

    scene.cluster.admission.append(admit)


def test_nodes_without_a_pod_count_also_for_who_may_not_see_them() -> None:
    with scenes.opened() as scene:
        limit_pods(scene, 10)
        scene.do(scenes.join(scene))
        scene.do(scene.api.create(DAEMONSETS, scenes.daemonset()))
        scene.pass_time(60.0)
        scene.door.forbid("list", "nodes")
        ran = scene.run(*STATUS, "-w", "--timeout", "30s")
        told = json.loads(scene.run(*STATUS, "-o", "json").out)
        block = scene.run(*STATUS).out
    assert (ran.code, "is at 10 of 24 nodes" in ran.err) == (3, True), ran.out + ran.err
    assert told["phase"] == "Progressing"
    nodes = told["nodes"]
    assert (nodes["desired"], nodes["target"], nodes["updated"], nodes["missing"]) == (24, 24, 10, 14)
    assert "10 of 24 available" in block


async def _label(scene: Scene, *names: str) -> None:
    for name in names:
        await scene.api.patch(NODES, name, {"metadata": {"labels": {TRACK: "canary"}}}, content_type=MERGE_PATCH)


@pytest.mark.parametrize("more", [(), ("-o", "json")])
def test_nodes_that_come_into_the_selector_while_one_watches_are_waited_for(more: tuple[str, ...]) -> None:
    async def widens(scene: Scene) -> None:
        await asyncio.sleep(70.0)  # the nodes were listed ten seconds ago
        await _label(scene, "a-03", "a-04")

    with scenes.settled() as scene:
        scene.go_to(scenes.NOW)
        scene.nodes.behave("*", PACE)
        scene.do(_label(scene, "a-01", "a-02"))
        strategy = scenes.rolling(selector={"matchLabels": {TRACK: "canary"}}, maxUnavailable=1)
        scene.do(scene.edit({"spec": {"template": scenes.template("1.9.0"), **strategy}}))
        ran = scene.run(*STATUS, "-w", "--timeout", "15m", *more, meanwhile=widens)
        found = scene.do(scene.api.get(DAEMONSETS, NAME))
    assert ran.code == 0, ran.err
    assert found["status"]["rollout"]["phase"] == "Held"
    assert (found["status"]["rollout"]["target"], found["status"]["rollout"]["done"]) == (4, 4)
    *_, last = ran.out.splitlines()
    assert "Held 2/2" not in ran.out, "known before the next minute is over"
    assert json.loads(last)["nodes"]["target"] == 4 if more else "Held 4/4" in last


def test_a_record_that_lags_behind_the_pods_is_waited_for() -> None:
    """A status that says Progressing while all pods that we see are ready: the controller knows why."""
    with held() as scene:
        scene.do(scene.controller.kill())
        status = {"status": {"rollout": {"phase": "Progressing"}}}
        scene.do(scene.api.patch(DAEMONSETS, NAME, status, sub="status", content_type=MERGE_PATCH))
        ran = scene.run(*STATUS, "-w", "--timeout", "10s")
        refused = scene.run("promote", NAME, "-n", NAMESPACE)
    assert ran.code == 3, ran.out
    assert refused.code == 6, refused.out
