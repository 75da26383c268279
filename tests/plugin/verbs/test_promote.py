"""`promote`: the step that it approves, why it approves none, and what --full lifts; `retry`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugin.playing import Ran
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    PACE,
    STEPS,
    Scene,
    aborted,
    awaiting_approval,
    held,
    on_delete,
    rolling,
    settled,
    soaking,
    start_canary,
    template,
)
from tests.plugin.verbs.few_nodes import acted, before_request, patches, rolling_of, stored

WHERE = f"{NAME} -n {NAMESPACE}"
LINE = f"daemonset.apps.kruise.io/{NAME}"
KIND = "daemonsets.apps.kruise.io"
APPROVE, SKIP = "kruise-ds/approve", "kruise-ds/skip-steps"


def promote(scene: Scene, *arguments: str, **options: Any) -> Ran:
    return acted(scene, "promote", *arguments, **options)


def annotation(scene: Scene, name: str) -> str | None:
    found: str | None = stored(scene)["metadata"].get("annotations", {}).get(name)
    return found


def live_hash(scene: Scene) -> str:
    return str(stored(scene)["status"]["updateRevision"])


def test_a_step_is_approved_in_one_guarded_write_and_the_next_begins() -> None:
    with awaiting_approval() as scene:
        version, revision = stored(scene)["metadata"]["resourceVersion"], live_hash(scene)
        assert promote(scene) == Ran(0, f"{LINE} promoted: step 2 of 3 is approved\n", "")
        (operations,) = patches(scene)
        assert operations[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        assert {one["path"] for one in operations[1:]} == {
            "/metadata/annotations/kruise-ds~1approve",
            "/metadata/annotations/kruise-ds~1last-action",
        }
        assert annotation(scene, APPROVE) == f"{revision}/2"
        scene.pass_time(600.0)
        assert stored(scene)["status"]["updatedNumberScheduled"] == 24


def test_during_the_soak_it_is_approved_for_later() -> None:
    with soaking() as scene:
        ran = promote(scene)
        assert ran.out == (
            f"{LINE} promoted: step 2 of 3 is approved\n  the next step begins when its soak of 30m is over\n"
        )
        scene.pass_time(60.0)
        assert stored(scene)["status"]["updatedNumberScheduled"] == 8
        assert promote(scene).out == f"{LINE} already promoted: step 2 of 3 is approved\n"


NOT_FINISHED = (
    f"error: step 1 of 2 of {NAME} is not finished: 0 of 2 nodes updated\n"
    f"  hint: to see when it is: kubectl kruise-ds status {WHERE} --watch\n"
)


@pytest.mark.parametrize(
    ("steps", "seconds", "expected"),
    [
        ([{"nodes": 2, "approval": "Required"}, {"nodes": "100%"}], 20.0, Ran(6, "", NOT_FINISHED)),
        (STEPS, 100.0, Ran(0, f"{LINE} needs no approval: step 1 of 3 ends by itself\n", "")),
        ([{"nodes": "100%"}], 20.0, Ran(0, f"{LINE} needs no approval: step 1 of 1 ends by itself\n", "")),
    ],
    ids=["not finished", "ends by itself", "the last one too"],
)
def test_what_awaits_no_approval_gets_none(steps: object, seconds: float, expected: Ran) -> None:
    with settled() as scene:
        start_canary(scene, partition=0, steps=steps)
        scene.pass_time(seconds)
        assert promote(scene) == expected
        assert not patches(scene)


def test_a_rollout_without_steps_has_nothing_to_approve() -> None:
    with held() as scene:
        ran = promote(scene)
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
        assert ran.err == (
            f"error: {NAME} has no steps: updateStrategy.rollingUpdate.steps is not set\n"
            "  hint: shows how: kubectl explain ads.spec.updateStrategy.rollingUpdate.steps\n"
            f"  hint: to let N nodes update: kubectl kruise-ds set-partition {WHERE} --update N\n"
            f"  hint: to update all nodes: kubectl kruise-ds promote {WHERE} --full\n"
        )


def test_after_the_last_step_there_is_nothing_to_approve() -> None:
    with settled() as scene:
        scene.do(scene.edit({"spec": rolling(steps=STEPS)}))
        scene.pass_time(60.0)
        assert promote(scene).out == f"{LINE} needs no approval: this rollout does not go by steps\n"
        assert promote(scene, "--full").out == f"{LINE} already promoted fully\n"
        assert not patches(scene)


@pytest.mark.parametrize("full", [(), ("--full", "-y")])
def test_a_change_that_the_controller_has_not_seen_is_not_promoted(full: tuple[str, ...]) -> None:
    with awaiting_approval() as scene:
        scene.do(scene.controller.kill())
        scene.do(scene.edit({"spec": {"template": template("2.0.0")}}))
        ran = promote(scene, *full)
        assert (ran.code, patches(scene)) == (6, [])
        assert f"the controller has not acted on the newest change of {NAME} yet" in ran.err


def test_full_skips_the_steps_and_lifts_the_partition() -> None:
    with settled() as scene:
        start_canary(scene, partition=20, steps=STEPS)
        scene.pass_time(100.0)
        assert promote(scene, "--full", "-y").out == f"{LINE} promoted fully\n"
        assert annotation(scene, SKIP) == live_hash(scene)
        assert rolling_of(stored(scene))["partition"] == 0
        scene.pass_time(900.0)
        assert stored(scene)["status"]["updatedNumberScheduled"] == 24


def test_full_is_refused_for_on_delete() -> None:
    with on_delete() as scene:
        ran = promote(scene, "--full", "-y")
        assert (ran.code, patches(scene), "OnDelete" in ran.err) == (6, [], True)


def test_full_is_asked_for_and_an_approval_is_not() -> None:
    with awaiting_approval() as scene:
        ran = promote(scene, "--full", terminal=True, typed="no\n")
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
        assert ran.err.startswith(f"Promote {NAME} fully?\n  up to 24 of 24 nodes may now run revision 7")
        assert promote(scene, terminal=True).code == 0


def test_a_status_that_is_written_meanwhile_costs_no_approval() -> None:
    async def status() -> None:
        await scene.edit({"metadata": {"labels": {"x": "y"}}})

    with awaiting_approval() as scene:
        before_request(scene, f"patch {KIND}", 1, status)
        ran = promote(scene)
        assert ran.code == 6, ran.out
        assert "changed while you were looking" in ran.err
        assert promote(scene).code == 0


def test_the_wait_ends_at_the_next_approval_with_5() -> None:
    steps = [{"nodes": 2, "approval": "Required"}, {"nodes": 4, "approval": "Required"}, {"nodes": "100%"}]
    with settled() as scene:
        start_canary(scene, partition=0, steps=steps)
        scene.pass_time(300.0)
        ran = promote(scene, "--wait", "--timeout", "10m")
        assert (ran.code, stored(scene)["status"]["updatedNumberScheduled"]) == (5, 4), ran.err
        assert ran.err.endswith(
            f"error: rollout of {LINE} waits for approval at 4 of 24 nodes\n"
            f"  hint: kubectl kruise-ds promote {WHERE}\n"
        )
        assert promote(scene, "--wait", "--timeout", "20m").code == 0


def updated(scene: Scene) -> int:
    return int(stored(scene)["status"]["updatedNumberScheduled"])


def test_an_aborted_rollout_is_tried_again_and_each_time_anew() -> None:
    with aborted() as scene:
        revision = live_hash(scene)
        for value in (revision, f"{revision}/2"):
            ran = acted(scene, "retry")
            assert ran == Ran(0, f"{LINE} tried again, from the first step\n", "")
            assert annotation(scene, "kruise-ds/retry") == value
            scene.pass_time(60.0)
            assert stored(scene)["status"]["rollout"]["phase"] == "Progressing"
            scene.pass_time(300.0)
            assert stored(scene)["status"]["rollout"]["phase"] == "Aborted"
        scene.nodes.behave("*", PACE)
        scene.do(scene.nodes.ready(scene.do(scene.pod_on("c-07"))))
        assert acted(scene, "retry", "--wait", "--timeout", "1h").code == 5
        assert updated(scene) == 8


def test_what_was_rolled_back_is_tried_again() -> None:
    with aborted("RollBack") as scene:
        revision = stored(scene)["status"]["rollout"]["abortedRevision"]
        assert live_hash(scene) != revision
        scene.nodes.behave("c-07", PACE)
        assert acted(scene, "retry", "--wait", "--timeout", "1h").code == 5
        assert annotation(scene, "kruise-ds/retry") == revision == live_hash(scene)
        assert updated(scene) == 8


@pytest.mark.parametrize("action", ["Pause", "RollBack"])
def test_full_goes_on_in_spite_of_an_abort(action: str) -> None:
    with aborted(action) as scene:
        assert promote(scene, "--full", "-y").code == 0
        scene.pass_time(1200.0)
        assert updated(scene) > 2


def test_what_was_not_aborted_is_not_tried_again() -> None:
    with awaiting_approval() as scene:
        ran = acted(scene, "retry")
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
        assert ran.err.startswith(f"error: the rollout of {NAME} was not aborted: there is nothing to try again\n")
