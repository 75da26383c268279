"""What a rollback writes, and which pods it moves, with the real controller."""

from __future__ import annotations

from tests.beds.api import NODES, REVISIONS, Object
from tests.plugin.scene import NAME, PACE, Scene, canary, held, on_delete, paused, rolling, settled, surge, template
from tests.plugin.verbs.few_nodes import get_between
from tests.plugin.verbs.rolling_back import (
    BAD,
    Seen,
    as_seen,
    live,
    live_pods,
    moved,
    pods,
    rollback,
    settle,
    written,
)

LIFTED = {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0}


def every_pod(scene: Scene) -> set[Seen]:
    """All live pods."""
    return {as_seen(pod) for pod in live_pods(scene)}


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


def test_the_revision_gets_the_number_that_was_told() -> None:
    with canary() as scene:
        rollback(scene)
        settle(scene)
        revisions = scene.do(scene.api.list(REVISIONS))
        newest = max(revisions, key=lambda one: one["revision"])
        assert newest["revision"] == 8
        image = newest["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image == "registry.example.com/agent:1.8.4"


def test_those_that_are_down_go_at_once_and_the_others_when_these_are_well() -> None:
    """What the preview says is what the controller does."""
    with canary() as scene:
        before = pods(scene)
        rollback(scene)
        scene.pass_time(20.0)
        assert moved(before, pods(scene)) == {"c-04", "c-03"}
        settle(scene)
        assert moved(before, pods(scene)) == set(BAD)


def test_keys_that_were_added_since_are_gone_and_so_is_a_stray_patch_key() -> None:
    with canary() as scene:
        grown: Object = template("1.9.1")
        grown["$patch"] = "replace"
        grown["metadata"] = {"labels": {"app": NAME, "added": "since"}, "annotations": {"demo/added": "since"}}
        grown["spec"] = {**grown["spec"], "hostNetwork": True, "nodeSelector": {"kubernetes.io/arch": "amd64"}}
        scene.do(scene.edit({"spec": {"template": grown}}))
        assert rollback(scene, "--to-revision", "6").code == 0
        assert live(scene)["spec"]["template"] == template("1.8.4")


def test_nothing_that_was_paused_stays_bad() -> None:
    with paused() as scene:
        before = pods(scene)
        ran = rollback(scene)
        assert "also set    partition 8 -> 0" in ran.out
        assert "            paused true -> false   (while paused, no node would move back)" in ran.out
        settle(scene)
        assert moved(before, pods(scene)) == {"c-08", "c-07", "c-06", "c-05", "c-04", "c-03"}
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is False


def test_with_surge_old_pods_that_are_still_there_stay() -> None:
    with surge() as scene:
        before = {one for one in every_pod(scene) if one.image == "1.8.4"}
        assert len(before) == 20
        assert rollback(scene).code == 0
        settle(scene)
        after = every_pod(scene)
        assert {one.image for one in after} == {"1.8.4"}
        assert len(after) == 24
        assert before <= after


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
        ran = rollback(scene, columns=200)
        assert (
            "  will NOT    1 node: c-07 (rollingUpdate.selector does not match; --drop-selector lifts it)" in ran.out
        )
        settle(scene)
        after = pods(scene)
        assert moved(before, after) == {"c-08", "c-06"}
        assert after["c-07"].image == "1.9.0"


def test_with_drop_selector_it_goes_back_too() -> None:
    with settled() as scene:
        selected(scene)
        before = pods(scene)
        ran = rollback(scene, "--drop-selector", columns=200)
        assert "  also set    selector removed   (with it, only 2 nodes would move back)" in ran.out
        settle(scene)
        assert moved(before, pods(scene)) == {"c-08", "c-07", "c-06"}
        assert "selector" not in live(scene)["spec"]["updateStrategy"]["rollingUpdate"]


def test_a_partition_that_is_kept_moves_nobody_and_that_is_said() -> None:
    with held() as scene:
        before = pods(scene)
        ran = rollback(scene, "--keep-partition")
        assert ran.code == 0
        assert "  move back   no node\n" in ran.out
        settle(scene)
        assert not moved(before, pods(scene))
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 16


def test_with_on_delete_the_template_goes_back_and_a_warning_says_that_pods_do_not() -> None:
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


def test_where_the_template_is_as_wanted_nothing_is_written() -> None:
    with canary() as scene:
        ran = rollback(scene, "--to-revision", "7")
        assert (ran.code, ran.out, ran.err) == (
            0,
            "daemonset.apps.kruise.io/node-agent skipped (template already equals revision 7)\n",
            "",
        )
        assert not written(scene)


def test_a_template_that_somebody_put_back_under_the_partition_is_told_what_keeps_the_bad_nodes() -> None:
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
