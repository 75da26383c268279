"""rollback against the real controller: what was written, and which pods it moved."""

from __future__ import annotations

import copy
import subprocess
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, NODES, PODS, REVISIONS, Object
from tests.beds.manifests import MANIFESTS
from tests.plugin.scene import (
    NAMESPACE,
    PACE,
    Ran,
    Scene,
    canary,
    daemonset,
    held,
    on_delete,
    opened,
    paused,
    rolling,
    settled,
    surge,
    template,
)
from tests.plugin.verbs.few_nodes import get_between

NAME = "node-agent"
BAD = ("c-08", "c-07", "c-06", "c-05", "c-04", "c-03")
"""The nodes that have revision 7 in the canary."""
LIFTED = {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0}


class Seen(NamedTuple):
    name: str
    uid: str
    image: str


def rollback(scene: Scene, *arguments: str, **options: Any) -> Ran:
    """Where nobody is asked, with -y."""
    agreed = () if options.get("terminal") else ("-y",)
    return scene.run("rollback", NAME, "-n", NAMESPACE, *arguments, *agreed, **options)


def live(scene: Scene) -> Object:
    return scene.do(scene.api.get(DAEMONSETS, NAME))


def every_pod(scene: Scene) -> set[Seen]:
    """All live pods."""
    return {_seen(pod) for pod in _live(scene)}


def pods(scene: Scene) -> dict[str, Seen]:
    """The live pod of each node."""
    return {pod["spec"]["nodeName"]: _seen(pod) for pod in _live(scene)}


def _live(scene: Scene) -> list[Object]:
    return [pod for pod in scene.do(scene.api.list(PODS)) if not pod["metadata"].get("deletionTimestamp")]


def _seen(pod: Object) -> Seen:
    meta, image = pod["metadata"], pod["spec"]["containers"][0]["image"]
    return Seen(meta["name"], meta["uid"], image.rpartition(":")[2])


def settle(scene: Scene) -> None:
    """Every node gets well, and the controller has nothing left to do."""
    for name in ("*", *BAD):
        scene.nodes.behave(name, PACE)
    scene.do(scene.until(lambda one: one["status"]["observedGeneration"] == one["metadata"]["generation"]))
    scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] in ("Healthy", "Held", "Paused", "Manual")))


def moved(before: dict[str, Seen], after: dict[str, Seen]) -> set[str]:
    """Nodes that have another pod than before."""
    return {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}


def written(scene: Scene) -> list[list[Object]]:
    """The patches of DaemonSets that the plugin sent, dry runs left out."""
    sent = scene.door.link.writes("daemonsets.apps.kruise.io")
    return [
        msgspec.json.decode(one.request.body or b"") for one in sent if ("dryRun", "All") not in one.request.query
    ]


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


