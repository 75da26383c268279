"""What a rollback writes, and which pods it moves, with the real controller."""

from __future__ import annotations

import pytest

from tests.beds.api import NODES
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    PACE,
    Ran,
    Scene,
    canary,
    held,
    on_delete,
    paused,
    rolling,
    settled,
    template,
)
from tests.plugin.verbs.few_nodes import few_nodes, get_between, patches
from tests.plugin.verbs.rolling_back import (
    BAD,
    live,
    moved,
    pods,
    rollback,
    settle,
    written,
)

LIFTED = {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0}


def test_a_canary_goes_back_in_one_guarded_write_and_nobody_else_moves() -> None:
    with canary() as scene:
        before, version = pods(scene), live(scene)["metadata"]["resourceVersion"]
        ran = rollback(scene)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.splitlines()[0] == (
            "daemonset.apps.kruise.io/node-agent rolled back to revision 6 (now revision 8)"
        )
        (operations,) = written(scene)
        assert operations[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        assert operations[1:3] == [{"op": "add", "path": "/spec/template", "value": template("1.8.4")}, LIFTED]
        assert all(one["path"].startswith("/metadata/annotations/") for one in operations[3:])
        settle(scene)
        after = pods(scene)
        assert moved(before, after) == set(BAD)
        assert {pod.image for pod in after.values()} == {"1.8.4"}
        found = live(scene)
        assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0
        assert found["status"]["rollout"]["phase"] == "Healthy"


def test_nothing_that_was_paused_stays_bad() -> None:
    with paused() as scene:
        before = pods(scene)
        ran = rollback(scene)
        assert "also set    partition 8 -> 0" in ran.out
        assert "            paused true -> false   (while paused, no node would move back)" in ran.out
        settle(scene)
        assert moved(before, pods(scene)) == {"c-08", "c-07", "c-06", "c-05", "c-04", "c-03"}
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is False


def selected(scene: Scene) -> None:
    """Revision 7 on c-08 to c-06 by label; then c-07 loses it."""
    label(scene, "canary", "c-08", "c-07", "c-06")
    scene.do(scene.edit({"spec": {**rolling(selector={"matchLabels": {"track": "canary"}}, maxUnavailable=3)}}))
    scene.nodes.behave("*", PACE)
    scene.do(scene.edit({"spec": {"template": template("1.9.0")}}))
    scene.do(scene.until(lambda one: one["status"].get("updatedNumberScheduled") == 3))
    settle(scene)
    label(scene, None, "c-07")


def label(scene: Scene, track: str | None, *names: str) -> None:
    for name in names:
        change = {"metadata": {"labels": {"track": track}}}
        scene.do(scene.api.patch(NODES, name, change, content_type="application/merge-patch+json"))


def test_a_bad_node_that_lost_its_label_is_told_and_stays_bad() -> None:
    with settled() as scene:
        selected(scene)
        before = pods(scene)
        ran = rollback(scene, "--to-revision=6", columns=200)
        assert (
            "  will NOT    1 node: c-07 (rollingUpdate.selector does not match; --drop-selector lifts it)" in ran.out
        )
        settle(scene)
        after = pods(scene)
        assert moved(before, after) == {"c-08", "c-06"}
        assert after["c-07"].image == "1.9.0"


def test_a_partition_that_is_kept_moves_nobody_and_that_is_said() -> None:
    with held() as scene:
        before = pods(scene)
        ran = rollback(scene, "--keep-partition")
        assert ran.code == 0
        assert "  move back   no node\n" in ran.out
        settle(scene)
        assert not moved(before, pods(scene))
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 16


def test_with_on_delete_the_template_goes_back_with_a_warning() -> None:
    with on_delete() as scene:
        before = pods(scene)
        ran = rollback(scene)
        assert ran.code == 0
        assert ran.err == (
            "warning: updateStrategy of node-agent is OnDelete: pods change only when you delete them\n"
            "  hint: kubectl kruise-ds nodes node-agent -n observability --only old\n"
        )
        settle(scene)
        assert live(scene)["spec"]["template"] == template("1.8.4")
        assert not moved(before, pods(scene))


# nothing is written


def test_a_template_put_back_under_the_partition_names_what_keeps_nodes() -> None:
    """The trap: applying the former template alone moves nobody."""
    with held() as scene:
        before = pods(scene)
        scene.do(scene.edit({"spec": {"template": template("1.8.4")}}))
        settle(scene)
        assert not moved(before, pods(scene))
        ran = rollback(scene, "--to-revision", "8")
        assert ran.code == 0
        assert ran.out.startswith("daemonset.apps.kruise.io/node-agent skipped ")
        assert ran.err == (
            "warning: partition 16 keeps 8 nodes from going back: c-08 c-07 c-06 c-05 c-04 c-03 c-02 c-01\n"
            "  hint: kubectl kruise-ds set-partition node-agent 0 -n observability\n"
        )
        assert not written(scene)


def test_it_was_changed_meanwhile() -> None:
    with canary() as scene:
        get_between(scene, lambda: scene.edit({"spec": {"template": template("1.9.1")}}))
        ran = rollback(scene)
        assert ran.code == 6
        assert ran.err == (
            "error: node-agent changed while you were looking (now revision 8, image agent:1.9.1)\n"
            "  hint: run the command again to see the new plan\n"
        )
        assert live(scene)["spec"]["template"] == template("1.9.1")


def test_somebody_else_manages_it() -> None:
    with canary() as scene:
        tracked = {"argocd.argoproj.io/tracking-id": "agents:apps.kruise.io/DaemonSet:observability/node-agent"}
        scene.do(scene.edit({"metadata": {"annotations": tracked}}))
        ran = rollback(scene)
        assert ran.code == 0
        assert ran.err == (
            'warning: node-agent is managed by Argo CD app "agents" (self-heal may revert this);'
            " change it in Git as well\n"
        )


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


def test_nodes_that_a_named_revision_would_update_are_told_apart() -> None:
    with held() as scene:
        image = "agent=registry.example.com/agent:1.9.9"
        scene.run("set-image", NAME, image, "-n", NAMESPACE)
        scene.pass_time(600.0)
        told = rollback(scene, "--to-revision", "7", "--dry-run=client", columns=200).out.splitlines()
        assert told[3] == "  +  image: registry.example.com/agent:1.9.0"
        assert told[4] == "  move back   8 nodes: c-08 c-07 c-06 c-05 c-04 c-03 c-02 c-01"
        assert told[5].startswith("  go forward  16 nodes from an older revision: b-08 b-07 ")
        assert told[6].startswith("  order       c-08 c-07 | c-06 c-05 | ")


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


@pytest.mark.parametrize("chosen", [("-l", "app"), ("--all",), ("node-agent", "net-agent")], ids=" ".join)
def test_a_revision_is_named_of_one_object_only(chosen: tuple[str, ...]) -> None:
    with few_nodes("net-agent") as scene:
        ran = scene.run("rollback", *chosen, "--to-revision", "1", "-y", "-n", NAMESPACE)
        assert (ran.code, patches(scene)) == (2, [])
        assert ran.err == (
            "error: --to-revision is for one DaemonSet, not for 2: each counts its revisions by itself\n"
        )
        assert scene.run("rollback", "-l", "app=net-agent", "--to-revision", "1", "-n", NAMESPACE).code == 0
