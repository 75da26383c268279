"""What the verbs say, and how waits end, while a rollout goes by steps: in soaks, pauses, holds and aborts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from controller.api.objects import epoch, rfc3339
from tests.beds.api import PODS
from tests.beds.objects import image_of, is_live
from tests.plugin.scene import (
    MINUTE,
    NAME,
    NAMESPACE,
    NOW,
    PACE,
    STATUS,
    STEPS,
    Opened,
    Scene,
    aborted,
    awaiting_approval,
    rolling,
    settled,
    soaking,
    start_canary,
    template,
    written,
)
from tests.plugin.scene import manifest as manifest_of
from tests.plugin.verbs.few_nodes import acted, few_nodes, patches, queries, stored

WHERE = f"{NAME} -n {NAMESPACE}"
LINE = f"daemonset.apps.kruise.io/{NAME}"
ON_FAILURE = {"unavailableNodes": 1, "after": "2m"}


def start_failing(scene: Scene, **on_failure: Any) -> None:
    """Revision 7 comes, and is not ready on c-07."""
    start_canary(scene, at=NOW - 18 * MINUTE, partition=0, steps=STEPS, onFailure={**ON_FAILURE, **on_failure})
    scene.nodes.behave("c-07", replace(PACE, ready=None))


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("Pause", "was aborted at 1 of 2 nodes"),
        ("RollBack", "was aborted, 2 nodes still have the aborted revision"),
    ],
)
def test_a_wait_ends_as_soon_as_the_rollout_is_aborted(action: str, told: str) -> None:
    with settled() as scene:
        start_failing(scene, action=action)
        begun = scene.now()
        ran = scene.run(*STATUS, "-w", "--timeout", "1h")
        assert (ran.code, scene.now() - begun < 3 * MINUTE) == (4, True), ran
        assert ran.err.endswith(
            f"error: rollout of {LINE} {told}\n"
            f"  hint: kubectl kruise-ds rollback {WHERE}\n"
            f"  hint: to try it again: kubectl kruise-ds retry {WHERE}\n"
        )


@pytest.mark.parametrize("unreadable", ["", "pods"])
def test_a_wait_for_another_try_outlasts_the_abort_before(unreadable: str) -> None:
    with aborted() as scene:
        if unreadable:
            scene.door.forbid("list", unreadable)
        scene.nodes.behave("*", PACE)
        scene.do(scene.nodes.ready(scene.do(scene.pod_on("c-07"))))
        assert acted(scene, "retry", "--wait", "--timeout", "1h").code == 5


def went_back(scene: Scene) -> None:
    start_failing(scene, action="RollBack")
    scene.pass_time(200.0)
    assert stored(scene)["status"]["rollout"]["phase"] == "Aborted"
    scene.nodes.behave("*", PACE)
    scene.do(scene.nodes.ready(scene.do(scene.pod_on("c-07"))))
    scene.pass_time(2.0)


def test_a_rollout_that_went_back_says_so_and_what_runs_now() -> None:
    with settled() as scene:
        went_back(scene)
        shown = scene.run(*STATUS)
        assert "Aborted   24 of 24 nodes on revision 8" in shown.out
        assert "  Revision   7 → 8           agent:1.9.0 → agent:1.8.4\n" in shown.out
        ran = scene.run(*STATUS, "-w")
        assert ran.code == 4
        assert f"error: rollout of {LINE} was aborted, no node has the aborted revision any more\n" in ran.err
        assert "    8  " in scene.run("list", "-n", NAMESPACE).out


@pytest.mark.parametrize(
    ("verb", "annotation"), [(("retry",), "kruise-ds/retry"), (("promote", "--full", "-y"), "kruise-ds/skip-steps")]
)
def test_a_revision_that_was_taken_back_is_rolled_out_again(verb: tuple[str, ...], annotation: str) -> None:
    with settled() as scene:
        start_failing(scene, action="RollBack")
        scene.pass_time(2.0)
        revision = stored(scene)["status"]["updateRevision"]
        scene.pass_time(200.0)
        assert stored(scene)["status"]["updateRevision"] != revision
        assert acted(scene, *verb).code == 0
        assert stored(scene)["metadata"]["annotations"][annotation] == revision
        scene.pass_time(5.0)
        assert stored(scene)["status"]["updateRevision"] == revision


@pytest.mark.parametrize("action", ["Pause", "RollBack"])
def test_an_aborted_step_is_not_approved(action: str) -> None:
    with settled() as scene:
        start_failing(scene, action=action)
        scene.pass_time(200.0)
        ran = acted(scene, "promote")
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
        assert ran.err.splitlines() == [
            f"error: the rollout of {NAME} was aborted: there is nothing to approve",
            f"  hint: to try it again: kubectl kruise-ds retry {WHERE}",
            f"  hint: to update all nodes in spite of failures: kubectl kruise-ds promote {WHERE} --full",
        ]


def held_by_step(scene: Scene) -> None:
    start_canary(scene, partition=0, steps=[{"nodes": 2}])
    scene.pass_time(60.0)


def test_a_last_step_that_keeps_nodes_old_is_named_and_lifted() -> None:
    with settled() as scene:
        held_by_step(scene)
        assert "the step keeps 22 nodes old" in scene.run("list", "-n", NAMESPACE, columns=120).out
        assert (
            f"  Held by    the step keeps 22 nodes old\n  Next       kubectl kruise-ds promote {WHERE} --full\n"
        ) in scene.run(*STATUS).out
        assert acted(scene, "promote").out == f"{LINE} needs no approval: the last step is over\n"
        assert acted(scene, "promote", "--full", "-y", "--wait", "--timeout", "1h").code == 0


@pytest.mark.parametrize("without", ["", "pods"])
def test_the_list_says_why_a_rollout_was_aborted(without: str) -> None:
    with aborted() as scene:
        if without:
            scene.door.forbid("list", without)
        told = "1 updated node has no available pod for longer than 2m: pod node-agent-"
        assert told in scene.run("list", "-n", NAMESPACE, columns=160).out


@pytest.mark.parametrize(
    ("scenario", "steps"),
    [(soaking, "8 ● 11m of 30m, approved"), (awaiting_approval, "8 ● 30m of 30m, approved")],
    ids=["in the soak", "after it"],
)
def test_an_approval_during_a_pause_counts_at_the_resume(scenario: Opened, steps: str) -> None:
    with scenario() as scene:
        assert acted(scene, "pause").code == 0
        assert ("to be approved" in scene.run(*STATUS).out) == (scenario is awaiting_approval)
        assert acted(scene, "promote").out == (
            f"{LINE} promoted: step 2 of 3 is approved\n  it is paused: no node is updated before resume\n"
        )
        assert steps in scene.run(*STATUS).out
        assert "Paused 8/8 updated: nothing more is rolled out before resume" in scene.run(*STATUS, "-w").out
        scene.pass_time(20 * MINUTE)
        assert acted(scene, "resume").out == (
            f"{LINE} resumed\n  16 of 24 nodes get revision 7: b-08 … a-01, 2 at a time\n"
        )
        scene.pass_time(2.0)
        assert stored(scene)["status"]["rollout"]["target"] == 24


def test_a_pause_that_awaits_an_approval_names_both_commands() -> None:
    with awaiting_approval() as scene:
        acted(scene, "pause")
        assert (
            f"  Next       kubectl kruise-ds resume {WHERE}\n             kubectl kruise-ds promote {WHERE}\n"
        ) in scene.run(*STATUS).out


def test_applied_steps_are_shown_as_written(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"steps": list(STEPS), "onFailure": ON_FAILURE, "unreachableNodes": {"leaveOut": "5%"}}
    order = [{"groupBy": "zone"}, {"matchLabels": {"pool": "canary"}}]
    with settled() as scene:
        path = written(tmp_path, manifest_of(order=order, topology={"key": "zone", "maxDomains": 1}, **fields))
        ran = scene.run("apply", "-f", path, "-y", "--dry-run=server")
        assert (ran.code, "hidden" in ran.out) == (0, False), ran.err
        assert "soak: 10m" in ran.out


def test_a_malformed_soak_is_no_bug_of_the_plugin(tmp_path: Path) -> None:
    """The server refuses it, except one whose CustomResourceDefinition is older."""
    with soaking() as scene:
        path = written(tmp_path, manifest_of("2.0.0", steps=[{"nodes": 1, "soak": "x"}]))
        assert scene.run("apply", "-f", path, "-y").code == 0
        shown = scene.run(*STATUS)
        assert "bug" not in shown.err, shown.err


def test_a_plan_says_which_wave_begins_a_step_and_after_which_soak() -> None:
    steps = [{"nodes": 1, "soak": "5m"}, {"nodes": 3}, {"nodes": 5, "approval": "Required"}]
    with settled() as scene:
        scene.do(scene.edit({"spec": rolling(steps=steps)}))
        scene.pass_time(2.0)
        ran = scene.run("plan", NAME, "-n", NAMESPACE, "--image", "*=registry.example.com/agent:2.0.0", columns=120)
        assert ran.out.splitlines()[2:5] == [
            "  wave 1   c-08        re-create   at once",
            "  wave 2   c-07 c-06   re-create   step 2, after 5m: when c-08 is available",
            "  wave 3   c-05 c-04   re-create   step 3: as c-07, c-06 become available",
        ]


@pytest.mark.parametrize(
    ("steps", "until"),
    [
        ([{"nodes": "100%"}], "in all"),
        ([{"nodes": "100%", "soak": "1h"}], "until step 2 of 2 is reached, then 1h"),
        ([{"nodes": "100%", "approval": "Required"}], "until step 2 of 2 is reached, then an approval"),
        (
            [{"nodes": 3, "soak": "1h", "approval": "Required"}, {"nodes": "100%"}],
            "until step 2 of 3 is reached, then 1h and an approval",
        ),
    ],
)
@pytest.mark.parametrize("waves", ["0", "2"])
def test_an_estimate_says_until_when_it_goes(steps: Any, until: str, waves: str) -> None:
    image = ("--image", "*=registry.example.com/agent:2.0.0")
    with settled() as scene:
        scene.do(scene.edit({"spec": rolling(steps=[{"nodes": 1, "soak": "5m"}, *steps])}))
        scene.pass_time(2.0)
        shown = scene.run("plan", NAME, "-n", NAMESPACE, *image, "--waves", waves, columns=120).out
        assert f"\nEstimate   about 5m {until} (median" in shown


def test_domains_are_shown_with_their_short_nodes() -> None:
    topology = {"key": "topology.kubernetes.io/zone", "maxUnavailable": 2, "maxDomains": 1}
    with settled() as scene:
        start_canary(scene, partition=0, topology=topology)
        scene.pass_time(20.0)
        assert "\n  Domains    zone-c 2 short (at most 2)\n" in scene.run(*STATUS).out
        scene.door.forbid("list", "nodes")
        assert "Domains" not in scene.run(*STATUS).out


APPROVED: Final = ({"nodes": 1, "approval": "Required"}, {"nodes": 2, "soak": "1h"}, {"nodes": "100%"})


def few_in_steps(scene: Scene, **more: Any) -> None:
    """Revision 1 of four nodes is stable, and revision 2 awaits the approval of its first step."""
    scene.pass_time(MINUTE)
    fields = rolling(steps=APPROVED, maxUnavailable=4, **more)
    scene.do(scene.edit({"spec": {"template": template("2.0.0"), **fields}}))
    scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] == "AwaitingApproval"))


def versions(scene: Scene) -> list[str]:
    """Of the live pods, sorted."""
    pods = scene.do(scene.api.list(PODS))
    return sorted(image_of(pod).rpartition(":")[2] for pod in pods if is_live(pod))


def test_an_approval_outlasts_a_sync_and_warns_of_none() -> None:
    with few_nodes() as scene:
        few_in_steps(scene)
        scene.do(scene.edit({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "agents"}}}))
        scene.pass_time(2.0)
        assert acted(scene, "promote").err == ""
        assert queries(scene)[-1]["fieldManager"] == "kruise-ds-steps", "not kubectl…, whose fields Flux takes away"
        scene.pass_time(2.0)
        assert "may revert this" in acted(scene, "pause").err


def test_an_approval_speaks_of_no_soak_where_there_is_none() -> None:
    """Not even within the second in which the step is reached, whose end is recorded."""
    with few_nodes() as scene:
        few_in_steps(scene)
        reached = stored(scene)["status"]["rollout"]["stepReachedTime"]
        now = {"KRUISE_DS_NOW": rfc3339((epoch(reached) or 0.0) - 1.0)}
        assert acted(scene, "promote", environ=now).out == f"{LINE} promoted: step 1 of 3 is approved\n"


def test_a_rollback_in_the_middle_of_a_walk_has_no_steps_and_its_undo_has_them_all() -> None:
    """Whatever was approved or skipped before."""
    with few_nodes() as scene:
        few_in_steps(scene)
        assert acted(scene, "promote", "--full", "-y").code == 0
        scene.pass_time(10.0)
        assert versions(scene) == ["2.0.0"] * 4
        assert acted(scene, "rollback", "-y", "--wait").code == 0
        assert versions(scene) == ["1.8.0"] * 4
        ran = acted(scene, "rollback", "-y", "--to-revision", "2", columns=120)
        assert "move back   1 node: a-04 " in ran.out
        assert "3 nodes: a-03 a-02 a-01 (in later steps; promote --full then leaves these out)" in ran.out
        scene.pass_time(60.0)
        assert versions(scene) == ["1.8.0"] * 3 + ["2.0.0"]
        found = stored(scene)["status"]["rollout"]
        assert (found["phase"], found["step"]) == ("AwaitingApproval", 1)


def test_a_rollback_beyond_the_stable_revision_goes_by_steps() -> None:
    with few_nodes() as scene:
        few_in_steps(scene)
        assert acted(scene, "promote", "--full", "-y").code == 0
        scene.pass_time(MINUTE)
        assert acted(scene, "rollback", "-y", "--wait").code == 5
        assert versions(scene) == ["1.8.0", "2.0.0", "2.0.0", "2.0.0"]
        assert acted(scene, "rollback", "-y", "--to-revision", "2", "--wait").code == 0
        assert versions(scene) == ["2.0.0"] * 4


def test_another_try_has_to_be_approved_anew() -> None:
    with few_nodes() as scene:
        few_in_steps(scene, onFailure=ON_FAILURE)
        scene.nodes.behave("a-03", replace(PACE, ready=None))
        assert acted(scene, "promote").code == 0
        scene.pass_time(3 * MINUTE)
        assert stored(scene)["status"]["rollout"]["phase"] == "Aborted"
        scene.do(scene.nodes.ready(scene.do(scene.pod_on("a-03"))))
        assert acted(scene, "retry").code == 0
        scene.pass_time(MINUTE)
        found = stored(scene)["status"]["rollout"]
        assert (found["phase"], found["step"]) == ("AwaitingApproval", 1)


def test_a_check_without_an_answer_is_reported() -> None:
    with settled() as scene:
        checks = [{"name": "errors", "query": "errors > 0"}]
        steps = [{"nodes": 2, "approval": "Required"}, {"nodes": "100%"}]
        start_canary(scene, at=NOW - 18 * MINUTE, partition=0, steps=steps, checks=checks)
        scene.go_to(NOW)
        shown = scene.run(*STATUS)
        assert "  Check      errors has no answer for 18m\n" in shown.out
        assert "the controller has no --prometheus-url\n" in shown.out
        assert scene.run(*STATUS, "-w", "--timeout", "1h").code == 3
        (told,) = json.loads(scene.run(*STATUS, "-o", "json").out)["checks"]
        assert (told["name"], told["state"]) == ("errors", "Unanswered")
        refused = acted(scene, "promote")
        assert "check errors has no answer" in refused.err + refused.out
        plan = scene.run("plan", NAME, "-n", NAMESPACE).out
        assert "a check of the step has no answer: nothing moves on 2 nodes: c-08,\n" in plan
        assert "c-08 c-07 | c-06 c-05 |" in plan, "the later steps are foretold as if it had passed"


@pytest.mark.parametrize("action", ["Pause", "RollBack"])
def test_a_restart_warns_that_it_tries_an_aborted_template_again(action: str) -> None:
    with few_nodes() as scene:
        scene.pass_time(MINUTE)
        assert "aborted" not in acted(scene, "restart", "-y", "--dry-run=client").err
        scene.nodes.behave("*", replace(PACE, ready=None))
        failing = rolling(onFailure={**ON_FAILURE, "action": action})
        scene.do(scene.edit({"spec": {"template": template("2.0.0"), **failing}}))
        scene.pass_time(3 * MINUTE)
        said = f"warning: the rollout of {NAME} was aborted: a restart rolls the same template out once more\n"
        hint = f"  hint: to go back to the stable one first: kubectl kruise-ds rollback {WHERE}\n"
        assert acted(scene, "restart", "-y").err == said + hint
