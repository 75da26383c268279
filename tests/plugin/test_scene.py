"""The scenes that golden files are taken of: the same in every run, in the phases that they are named for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.beds.api import DAEMONSETS, PODS, REVISIONS
from tests.plugin import scene as scenes
from tests.plugin.scene import NAME, Scene, canary, opened

PHASES: dict[Callable[[], AbstractContextManager[Scene]], str] = {
    scenes.settled: "Healthy",
    scenes.canary: "Progressing",
    scenes.stalled: "Stalled",
    scenes.held: "Held",
    scenes.paused: "Paused",
    scenes.healthy: "Healthy",
    scenes.refused: "Stalled",
    scenes.on_delete: "Manual",
    scenes.first_deployment: "Progressing",
    scenes.surge: "Progressing",
    scenes.in_place: "Progressing",
}


@pytest.mark.parametrize("shown", PHASES, ids=lambda one: one.__name__)
def test_the_controller_says_what_the_scene_is_named_for(
    shown: Callable[[], AbstractContextManager[Scene]],
) -> None:
    with shown() as scene:
        assert scene.do(scene.api.get(DAEMONSETS, NAME))["status"]["rollout"]["phase"] == PHASES[shown]


def test_the_canary_is_the_example_of_the_mock_ups() -> None:
    with canary() as scene:
        revisions = {one["revision"] for one in scene.do(scene.api.list(REVISIONS))}
        new = {
            pod["spec"]["nodeName"]
            for pod in scene.do(scene.api.list(PODS))
            if pod["spec"]["containers"][0]["image"].endswith(":1.9.0")
        }
        failing = scene.do(scene.pod_on("c-04"))["status"]["containerStatuses"][0]
    assert revisions == {4, 5, 6, 7}
    assert new == {f"c-0{number}" for number in range(3, 9)}
    assert (failing["restartCount"], failing["state"]["waiting"]["reason"]) == (3, "CrashLoopBackOff")


def test_a_scene_is_the_same_in_every_run() -> None:
    pods = []
    for _ in range(2):
        with opened() as scene:
            canary.play(scene)
            found = scene.do(scene.api.list(PODS))
            pods.append([(pod["metadata"]["name"], pod["metadata"]["uid"], pod["status"]) for pod in found])
    assert pods[0] == pods[1]
