"""promote against the real controller: when it refuses, what it writes, and what it waits for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.plugin.kept import story
from tests.plugin.scene import (
    NAMESPACE,
    PACE,
    Ran,
    Scene,
    abandoned,
    canary,
    first_deployment,
    healthy,
    held,
    on_delete,
    paused,
    refused,
    rolling,
    settled,
    stalled,
    start_canary,
)
from tests.plugin.verbs.few_nodes import KIND, before_request

NAME = "node-agent"
WHERE = f"{NAME} -n {NAMESPACE}"
LINE = f"daemonset.apps.kruise.io/{NAME}"


def promote(scene: Scene, *arguments: str, **options: Any) -> Ran:
    return scene.run("promote", NAME, "-n", NAMESPACE, *arguments, **options)


def live(scene: Scene) -> Object:
    return scene.do(scene.api.get(DAEMONSETS, NAME))


def partition(scene: Scene) -> object:
    return live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]


def written(scene: Scene) -> list[list[Object]]:
    """The patches of DaemonSets that the plugin sent."""
    sent = scene.door.link.writes("daemonsets.apps.kruise.io")
    return [msgspec.json.decode(one.request.body or b"") for one in sent]


@story
def under_way(scene: Scene) -> None:
    """Step 2 began a moment ago: 2 of 8 nodes are done, and all will get well."""
    settled.play(scene)
    start_canary(scene)
    scene.pass_time(120.0)
    scene.do(scene.edit({"spec": rolling(partition=16)}))


# what it writes


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
        scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] == "Held" and _done(one) == 12))
        assert promote(scene, "--full", "-y").out.startswith(f"{LINE} promoted fully (partition 12 -> 0)\n")
        assert partition(scene) == 0


def _done(one: Object) -> object:
    return one["status"]["rollout"]["done"]


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


# when it refuses, or has nothing to do


def test_a_step_that_is_not_finished_is_not_left() -> None:
    with stalled() as scene:
        ran = promote(scene)
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == (
            "error: step 2 is not finished: 7 of 8 nodes updated, c-04 CrashLoopBackOff\n"
            f"  hint: --force goes on anyway; kubectl kruise-ds rollback {WHERE} goes back\n"
        )
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
def test_a_step_that_was_asked_for_by_its_value_needs_the_present_one_finished_too(way: list[str]) -> None:
    with canary() as scene:
        assert promote(scene, *way).code == 6
        assert partition(scene) == 16


def test_what_is_paused_is_not_promoted() -> None:
    with paused() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err == (
            "error: node-agent is paused: 6 of 16 nodes updated\n"
            f"  hint: --force goes on anyway; kubectl kruise-ds resume {WHERE} lets it go on\n"
        )


def test_with_on_delete_there_are_no_steps() -> None:
    with on_delete() as scene:
        ran = promote(scene, "--full")
        assert ran.code == 6
        assert ran.err == (
            "error: cannot promote node-agent: updateStrategy is OnDelete, pods change only when you delete them\n"
            f"  hint: kubectl kruise-ds nodes {WHERE} --only old\n"
        )


def test_without_steps_it_says_what_to_do() -> None:
    with held() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": None}}}))
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err == (
            "error: node-agent has no steps: it has no annotation kruise-ds/steps\n"
            f"  hint: kubectl annotate ads {WHERE} kruise-ds/steps=90%,50%,0\n"
            f"  hint: or without steps: kubectl kruise-ds promote {WHERE} --to VALUE, or --full\n"
        )


def test_steps_that_are_none_are_named() -> None:
    with held() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": "8,16"}}}))
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.startswith(
            'error: annotation kruise-ds/steps="8,16" is not a list of steps: 16 is not smaller than 8\n'
        )


def test_after_the_last_step_there_is_nothing_to_do_and_that_is_no_failure() -> None:
    with healthy() as scene:
        ran = promote(scene)
        assert (ran.code, ran.out, ran.err) == (0, f"{LINE} already promoted fully\n", "")
        assert not written(scene)


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
    with held() as scene:
        assert promote(scene, *way).code == 2
        assert not written(scene)


def test_a_soak_that_is_not_over_refuses() -> None:
    with held() as scene:
        ran = promote(scene, "--soak", "30m")
        assert ran.code == 6
        assert ran.err == (
            "error: step 2 is finished, and quiet for 18m of 30m\n"
            "  hint: --force goes on anyway; --wait waits until then\n"
        )
        assert promote(scene, "--soak", "15m").code == 0


def test_only_fully_is_asked() -> None:
    with held() as scene:
        ran = promote(scene, "--full", terminal=True, typed="no\n")
        assert (ran.code, ran.out) == (6, "")
        assert ran.err.startswith("Promote node-agent fully?\n")
        assert not written(scene)
        assert promote(scene, terminal=True).code == 0


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
    with canary() as scene:
        for kind in kinds:
            scene.door.forbid("list", kind)
        ran = promote(scene, *way)
        binding = " by a ClusterRoleBinding: nodes are in no namespace" if "nodes" in kinds else ""
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == (
            f"error: cannot see whether step 2 is finished: no right to list {told}\n"
            f"  hint: --force goes on anyway; ask for ClusterRole kruise-ds-operator{binding}\n"
        )
        assert not written(scene)


@pytest.mark.parametrize("steps", ["22,16,8,0", "90%,67%,33%,0"])
def test_with_force_it_goes_on_blindly_by_the_controllers_own_count(steps: str) -> None:
    with held() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": steps}}}))
        scene.door.forbid("list", "pods")
        scene.door.forbid("list", "nodes")
        ran = promote(scene, "--force")
        assert (ran.code, ran.err) == (0, "")
        assert partition(scene) == (8 if steps.startswith("22") else "33%")


def test_a_right_that_is_lost_while_it_waits_ends_the_wait() -> None:
    async def forbid(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.forbid("list", "nodes")

    with held() as scene:
        ran = promote(scene, "--wait", "--soak", "1h", meanwhile=forbid)
        assert ran.code == 6
        assert ran.err.splitlines()[-1] == ("error: cannot see whether step 2 is finished: no right to list nodes")
        assert not written(scene)


def test_where_there_is_no_earlier_revision_no_rollback_is_advised() -> None:
    with first_deployment() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.splitlines()[-1] == "  hint: --force goes on anyway"


# --wait


def test_it_waits_for_this_step_and_its_soak_promotes_and_waits_for_the_next() -> None:
    with under_way() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--soak", "10m", "--timeout", "1h")
        assert ran.code == 0
        assert ran.out.splitlines()[0] == f"{LINE} promoted to step 3 of 4 (partition 16 -> 8)"
        assert scene.now() - began > 600.0 + 7 * 41.0
        scene.pass_time(1.0)  # for the controller to see it too
        found = live(scene)
        assert found["status"]["rollout"]["phase"] == "Held"
        assert _done(found) == 16
        assert ran.err.splitlines()[-1] == "note: finished: 16 of 24 nodes run revision 7"
        assert len(written(scene)) == 1


def test_a_pod_that_was_lost_begins_the_soak_anew() -> None:
    with held() as scene:
        began = scene.now()
        lost = scene.do(scene.pod_on("c-08"))["metadata"]["name"]
        scene.do(scene.api.delete(PODS, lost))
        ran = promote(scene, "--wait", "--soak", "10m", "--timeout", "1h")
        assert ran.code == 0
        assert scene.now() - began > 600.0


def test_the_time_that_it_may_take_is_over() -> None:
    with canary() as scene:
        ran = promote(scene, "--wait", "--timeout", "1m")
        assert ran.code == 3
        assert ran.err.splitlines()[-1].startswith("error: gave up after 1m: step 2 is not finished: ")
        assert not written(scene)


def test_what_stalls_ends_the_wait() -> None:
    with canary() as scene:
        ran = promote(scene, "--wait", "--timeout", "1h")
        assert ran.code == 4
        assert ran.err.splitlines()[-2:] == [
            "error: stalled: step 2 is not finished: 4 of 8 nodes updated, c-04 CrashLoopBackOff",
            f"  hint: kubectl kruise-ds rollback {WHERE} goes back",
        ]
        assert not written(scene)


def test_for_a_pause_it_does_not_wait() -> None:
    with paused() as scene:
        ran = promote(scene, "--wait")
        assert (ran.code, ran.err.splitlines()[0]) == (5, "error: node-agent is paused: 6 of 16 nodes updated")


def test_what_somebody_else_makes_of_it_is_not_waited_for() -> None:
    async def promote_too(scene: Scene) -> None:
        await asyncio.sleep(30.0)
        await scene.edit({"spec": rolling(partition=8)})

    with under_way() as scene:
        ran = promote(scene, "--wait", meanwhile=promote_too)
        assert ran.code == 6
        assert ran.err.splitlines()[-2] == "error: node-agent was changed by somebody else while this waited"
        assert partition(scene) == 8
        assert not written(scene)


def test_a_server_that_is_away_for_a_moment_does_not_end_the_wait() -> None:
    async def fail(scene: Scene) -> None:
        await asyncio.sleep(30.0)
        scene.door.link.up = False
        scene.door.link.drop_watches()
        await asyncio.sleep(20.0)
        scene.door.link.up = True

    with under_way() as scene:
        assert promote(scene, "--wait", meanwhile=fail).code == 0
        assert partition(scene) == 8


def test_what_is_deleted_meanwhile_is_not_waited_for() -> None:
    async def delete(scene: Scene) -> None:
        await asyncio.sleep(30.0)
        await scene.api.delete(DAEMONSETS, NAME, options={"propagationPolicy": "Orphan"})

    with under_way() as scene:
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
        assert not written(scene)


def test_nor_does_it_where_the_controller_goes_away_before_the_next_step() -> None:
    async def die(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.controller.kill()

    with held() as scene:
        ran = promote(scene, "--wait", "--soak", "20m", "--timeout", "1h", meanwhile=die)
        assert ran.code == 4
        assert "error: nothing happens to node-agent: no controller is active: lease " in ran.err
        assert len(written(scene)) == 1


def test_fully_is_asked_before_the_wait() -> None:
    with under_way() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--full", terminal=True, typed="n\n")
        assert (ran.code, scene.now()) == (6, began)
        ran = promote(scene, "--wait", "--full", terminal=True, typed="y\n")
        assert ran.code == 0
        assert ran.err.count("[y/N]") == 1
        scene.pass_time(1.0)  # for the controller to see it too
        assert live(scene)["status"]["rollout"]["phase"] == "Healthy"


def test_the_question_before_the_wait_is_ascii_where_only_that_can_be_shown() -> None:
    with held() as scene:
        ran = promote(scene, "--wait", "--full", only_ascii=True, terminal=True, typed="n\n")
        assert "(16 more: b-08 ... a-01)" in ran.err
        assert ran.err.isascii()


# looks


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(("state", "scene_of"), [("unfinished", stalled), ("promoted", held)])
def test_looks(state: str, scene_of: Any, columns: int) -> None:
    with scene_of() as scene:
        scene.check(f"promote/{state}-{columns}", "promote", NAME, "-n", NAMESPACE, columns=columns)


def test_look_of_the_wait() -> None:
    with under_way() as scene:
        scene.nodes.behave("*", replace(PACE, ready=31.0))
        scene.check("promote/wait-80", "promote", NAME, "-n", NAMESPACE, "--wait", "--soak", "10m")
