"""`promote`: the step that it takes, and why it takes none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.plugin.scene import NAME, NAMESPACE, Scene, canary, first_deployment, held, refused, stalled
from tests.plugin.test_exit_codes import stalled as stalled_at_half
from tests.plugin.verbs.few_nodes import KIND, at_half, before_request, moving
from tests.plugin.verbs.promoting import LINE, WHERE, done, live, partition, promote, written


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
    for node in ("a-04", "a-03"):
        await scene.nodes.crash(await scene.pod_on(node))


def test_health_is_judged_again_after_the_answer() -> None:
    """They crash while the question is open: before the pods are listed for the second time."""
    with at_half() as scene:
        before_request(scene, "list pods", 2, lambda: two_canaries_crash(scene))
        ran = promote(scene, "--full", terminal=True, typed="y\n")
        assert (ran.code, ran.out, written(scene)) == (6, "", [])
        assert "Promote node-agent fully?" in ran.err
        assert "error: step 2 is not finished: 0 of 2 nodes updated" in ran.err


@pytest.mark.parametrize("more", [("--full", "-y"), ("--wait", "--full", "-y")])
def test_health_is_judged_again_before_a_write_is_repeated(more: tuple[str, ...]) -> None:
    async def crash() -> None:
        await two_canaries_crash(scene)
        await scene.until(lambda one: one["status"]["numberAvailable"] == 2)

    with at_half() as scene:
        before_request(scene, f"patch {KIND}", 1, crash)
        ran = promote(scene, *more)
        assert (ran.code, partition(scene)) == (6, 2)
        assert "error: step 2 is not finished: 0 of 2 nodes updated" in ran.err


def test_with_force_it_is_not_judged_again_either() -> None:
    with at_half() as scene:
        before_request(scene, f"patch {KIND}", 1, lambda: two_canaries_crash(scene))
        assert promote(scene, "--full", "--force", terminal=True, typed="y\n").code == 0
        assert partition(scene) == 0


def test_only_fully_is_asked() -> None:
    with at_half() as scene:
        ran = promote(scene, "--full", terminal=True, typed="no\n")
        assert (ran.code, ran.out) == (6, "")
        assert ran.err.startswith("Promote node-agent fully?\n")
        assert not written(scene)
        assert promote(scene, terminal=True).code == 0


@pytest.mark.parametrize("steps", ["3,2,1,0", "90%,50%,33%,0"])
def test_with_force_it_goes_on_blindly_by_the_controllers_own_count(steps: str) -> None:
    with at_half() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": steps}}}))
        scene.door.forbid("list", "pods")
        scene.door.forbid("list", "nodes")
        ran = promote(scene, "--force")
        assert (ran.code, ran.err) == (0, "")
        assert partition(scene) == (1 if steps.startswith("3") else "33%")


@pytest.mark.parametrize(("state", "scene_of"), [("unfinished", stalled), ("promoted", held)])
def test_looks(state: str, scene_of: Any) -> None:
    with scene_of() as scene:
        scene.check(f"promote/{state}", "promote", NAME, "-n", NAMESPACE)


def test_a_step_that_is_not_finished_is_not_left() -> None:
    with stalled() as scene:
        ran = promote(scene)
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == (
            "error: step 2 is not finished: 7 of 8 nodes updated, c-04 CrashLoopBackOff\n"
            f"  hint: to go on anyway: kubectl kruise-ds promote {WHERE} --force\n"
            f"  hint: to go back: kubectl kruise-ds rollback {WHERE}\n"
        )
        assert f"kubectl kruise-ds promote {WHERE} --to 10% --force\n" in promote(scene, "--to=10%").err
        assert not written(scene)


def test_with_force_it_is_left_all_the_same() -> None:
    with stalled() as scene:
        ran = promote(scene, "--force")
        assert (ran.code, ran.err) == (0, "warning: c-04 is failing on revision 7\n")
        assert partition(scene) == 8


def test_a_template_that_the_server_refuses_is_told_in_its_words() -> None:
    with refused() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.startswith("error: step 4 is not finished: 0 of 24 nodes updated, ")
        assert 'violates PodSecurity "restricted"' in ran.err


@pytest.mark.parametrize("way", [["--full", "-y"], ["--to", "8"]])
def test_a_step_asked_for_by_its_value_needs_the_present_one_finished(way: list[str]) -> None:
    with canary() as scene:
        assert promote(scene, *way).code == 6
        assert partition(scene) == 16


@pytest.mark.parametrize(
    "way",
    [
        ["--full", "--to", "8"],
        ["--to", "half"],
        ["--soak", "soon"],
        ["--timeout", "10m"],
        ["--wait", "--dry-run=client"],
    ],
)
def test_what_contradicts_itself_is_wrong_usage(way: list[str]) -> None:
    with at_half() as scene:
        assert promote(scene, *way).code == 2
        assert not written(scene)


def test_a_soak_that_is_not_over_refuses() -> None:
    with held() as scene:
        ran = promote(scene, "--soak", "30m")
        assert ran.code == 6
        assert ran.err == (
            "error: step 2 is finished, and quiet for 18m of 30m\n"
            f"  hint: to go on anyway: kubectl kruise-ds promote {WHERE} --force\n"
            "  hint: --wait waits until then\n"
        )
        assert promote(scene, "--soak", "15m").code == 0


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (("pods", "nodes"), "nodes and pods"),
        (("nodes",), "nodes"),
        (("pods",), "pods"),
        (("controllerrevisions.apps",), "controllerrevisions"),
        (("pods", "nodes", "controllerrevisions.apps"), "nodes, controllerrevisions and pods"),
    ],
)
@pytest.mark.parametrize("way", [[], ["--full"], ["--wait"], ["--wait", "--force"]], ids=" ".join)
def test_a_gate_that_cannot_see_stays_closed(kinds: tuple[str, ...], told: str, way: list[str]) -> None:
    with moving() as scene:
        for kind in kinds:
            scene.door.forbid("list", kind)
        ran = promote(scene, *way)
        binding = " by a ClusterRoleBinding: nodes are in no namespace" if "nodes" in kinds else ""
        goal = " --full" if "--full" in way else ""
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == (
            f"error: cannot see whether step 2 is finished: no right to list {told}\n"
            f"  hint: to go on anyway: kubectl kruise-ds promote {WHERE}{goal} --force\n"
            f"  hint: ask for ClusterRole kruise-ds-operator{binding}\n"
        )
        assert not written(scene)


def test_where_there_is_no_earlier_revision_no_rollback_is_advised() -> None:
    with first_deployment() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.splitlines()[-1] == f"  hint: to go on anyway: kubectl kruise-ds promote {WHERE} --force"


@pytest.mark.parametrize(
    ("more", "words", "hint"),
    [
        ((), "has no steps", "promote node-agent -n observability --to 1"),
        (("--to", "3"), "cannot promote", "set-partition node-agent 3 -n observability"),
    ],
)
def test_force_is_no_hint_where_it_is_refused_too(more: tuple[str, ...], words: str, hint: str) -> None:
    with stalled_at_half() as scene:
        ran = promote(scene, *more)
        assert (ran.code, words in ran.err, hint in ran.err, "--force" in ran.err) == (6, True, True, False), ran.err
        assert promote(scene, *more, "--force").code == 6
        assert f"{WHERE} --to 1 --force" in promote(scene, "--to", "1").err
        assert promote(scene, "--to", "1", "--force").code == 0
