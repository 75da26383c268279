"""`promote --wait`: through this step and its soak to the next, and what ends the wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.beds.api import DAEMONSETS, PODS
from tests.plugin.kept import story
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    PACE,
    Scene,
    abandoned,
    canary,
    held,
    paused,
    rolling,
    settled,
    start_canary,
)
from tests.plugin.verbs.few_nodes import at_half, moving, stop_serving
from tests.plugin.verbs.promoting import LINE, WHERE, done, live, partition, promote, written


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
        assert not written(scene)


def test_it_waits_for_step_and_soak_promotes_and_waits_for_the_next() -> None:
    with under_way() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--soak", "10m", "--timeout", "1h")
        assert ran.code == 0
        assert ran.out.splitlines()[0] == f"{LINE} promoted to step 3 of 4 (partition 16 -> 8)"
        assert scene.now() - began > 600.0 + 7 * 41.0
        scene.pass_time(1.0)  # for the controller to see it too
        found = live(scene)
        assert found["status"]["rollout"]["phase"] == "Held"
        assert done(found) == 16
        assert ran.err.splitlines()[-1] == "note: finished: 16 of 24 nodes run revision 7"
        assert len(written(scene)) == 1


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
        assert not written(scene)


def test_what_stalls_ends_the_wait() -> None:
    with canary() as scene:
        ran = promote(scene, "--wait", "--timeout", "1h")
        assert ran.code == 4
        assert ran.err.splitlines()[-2:] == [
            "error: stalled: step 2 is not finished: 4 of 8 nodes updated, c-04 CrashLoopBackOff",
            f"  hint: to go back: kubectl kruise-ds rollback {WHERE}",
        ]
        assert not written(scene)


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
        assert not written(scene)


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
        assert not written(scene)


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
        assert not written(scene)


def test_nor_does_it_where_the_controller_goes_away_before_the_next_step() -> None:
    async def die(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.controller.kill()

    with at_half() as scene:
        ran = promote(scene, "--wait", "--soak", "20m", "--timeout", "1h", meanwhile=die)
        assert ran.code == 4
        assert "error: nothing happens to node-agent: no controller is active: lease " in ran.err
        assert len(written(scene)) == 1


def test_fully_is_asked_before_the_wait() -> None:
    with few_moving() as scene:
        began = scene.now()
        ran = promote(scene, "--wait", "--full", terminal=True, typed="n\n")
        assert (ran.code, scene.now()) == (6, began)
        ran = promote(scene, "--wait", "--full", terminal=True, typed="y\n")
        assert ran.code == 0
        assert ran.err.count("[y/N]") == 1
        scene.pass_time(1.0)  # for the controller to see it too
        assert live(scene)["status"]["rollout"]["phase"] == "Healthy"


def test_the_question_before_the_wait_is_ascii_where_needed() -> None:
    with held() as scene:
        ran = promote(scene, "--wait", "--full", only_ascii=True, terminal=True, typed="n\n")
        assert "(16 more: b-08 ... a-01)" in ran.err
        assert ran.err.isascii()


def test_look_of_the_wait() -> None:
    with under_way() as scene:
        scene.nodes.behave("*", replace(PACE, ready=31.0))
        scene.check("promote/wait", "promote", NAME, "-n", NAMESPACE, "--wait", "--soak", "10m")