@pytest.mark.parametrize("way", ["client", "server"])
def test_a_dry_run_tells_all_and_changes_nothing(way: str) -> None:
    with canary() as scene:
        before = live(scene)
        ran = rollback(scene, f"--dry-run={way}", "-o", "json")
        shown = msgspec.json.decode(ran.out)
        assert (ran.code, ran.err) == (0, "")
        assert shown["spec"]["template"] == template("1.8.4")
        assert shown["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0
        assert live(scene) == before
        assert not written(scene)


def test_at_a_terminal_no_is_the_default_answer() -> None:
    with canary() as scene:
        ran = rollback(scene, terminal=True, typed="\n")
        assert ran.code == 6
        assert ran.out == ""
        assert ran.err.endswith("Continue? [y/N] nothing was changed\n")
        assert not written(scene)


def test_at_a_terminal_yes_does_it_and_tells_it_in_one_line() -> None:
    with canary() as scene:
        ran = rollback(scene, terminal=True, typed="y\n")
        assert ran.code == 0
        assert ran.out == "daemonset.apps.kruise.io/node-agent rolled back to revision 6 (now revision 8)\n"
        assert len(written(scene)) == 1


def test_several_go_ahead_only_with_yes() -> None:
    with canary() as scene:
        other = copy.deepcopy(daemonset())
        other["metadata"] = {"name": "other"}
        other["spec"]["selector"] = {"matchLabels": {"app": "other"}}
        other["spec"]["template"]["metadata"] = {"labels": {"app": "other"}}
        scene.do(scene.api.create(DAEMONSETS, other))
        ran = scene.run("rollback", "--all", "-n", NAMESPACE)
        assert ran.code == 6
        assert not written(scene)
        ran = scene.run("rollback", "--all", "-n", NAMESPACE, "--yes", "-q")
        assert ran.code == 1
        assert ran.out == "daemonset.apps.kruise.io/node-agent rolled back to revision 6 (now revision 8)\n"
        assert ran.err == "error: other has only revision 1; there is no earlier revision\n"


# its messages


def test_message_9_nothing_to_roll_back_to() -> None:
    with opened() as scene:
        scene.do(scene.api.create(DAEMONSETS, daemonset()))
        scene.do(scene.until(lambda one: bool((one.get("status") or {}).get("observedGeneration"))))
        ran = rollback(scene)
        assert (ran.code, ran.err) == (1, "error: node-agent has only revision 1; there is no earlier revision\n")


def test_message_10_an_unknown_revision() -> None:
    with canary() as scene:
        ran = rollback(scene, "--to-revision", "3")
        kept = "error: revision 3 of node-agent is not kept; kept: 4, 5, 6, 7 (revisionHistoryLimit 3)\n"
        assert (ran.code, ran.err) == (1, kept)


def test_message_12_it_was_changed_meanwhile() -> None:
    with canary() as scene:
        get_between(scene, lambda: scene.edit({"spec": {"template": template("1.9.1")}}))
        ran = rollback(scene)
        assert ran.code == 6
        assert ran.err == (
            "error: node-agent changed while you were looking (now revision 8, image agent:1.9.1)\n"
            "  hint: run the command again to see the new plan\n"
        )
        assert live(scene)["spec"]["template"] == template("1.9.1")


def test_message_13_somebody_else_manages_it() -> None:
    with canary() as scene:
        tracked = {"argocd.argoproj.io/tracking-id": "agents:apps.kruise.io/DaemonSet:observability/node-agent"}
        scene.do(scene.edit({"metadata": {"annotations": tracked}}))
        ran = rollback(scene)
        assert ran.code == 0
        assert ran.err == (
            'warning: node-agent is managed by Argo CD app "agents" (self-heal may revert this);'
            " change it in Git as well\n"
        )


# never further than people want


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
def test_message_11_without_the_right_to_list_revisions(way: list[str]) -> None:
    with canary() as scene:
        scene.door.forbid("list", "controllerrevisions.apps")
        ran = rollback(scene, *way)
        first = ran.err.splitlines()[0]
        assert (ran.code, ran.out) == (1, "")
        assert first.startswith("Error from server (Forbidden): ")
        assert 'cannot list resource "controllerrevisions' in first
        assert not written(scene)


# looks


@pytest.mark.parametrize("columns", [80, 200])
def test_the_question(columns: int) -> None:
    with canary() as scene:
        scene.check(
            f"rollback/question-{columns}",
            "rollback",
            NAME,
            "-n",
            NAMESPACE,
            columns=columns,
            terminal=True,
            typed="y\n",
        )


@pytest.mark.parametrize("columns", [80, 200])
def test_what_is_told_where_nobody_is_asked(columns: int) -> None:
    with canary() as scene:
        scene.check(f"rollback/told-{columns}", "undo", NAME, "-n", NAMESPACE, "-y", columns=columns)


def test_the_pause_of_another_person_is_not_lifted_where_nobody_is_asked() -> None:
    with paused() as scene:
        scene.door.user = "pipeline"
        refused = rollback(scene)
        assert (refused.code, written(scene)) == (6, [])
        assert 'node-agent is paused by alice@example.com: "CVE triage"; a rollback would lift that' in refused.err
        assert rollback(scene, "--dry-run=server").code == 0
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
        assert rollback(scene, "--lift-pause").code == 0
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is False


def test_neither_is_one_that_nobody_noted_nor_any_by_somebody_unknown() -> None:
    with held() as scene:
        scene.do(scene.edit({"spec": rolling(paused=True)}))
        assert rollback(scene).code == 6
    with paused() as scene:
        scene.door.user = ""
        assert rollback(scene).code == 6
        assert written(scene) == []


def test_who_sees_the_question_or_keeps_the_pause_is_not_refused() -> None:
    with paused() as scene:
        scene.door.user = "bob@example.com"
        ran = rollback(scene, terminal=True, typed="y\n")
        assert ran.code == 0
        assert "paused true -> false" in ran.err
    with paused() as scene:
        scene.door.user = "pipeline"
        assert rollback(scene, "--keep-paused").code == 0
        assert live(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True


def recipe(code: int) -> tuple[int, list[str]]:
    """The README's recipe, where the change ends so: its exit code, and the verbs that it called."""
    readme = (MANIFESTS.parent / "README.md").read_text()
    (script,) = (one for one in readme.split("```")[1::2] if "kubectl kruise-ds set-image" in one)
    fake = f'kubectl() {{ echo "$2"; [ "$2" != set-image ] || return {code}; }}'
    ended = subprocess.run(
        ["sh", "-ec", f"{fake}\n{script}"], capture_output=True, text=True, check=False, timeout=60
    )
    return ended.returncode, ended.stdout.split()


def test_the_recipe_for_pipelines_rolls_back_only_what_will_not_finish_by_itself() -> None:
    for code in (1, 2, 3, 5, 6, 130):
        assert recipe(code) == (code, ["set-image"])
    assert recipe(4) == (4, ["set-image", "rollback"])
    assert recipe(0) == (0, ["set-image"])
