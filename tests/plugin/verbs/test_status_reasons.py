"""Why a rollout is where it is: the controller's own reason, in the same words from `status`, `list` and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.nodes.fleet import ZONE_LABEL
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.refusal import Refused
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    PACE,
    REFUSAL,
    Scene,
    daemonset,
    healthy,
    join,
    opened,
    paused,
    refused,
    rolling,
    settled,
    surge,
    template,
)
from tests.plugin.verbs.looking import STATUS


def told(scene: Scene) -> str:
    return scene.run(*STATUS).out


def test_a_refused_template_that_nobody_waits_for_any_more_is_held() -> None:
    with refused() as scene:
        scene.do(scene.edit({"spec": rolling(partition=24)}))
        scene.pass_time(60.0)
        stored = scene.do(scene.api.get(DAEMONSETS, NAME))["status"]["rollout"]
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
    assert document["phase"] == stored["phase"] == "Held"


def test_a_note_with_a_garbled_time_is_none() -> None:
    with paused() as scene:
        note = '{"verb":"pause","at":"garbage","client":"x"}'
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/last-action": note}}}))
        ran = scene.run(*STATUS)
        listed = scene.run("list", "-n", NAMESPACE)
    assert (ran.code, listed.code) == (0, 0), ran.err + listed.err
    assert "  Paused     3h ago\n" in ran.out


def chosen_in_zone_a(scene: Scene, partition: int) -> None:
    """Revision 7 for zone-a only, until nothing moves any more."""
    scene.nodes.behave("*", PACE)
    selector = {"matchLabels": {ZONE_LABEL: "zone-a"}}
    scene.do(scene.edit({"spec": {"template": template("1.9.0"), **rolling(partition=partition, selector=selector)}}))
    scene.pass_time(900.0)


@pytest.mark.parametrize("partition", [3, 16])
def test_held_by_the_selector_no_smaller_partition_is_advised(partition: int) -> None:
    with settled() as scene:
        chosen_in_zone_a(scene, partition)
        out = told(scene)
    assert "  Held by    rollingUpdate.selector leaves out 16 old ones\n" in out
    assert "set-partition" not in out


def test_what_the_selector_holds_is_the_same_reason_everywhere() -> None:
    with settled() as scene:
        chosen_in_zone_a(scene, 3)
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
        listed = json.loads(scene.run("list", "-n", NAMESPACE, "-o", "json").out)["items"][0]
    assert document["reason"] == "SelectorReached"
    assert document["message"] == listed["why"] == "rollingUpdate.selector leaves out 16 old ones"


def test_held_by_the_partition_only_selected_nodes_are_named() -> None:
    with settled() as scene:
        chosen_in_zone_a(scene, 20)
        out = told(scene)
        listed = json.loads(scene.run("list", "-n", NAMESPACE, "-o", "json").out)["items"][0]
    assert "  Next       kubectl kruise-ds set-partition node-agent 0 -n observability\n" in out
    assert "  partition 20 → 0: 4 more nodes, a-04 … a-01\n" in out
    assert listed["why"] == "partition 20 keeps 20 old"


def test_a_step_in_percent_is_told_in_nodes_too() -> None:
    with settled() as scene:
        scene.nodes.behave("*", PACE)
        steps = {"metadata": {"annotations": {"kruise-ds/steps": "90%,50%,0"}}}
        scene.do(scene.edit({**steps, "spec": {"template": template("1.9.0"), **rolling(partition="90%")}}))
        scene.pass_time(300.0)
        out = told(scene)
    assert "  partition 21 → 12 (50%): 9 more nodes, c-05 … b-05\n" in out


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


def test_writes_that_fail_are_a_problem_for_programs(unwritable: Scene) -> None:
    document = json.loads(unwritable.run(*STATUS, "-o", "json").out)
    (problem,) = document["problems"]
    assert (problem["reason"], problem["node"], problem["pod"]) == ("WritesFail", "", "")
    assert REFUSAL in problem["message"]
    assert (document["reason"], document["message"]) == ("WritesFail", problem["message"])


@pytest.mark.parametrize(("after", "code"), [("10s", 3), ("0", 4)])
def test_who_waited_in_vain_for_writes_that_fail_is_told_why(unwritable: Scene, after: str, code: int) -> None:
    ran = unwritable.run(*STATUS, "-w", "--timeout", after)
    error = next(line for line in ran.err.splitlines() if line.startswith("error: "))
    assert (ran.code, REFUSAL in error) == (code, True), ran.err


def test_who_uses_the_budget_stands_by_name_and_what_is_waited_for_in_update_order() -> None:
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
