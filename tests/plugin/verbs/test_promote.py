"""What `promote` writes and how it looks, and that health is judged again before each write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.plugin.scene import NAME, NAMESPACE, Scene, held, stalled
from tests.plugin.verbs.few_nodes import KIND, before_request
from tests.plugin.verbs.promoting import LINE, done, live, partition, promote, written


def test_a_finished_step_is_followed_by_the_next_in_one_guarded_write() -> None:
    with held() as scene:
        version = live(scene)["metadata"]["resourceVersion"]
        ran = promote(scene)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.splitlines()[0] == f"{LINE} promoted to step 3 of 4 (partition 16 -> 8)"
        (operations,) = written(scene)
        assert operations[:2] == [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 8},
        ]
        assert [one["path"] for one in operations[2:]] == ["/metadata/annotations/kruise-ds~1last-action"]
        assert partition(scene) == 8


def test_to_a_value_and_fully() -> None:
    with held() as scene:
        assert promote(scene, "--to", "12").out.startswith(f"{LINE} promoted (partition 16 -> 12)\n")
        assert partition(scene) == 12
        scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] == "Held" and done(one) == 12))
        assert promote(scene, "--full", "-y").out.startswith(f"{LINE} promoted fully (partition 12 -> 0)\n")
        assert partition(scene) == 0


def test_a_dry_run_changes_nothing() -> None:
    with held() as scene:
        ran = promote(scene, "--dry-run=server", "-o", "json")
        assert msgspec.json.decode(ran.out)["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 8
        assert partition(scene) == 16


async def two_canaries_crash(scene: Scene) -> None:
    for node in ("c-08", "c-07"):
        await scene.nodes.crash(await scene.pod_on(node))


def test_health_is_judged_again_after_the_answer() -> None:
    """They crash while the question is open: before the pods are listed for the second time."""
    with held() as scene:
        before_request(scene, "list pods", 2, lambda: two_canaries_crash(scene))
        ran = promote(scene, "--full", terminal=True, typed="y\n")
        assert (ran.code, ran.out, written(scene)) == (6, "", [])
        assert "Promote node-agent fully?" in ran.err
        assert "error: step 2 is not finished: 6 of 8 nodes updated" in ran.err


@pytest.mark.parametrize("more", [("--full", "-y"), ("--wait", "--full", "-y")])
def test_health_is_judged_again_before_a_write_is_repeated(more: tuple[str, ...]) -> None:
    async def crash() -> None:
        await two_canaries_crash(scene)
        await scene.until(lambda one: one["status"]["numberAvailable"] == 22)

    with held() as scene:
        before_request(scene, f"patch {KIND}", 1, crash)
        ran = promote(scene, *more)
        assert (ran.code, partition(scene)) == (6, 16)
        assert "error: step 2 is not finished: 6 of 8 nodes updated" in ran.err


def test_with_force_it_is_not_judged_again_either() -> None:
    with held() as scene:
        before_request(scene, f"patch {KIND}", 1, lambda: two_canaries_crash(scene))
        assert promote(scene, "--full", "--force", terminal=True, typed="y\n").code == 0
        assert partition(scene) == 0


def test_only_fully_is_asked() -> None:
    with held() as scene:
        ran = promote(scene, "--full", terminal=True, typed="no\n")
        assert (ran.code, ran.out) == (6, "")
        assert ran.err.startswith("Promote node-agent fully?\n")
        assert not written(scene)
        assert promote(scene, terminal=True).code == 0


@pytest.mark.parametrize("steps", ["22,16,8,0", "90%,67%,33%,0"])
def test_with_force_it_goes_on_blindly_by_the_controllers_own_count(steps: str) -> None:
    with held() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": steps}}}))
        scene.door.forbid("list", "pods")
        scene.door.forbid("list", "nodes")
        ran = promote(scene, "--force")
        assert (ran.code, ran.err) == (0, "")
        assert partition(scene) == (8 if steps.startswith("22") else "33%")


@pytest.mark.parametrize(("state", "scene_of"), [("unfinished", stalled), ("promoted", held)])
def test_looks(state: str, scene_of: Any) -> None:
    with scene_of() as scene:
        scene.check(f"promote/{state}", "promote", NAME, "-n", NAMESPACE)
