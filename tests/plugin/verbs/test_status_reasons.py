"""What `status` says a rollout waits for, with every right and with fewer, and that it agrees with the controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH, NODES, PODS, Object
from tests.beds.nodes.fleet import ZONE_LABEL
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.kinds import PODS as POD_KIND
from tests.beds.simulator.refusal import Refused, forbidden
from tests.plugin import scene as scenes
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    PACE,
    REFUSAL,
    STATUS,
    Opened,
    Scene,
    canary,
    daemonset,
    healthy,
    held,
    join,
    opened,
    refused,
    rolling,
    settled,
    surge,
    template,
)


def told(scene: Scene) -> str:
    return scene.run(*STATUS).out


def chosen_in_zone_a(scene: Scene, partition: int) -> None:
    """Revision 7 for zone-a only, until nothing moves any more."""
    scene.nodes.behave("*", PACE)
    selector = {"matchLabels": {ZONE_LABEL: "zone-a"}}
    scene.do(scene.edit({"spec": {"template": template("1.9.0"), **rolling(partition=partition, selector=selector)}}))
    scene.pass_time(900.0)


@pytest.mark.parametrize(
    ("partition", "reason", "why"),
    [
        (3, "SelectorReached", "rollingUpdate.selector leaves out 16 old ones"),
        (16, "PartitionReached", "partition 16 keeps 16 old"),
    ],
)
def test_what_the_selector_holds_is_the_same_reason_everywhere(partition: int, reason: str, why: str) -> None:
    """No smaller partition is advised, which would let no node go."""
    with settled() as scene:
        chosen_in_zone_a(scene, partition)
        out, document = told(scene), json.loads(scene.run(*STATUS, "-o", "json").out)
        listed = json.loads(scene.run("list", "-n", NAMESPACE, "-o", "json").out)["items"][0]
    assert f"  Held by    {why}\n" in out
    assert "set-partition" not in out
    assert document["reason"] == reason
    assert document["message"] == listed["why"] == why


def test_under_a_rollout_of_kruise_rollouts_no_verb_of_ours_is_advised() -> None:
    """It sets the partition itself, and lowers a higher one again."""
    with held() as scene:
        hand = {"rollouts.kruise.io/in-progressing": '{"rolloutName":"agents"}'}
        scene.do(scene.edit({"metadata": {"annotations": hand}}))
        out = told(scene)
        asked = scene.run("set-partition", NAME, "0", "-n", NAMESPACE, typed="n\n", terminal=True)
        unasked = [scene.run(*words, "-n", NAMESPACE) for words in (("set-partition", NAME, "0"), ("pause", NAME))]
    assert '  Next       by Rollout "agents" of kruise-rollouts, which sets the partition\n' in out
    assert "promote" not in out
    assert f'warning: {NAME} is driven by Rollout "agents" of kruise-rollouts' in asked.err
    assert 'This bypasses Rollout "agents" of kruise-rollouts.\nContinue? [y/N]' in asked.err
    assert [asked.code, *(one.code for one in unasked)] == [6, 6, 0], "to pause is urgent"


def test_held_by_the_partition_only_selected_nodes_are_named() -> None:
    with settled() as scene:
        chosen_in_zone_a(scene, 20)
        out = told(scene)
        listed = json.loads(scene.run("list", "-n", NAMESPACE, "-o", "json").out)["items"][0]
    assert "  Next       kubectl kruise-ds set-partition node-agent 0 -n observability\n" in out
    assert "  partition 20 → 0: 4 more nodes, a-04 … a-01\n" in out
    assert listed["why"] == "partition 20 keeps 20 old"


def test_while_paused_new_nodes_get_the_older_revision_that_most_run() -> None:
    with settled() as scene:
        scene.do(scene.edit({"spec": rolling(paused=True)}))
        for version in ("1.9.0", "2.0.0"):
            scene.do(scene.edit({"spec": {"template": template(version)}}))
            scene.pass_time(60.0)
        out = told(scene)
        scene.do(join(scene, ["d-01"]))
        scene.pass_time(60.0)
        nodes = scene.run("nodes", NAME, "-n", NAMESPACE, "--only", "all", "-o", "json").out
    (new,) = [one for one in json.loads(nodes)["items"] if one["node"] == "d-01"]
    assert new["revision"] == 6
    assert "  Still      lost pods come back as they were; new nodes get revision 6\n" in out


def test_degraded_list_says_which_node_is_waited_for() -> None:
    with healthy() as scene:
        scene.nodes.behave("c-04", replace(PACE, ready=None))
        scene.do(scene.api.delete(PODS, scene.do(scene.pod_on("c-04"))["metadata"]["name"]))
        scene.pass_time(60.0)
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
        (listed,) = json.loads(scene.run("list", "-n", NAMESPACE, "-o", "json").out)["items"]
    assert (document["phase"], listed["phase"]) == ("Degraded", "Degraded")
    assert document["message"] == listed["why"] == "waiting for c-04"


@pytest.fixture
def unwritable() -> Iterator[Scene]:
    """A first deployment of which the server accepts no pod."""

    def admission(attempt: Attempt) -> None:
        if attempt.kind.plural == "pods" and attempt.verb == "create":
            raise Refused(403, "Forbidden", f'pods "{attempt.name}" is forbidden: {REFUSAL}')

    with opened() as scene:
        scene.cluster.admission.append(admission)
        scene.do(join(scene))
        scene.do(scene.api.create(DAEMONSETS, daemonset()))
        scene.do(scene.until(writes_fail))
        yield scene


def writes_fail(document: Object) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or []
    return any(one["reason"] == "WritesFail" and one["status"] == "True" for one in conditions)


def test_writes_that_fail_are_a_problem_with_something_to_try(unwritable: Scene) -> None:
    out = told(unwritable)
    assert "  Problem    the controller's writes fail:\n" in out
    assert REFUSAL in " ".join(out.split())
    assert "  Try        kubectl describe ads -n observability node-agent\n" in out
    document = json.loads(unwritable.run(*STATUS, "-o", "json").out)
    (problem,) = document["problems"]
    assert (problem["reason"], problem["node"], problem["pod"]) == ("WritesFail", "", "")
    assert REFUSAL in problem["message"]
    assert (document["reason"], document["message"]) == ("WritesFail", problem["message"])


@pytest.mark.parametrize(("after", "code"), [("10s", 3), ("0", 4)])
def test_a_wait_in_vain_for_writes_that_fail_says_why(unwritable: Scene, after: str, code: int) -> None:
    ran = unwritable.run(*STATUS, "-w", "--timeout", after)
    error = next(line for line in ran.err.splitlines() if line.startswith("error: "))
    assert (ran.code, REFUSAL in error) == (code, True), ran.err


def test_budget_users_are_named_and_the_rest_is_in_update_order() -> None:
    with surge() as scene:
        out = told(scene)
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
    assert "both in use (c-03, c-04)" in out
    assert "Waits for  c-04, c-03 to become available" in out
    assert document["budget"]["by"] == ["c-03", "c-04"]
    assert document["reason"] == "MaxSurgeInUse"


def test_a_refused_template_has_one_sentence() -> None:
    with refused() as scene:
        message = json.loads(scene.run(*STATUS, "-o", "json").out)["message"]
        (listed,) = json.loads(scene.run("list", "-n", NAMESPACE, "-o", "json").out)["items"]
        out = scene.run(*STATUS, columns=200).out
    assert message == listed["why"] == f"server dry-run of the new pod: {REFUSAL}"
    assert f"  Problem    {message}\n" in out


TRACK = "track"


def limit_pods(scene: Scene, count: int) -> None:
    """No more than that many pods at a time, as by a quota."""

    def admit(attempt: Attempt) -> None:
        new = attempt.kind is POD_KIND and attempt.verb == "create"
        if new and len(scene.cluster.store.objects[POD_KIND]) >= count:
            raise forbidden(POD_KIND, attempt.name, "exceeded quota: pods")

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
def test_nodes_that_join_the_selector_while_watching_are_waited_for(more: tuple[str, ...]) -> None:
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
    assert ran.code == 3, ran.out


def test_without_the_right_to_list_nodes_there_is_no_grid_and_a_note() -> None:
    with canary() as scene:
        scene.door.forbid("list", "nodes")
        ran = scene.check("status/without-nodes", *STATUS)
    assert ran.code == 0
    assert "nodes: forbidden" in ran.err
    assert "zone-c" not in ran.out


def test_without_the_right_to_list_pods_it_still_says_how_far_it_is() -> None:
    with canary() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.check("status/without-pods", *STATUS)
        nodes = json.loads(scene.run(*STATUS, "-o", "json").out)["nodes"]
    assert ran.code == 0
    assert "right to list pods" in ran.err
    assert (nodes["updated"], nodes["updating"], nodes["old"], nodes["missing"]) == (4, 2, 18, 0)


@pytest.mark.parametrize("more", [("-w",), ("--exit-code",), ("-w", "-o", "json")])
@pytest.mark.parametrize(
    ("opened", "flags", "code", "words"),
    [
        (held, (), 0, ""),
        (held, ("--require-full",), 5, "is held at 8 of 24 nodes"),
        (held, ("--revision", "6"), 6, "it is 7 now"),
        (scenes.healthy, (), 0, ""),
        (scenes.paused, (), 5, "is paused at 6 of 24 nodes"),
        (scenes.on_delete, (), 5, "OnDelete"),
        (scenes.stalled, (), 4, "stalled at 7 of 8 nodes"),
        (scenes.refused, (), 4, "violates PodSecurity"),
    ],
)
def test_without_the_right_to_list_pods_the_controllers_word_ends_it(
    opened: Opened, flags: tuple[str, ...], code: int, words: str, more: tuple[str, ...]
) -> None:
    with opened() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*STATUS, *more, *flags)
    assert (ran.code, words in ran.err) == (code, True), ran.err
    assert "right to list pods" in ran.err


@pytest.mark.parametrize(("opened", "code"), [(canary, 3), (scenes.abandoned, 4)])
def test_without_the_right_to_list_pods_what_does_not_end_is_given_up(opened: Opened, code: int) -> None:
    with opened() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*STATUS, "-w", "--timeout", "90s")
    assert ran.code == code, ran.err
    assert ran.out.count(f"{NAME} {'Progressing 4/8' if code == 3 else 'Pending'}") > 1


def test_without_the_right_to_list_pods_a_terminal_gets_the_outline() -> None:
    with held() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*STATUS, "-w", terminal=True)
    assert (ran.code, ran.err) == (0, "note: not everything could be read: pods: forbidden\n")
    assert "8 of 8 updated, 24 of 24 available" in ran.out
    assert "right to list pods" in ran.out


@pytest.mark.parametrize("opened", [canary, held, scenes.paused, scenes.healthy])
def test_without_the_right_to_list_pods_the_document_has_the_spec(opened: Opened) -> None:
    with opened() as scene:
        whole = json.loads(scene.run(*STATUS, "-o", "json").out)
        scene.door.forbid("list", "pods")
        told = json.loads(scene.run(*STATUS, "-o", "json").out)
    for key in ("phase", "generation", "revision", "strategy", "steps", "paused", "startedAt"):
        if key == "revision":
            assert told[key]["current"] == whole[key]["current"]
        else:
            assert told[key] == whole[key], key
    assert told["budget"] == {**whole["budget"], "by": []}
