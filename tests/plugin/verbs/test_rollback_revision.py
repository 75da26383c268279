"""To which revision a rollback goes, and what it says where there is none to go back to."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS
from tests.plugin.scene import NAME, NAMESPACE, Ran, canary, daemonset, held, opened, template
from tests.plugin.verbs.rolling_back import live, moved, pods, rollback, settle, written


def test_nothing_to_roll_back_to() -> None:
    with opened() as scene:
        scene.do(scene.api.create(DAEMONSETS, daemonset()))
        scene.do(scene.until(lambda one: bool((one.get("status") or {}).get("observedGeneration"))))
        ran = rollback(scene)
        assert (ran.code, ran.err) == (1, "error: node-agent has only revision 1; there is no earlier revision\n")


def test_an_unknown_revision() -> None:
    with canary() as scene:
        ran = rollback(scene, "--to-revision", "3")
        kept = "error: revision 3 of node-agent is not kept; kept: 4, 5, 6, 7 (revisionHistoryLimit 3)\n"
        assert (ran.code, ran.err) == (1, kept)


def test_a_revision_that_no_node_runs_any_more_is_not_gone_back_to() -> None:
    """Revision 7 was on 8 nodes; these have 8 now, and all others 6."""
    with held() as scene:
        image = "agent=registry.example.com/agent:1.9.9"
        assert scene.run("set-image", NAME, image, "-n", NAMESPACE).code == 0
        scene.pass_time(600.0)
        before = pods(scene)
        assert sorted({pod.image for pod in before.values()}) == ["1.8.4", "1.9.9"]
        ran = rollback(scene)
        assert ran.out.startswith("daemonset.apps.kruise.io/node-agent rolled back to revision 6 (now revision 9)\n")
        settle(scene)
        after = pods(scene)
        assert {pod.image for pod in after.values()} == {"1.8.4"}
        assert moved(before, after) == {f"c-0{number}" for number in range(1, 9)}


def test_without_the_right_to_list_pods_it_warns_that_it_cannot_know() -> None:
    with canary() as scene:
        scene.door.forbid("list", "pods")
        text = "warning: the pods cannot be listed: revision 6 is the newest older one, nodes may never have run it\n"
        ran = rollback(scene, "--dry-run=client")
        assert (ran.code, ran.err) == (0, f"{text}  hint: --to-revision names another one\n")
        assert rollback(scene, "--to-revision", "6", "--dry-run=client").err == ""


def test_nodes_that_a_named_revision_would_update_are_told_apart() -> None:
    with held() as scene:
        image = "agent=registry.example.com/agent:1.9.9"
        scene.run("set-image", NAME, image, "-n", NAMESPACE)
        scene.pass_time(600.0)
        told = rollback(scene, "--to-revision", "7", "--dry-run=client", columns=200).out.splitlines()
        assert told[1] == "  move back   8 nodes: c-08 c-07 c-06 c-05 c-04 c-03 c-02 c-01"
        assert told[2].startswith("  go forward  16 nodes from an older revision: b-08 b-07 ")
        assert told[3].startswith("  order       c-08 c-07 | c-06 c-05 | ")


SECOND = Ran(
    0,
    "daemonset.apps.kruise.io/node-agent already rolled back to revision 8\n",
    "note: to go to revision 7 instead: --to-revision 7\n",
)


def test_a_double_press_does_not_bring_the_abandoned_revision_back() -> None:
    with canary() as scene:
        assert rollback(scene).code == 0
        assert rollback(scene) == SECOND
        assert len(written(scene)) == 1


def test_a_later_one_does_not_bring_the_abandoned_revision_back() -> None:
    with canary() as scene:
        rollback(scene)
        settle(scene)
        before = pods(scene)
        assert rollback(scene) == SECOND
        scene.pass_time(600.0)
        assert pods(scene) == before


def test_after_a_rollback_the_abandoned_revision_may_be_named() -> None:
    with canary() as scene:
        rollback(scene)
        ran = rollback(scene, "--to-revision", "7")
        assert ran.out.startswith("daemonset.apps.kruise.io/node-agent rolled back to revision 7")
        assert live(scene)["spec"]["template"] == template("1.9.0")


@pytest.mark.parametrize("way", [[], ["--to-revision", "6"]], ids=["the one before", "a named one"])
def test_without_the_right_to_list_revisions(way: list[str]) -> None:
    with canary() as scene:
        scene.door.forbid("list", "controllerrevisions.apps")
        ran = rollback(scene, *way)
        first = ran.err.splitlines()[0]
        assert (ran.code, ran.out) == (1, "")
        assert first.startswith("Error from server (Forbidden): ")
        assert 'cannot list resource "controllerrevisions' in first
        assert not written(scene)
