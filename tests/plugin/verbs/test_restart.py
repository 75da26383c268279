"""restart: all pods anew, in the order and at the pace of an update."""

from __future__ import annotations

from tests.beds.api import PODS
from tests.plugin.scene import Scene, canary, healthy, paused
from tests.plugin.verbs.few_nodes import acted, patches, stored


def test_on_a_terminal_it_is_asked_for_with_a_look_ahead() -> None:
    with healthy() as scene:
        words = ("restart", "node-agent", "-n", "observability")
        scene.check("acting/restart", *words, terminal=True, typed="y\n")
        assert len(patches(scene)) == 1


def test_the_preview_of_a_rollout_that_is_under_way() -> None:
    with canary() as scene:
        words = ("restart", "node-agent", "-n", "observability")
        scene.check("acting/restart-canary", *words, terminal=True, typed="n\n")
        assert patches(scene) == []


def test_paused_it_warns() -> None:
    with paused() as scene:
        scene.check("acting/restart-paused", "restart", "node-agent", "-y", "-n", "observability")


def test_every_pod_is_another_one_afterwards(scene: Scene) -> None:
    before = {pod["metadata"]["uid"] for pod in scene.do(scene.api.list(PODS))}
    acted(scene, "restart", "-y", "--reason", "leak")
    metadata = stored(scene)["spec"]["template"]["metadata"]
    assert list(metadata["annotations"]) == ["kubectl.kubernetes.io/restartedAt"]
    assert stored(scene)["metadata"]["annotations"]["kubernetes.io/change-cause"] == "leak"
    scene.pass_time(600.0)
    after = {pod["metadata"]["uid"] for pod in scene.do(scene.api.list(PODS))}
    assert len(after) == 4
    assert not before & after
