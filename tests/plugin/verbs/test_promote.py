"""`promote`: the step that it takes, why it takes none, and what ends its wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.beds.api import DAEMONSETS, PODS
from tests.plugin.kept import story
from tests.plugin.playing import Ran
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    PACE,
    Scene,
    abandoned,
    canary,
    first_deployment,
    held,
    paused,
    refused,
    rolling,
    settled,
    stalled,
    start_canary,
)
from tests.plugin.test_exit_codes import stalled as stalled_at_half
from tests.plugin.verbs.few_nodes import (
    KIND,
    acted,
    at_half,
    before_request,
    moving,
    patches,
    rolling_of,
    stop_serving,
    stored,
)

WHERE = f"{NAME} -n {NAMESPACE}"
LINE = f"daemonset.apps.kruise.io/{NAME}"


def promote(scene: Scene, *arguments: str, **options: Any) -> Ran:
    return acted(scene, "promote", *arguments, **options)


def partition(scene: Scene) -> object:
    return rolling_of(stored(scene))["partition"]


def test_a_finished_step_is_followed_by_the_next_in_one_guarded_write() -> None:
    with held() as scene:
        version = stored(scene)["metadata"]["resourceVersion"]
        ran = promote(scene)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.splitlines()[0] == f"{LINE} promoted to step 3 of 4 (partition 16 -> 8)"
        (operations,) = patches(scene)
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
        scene.do(scene.until(lambda one: {"phase": "Held", "done": 12}.items() <= one["status"]["rollout"].items()))
        assert promote(scene, "--full", "-y").out.startswith(f"{LINE} promoted fully (partition 12 -> 0)\n")
        assert partition(scene) == 0


async def two_canaries_crash(scene: Scene) -> None:
    for node in ("a-04", "a-03"):
        await scene.nodes.crash(await scene.pod_on(node))


def test_health_is_judged_again_after_the_answer() -> None:
    """They crash while the question is open: before the pods are listed for the second time."""
    with at_half() as scene:
        before_request(scene, "list pods", 2, lambda: two_canaries_crash(scene))
        ran = promote(scene, "--full", terminal=True, typed="y\n")
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
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
        assert not patches(scene)
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
        assert not patches(scene)


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
        assert not patches(scene)


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
        assert not patches(scene)


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


@story
def under_way(scene: Scene) -> None:
    """Step 2 began a moment ago: 2 of 8 nodes are done, and all will get well."""
    settled.play(scene)
    start_canary(scene)
    scene.pass_time(120.0)
    scene.do(scene.edit({"spec": rolling(partition=16)}))


@story
def few_moving(scene: Scene) -> None:
    """The same with four nodes: 1 of 2 is done, the other one will be in more than a minute."""
    moving.play(scene)
    scene.nodes.behave("a-03", replace(PACE, ready=180.0))


def test_a_right_that_is_lost_while_it_waits_ends_the_wait() -> None:
    async def forbid(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.forbid("list", "nodes")

    with at_half() as scene:
        ran = promote(scene, "--wait", "--soak", "1h", meanwhile=forbid)
        assert ran.code == 6
        assert ran.err.splitlines()[-1] == ("error: cannot see whether step 2 is finished: no right to list nodes")
        assert not patches(scene)


def test_it_waits_for_step_and_soak_promotes_and_waits_for_the_next() -> None:
    with under_way() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--soak", "10m", "--timeout", "1h")
        assert ran.code == 0
        assert ran.out.splitlines()[0] == f"{LINE} promoted to step 3 of 4 (partition 16 -> 8)"
        assert scene.now() - began > 600.0 + 7 * 41.0
        scene.pass_time(1.0)  # for the controller to see it too
        found = stored(scene)
        assert found["status"]["rollout"]["phase"] == "Held"
        assert found["status"]["rollout"]["done"] == 16
        assert ran.err.splitlines()[-1] == "note: finished: 16 of 24 nodes run revision 7"
        assert len(patches(scene)) == 1


def test_a_pod_that_was_lost_begins_the_soak_anew() -> None:
    with at_half() as scene:
        began = scene.now()
        lost = scene.do(scene.pod_on("a-04"))["metadata"]["name"]
        scene.do(scene.api.delete(PODS, lost))
        ran = promote(scene, "--wait", "--soak", "10m", "--timeout", "1h")
        assert ran.code == 0
        assert scene.now() - began > 600.0


def test_the_time_that_it_may_take_is_over() -> None:
    with canary() as scene:
        ran = promote(scene, "--wait", "--timeout", "1m")
        assert ran.code == 3
        assert ran.err.splitlines()[-1].startswith("error: gave up after 1m: step 2 is not finished: ")
        assert not patches(scene)


def test_what_stalls_ends_the_wait() -> None:
    with canary() as scene:
        ran = promote(scene, "--wait", "--timeout", "1h")
        assert ran.code == 4
        assert ran.err.splitlines()[-2:] == [
            "error: stalled: step 2 is not finished: 4 of 8 nodes updated, c-04 CrashLoopBackOff",
            f"  hint: to go back: kubectl kruise-ds rollback {WHERE}",
        ]
        assert not patches(scene)


def test_pods_of_a_finished_step_that_are_lost_end_it_at_the_deadline() -> None:
    with at_half() as scene:
        scene.do(stop_serving(scene, "a-04"))
        began = scene.now()
        ran = promote(scene, "--wait", "--soak", "1h", "--timeout", "3h")
        assert ran.code == 4
        assert ran.err.splitlines()[-2] == (
            "error: stalled: step 2 is not finished: 1 of 2 nodes updated, waiting for a-04 for longer than 10m"
        )
        assert 600.0 <= scene.now() - began < 620.0
        assert not patches(scene)


def test_for_a_pause_it_does_not_wait() -> None:
    with paused() as scene:
        ran = promote(scene, "--wait")
        assert (ran.code, ran.err.splitlines()[0]) == (5, "error: node-agent is paused: 6 of 16 nodes updated")


def test_what_somebody_else_makes_of_it_is_not_waited_for() -> None:
    async def promote_too(scene: Scene) -> None:
        await asyncio.sleep(30.0)
        await scene.edit({"spec": rolling(partition=1)})

    with few_moving() as scene:
        ran = promote(scene, "--wait", meanwhile=promote_too)
        assert ran.code == 6
        assert ran.err.splitlines()[-2] == "error: node-agent was changed by somebody else while this waited"
        assert partition(scene) == 1
        assert not patches(scene)


def test_a_server_that_is_away_for_a_moment_does_not_end_the_wait() -> None:
    async def fail(scene: Scene) -> None:
        await asyncio.sleep(30.0)
        scene.door.link.up = False
        scene.door.link.drop_watches()
        await asyncio.sleep(20.0)
        scene.door.link.up = True

    with few_moving() as scene:
        assert promote(scene, "--wait", meanwhile=fail).code == 0
        assert partition(scene) == 1


def test_what_is_deleted_meanwhile_is_not_waited_for() -> None:
    async def delete(scene: Scene) -> None:
        await asyncio.sleep(30.0)
        await scene.api.delete(DAEMONSETS, NAME, options={"propagationPolicy": "Orphan"})

    with few_moving() as scene:
        ran = promote(scene, "--wait", meanwhile=delete)
        assert (ran.code, ran.err.splitlines()[-1]) == (1, "error: node-agent was deleted while this waited")


def test_where_no_controller_is_active_it_does_not_wait_for_ever() -> None:
    with abandoned() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--timeout", "1h")
        assert ran.code == 4
        assert ran.err.splitlines()[-2:] == [
            "error: nothing happens to node-agent: no controller is active:"
            " lease kruise-ds-system/kruise-ds-controller was last renewed 15m ago",
            "  hint: kubectl kruise-ds doctor",
        ]
        assert scene.now() - began < 70.0
        assert not patches(scene)


def test_nor_does_it_where_the_controller_goes_away_before_the_next_step() -> None:
    async def die(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.controller.kill()

    with at_half() as scene:
        ran = promote(scene, "--wait", "--soak", "20m", "--timeout", "1h", meanwhile=die)
        assert ran.code == 4
        assert "error: nothing happens to node-agent: no controller is active: lease " in ran.err
        assert len(patches(scene)) == 1


def test_fully_is_asked_before_the_wait() -> None:
    with few_moving() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--full", terminal=True, typed="n\n")
        assert (ran.code, scene.now()) == (6, began)
        ran = promote(scene, "--wait", "--full", terminal=True, typed="y\n")
        assert ran.code == 0
        assert ran.err.count("[y/N]") == 1
        scene.pass_time(1.0)  # for the controller to see it too
        assert stored(scene)["status"]["rollout"]["phase"] == "Healthy"


def test_the_question_before_the_wait_is_ascii_where_needed() -> None:
    with held() as scene:
        ran = promote(scene, "--wait", "--full", only_ascii=True, terminal=True, typed="n\n")
        assert "(16 more: b-08 ... a-01)" in ran.err
        assert ran.err.isascii()


def test_look_of_the_wait() -> None:
    with under_way() as scene:
        scene.nodes.behave("*", replace(PACE, ready=31.0))
        scene.check("promote/wait", "promote", NAME, "-n", NAMESPACE, "--wait", "--soak", "10m")
