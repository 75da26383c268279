"""What a rollback writes, which pods it moves with the real controller, who is asked before, and whose pause
is lifted."""

from __future__ import annotations

import subprocess
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.beds.api import PODS, Object
from tests.beds.manifests import MANIFESTS
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    Ran,
    Scene,
    canary,
    held,
    on_delete,
    paused,
    rolling,
    template,
)
from tests.plugin.situations import BAD, settle
from tests.plugin.verbs.few_nodes import acted, few_nodes, patches, stored


class Seen(NamedTuple):
    name: str
    uid: str
    image: str


def rollback(scene: Scene, *arguments: str, **options: Any) -> Ran:
    """Without a question, with -y."""
    agreed = () if options.get("terminal") else ("-y",)
    return acted(scene, "rollback", *arguments, *agreed, **options)


def pods(scene: Scene) -> dict[str, Seen]:
    """The live pod of each node."""
    return {pod["spec"]["nodeName"]: as_seen(pod) for pod in live_pods(scene)}


def live_pods(scene: Scene) -> list[Object]:
    return [pod for pod in scene.do(scene.api.list(PODS)) if not pod["metadata"].get("deletionTimestamp")]


def as_seen(pod: Object) -> Seen:
    meta, image = pod["metadata"], pod["spec"]["containers"][0]["image"]
    return Seen(meta["name"], meta["uid"], image.rpartition(":")[2])


def moved(before: dict[str, Seen], after: dict[str, Seen]) -> set[str]:
    """Nodes that have another pod than before."""
    return {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}


def written(scene: Scene) -> list[list[Object]]:
    """The patches of DaemonSets that the plugin sent, dry runs left out."""
    sent = scene.door.link.writes("daemonsets.apps.kruise.io")
    return [
        msgspec.json.decode(one.request.body or b"") for one in sent if ("dryRun", "All") not in one.request.query
    ]


LIFTED = {"op": "add", "path": "/spec/updateStrategy/rollingUpdate/partition", "value": 0}


def test_a_canary_goes_back_in_one_guarded_write_and_no_other_node_moves() -> None:
    with canary() as scene:
        before, version = pods(scene), stored(scene)["metadata"]["resourceVersion"]
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
        found = stored(scene)
        assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0
        assert found["status"]["rollout"]["phase"] == "Healthy"


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
        assert stored(scene)["spec"]["template"] == template("1.8.4")
        assert not moved(before, pods(scene))


# nothing is written


def test_a_template_put_back_under_the_partition_names_what_keeps_nodes() -> None:
    """The trap: applying the former template alone moves no pod."""
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
        assert stored(scene)["spec"]["template"] == template("1.9.0")


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


def test_the_question_and_what_is_printed_without_one() -> None:
    with canary() as scene:
        scene.check("rollback/question", "rollback", NAME, "-n", NAMESPACE, terminal=True, typed="y\n")
    with canary() as scene:
        scene.check("rollback/told", "undo", NAME, "-n", NAMESPACE, "-y")


def test_the_pause_of_another_person_is_not_lifted_without_a_question() -> None:
    with paused() as scene:
        scene.door.user = "pipeline"
        refused = rollback(scene)
        assert (refused.code, written(scene)) == (6, [])
        assert 'node-agent is paused by alice@example.com: "CVE triage"; a rollback would lift that' in refused.err
        assert rollback(scene, "--dry-run=server") == refused
        assert stored(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
        assert rollback(scene, "--lift-pause").code == 0
        assert stored(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is False


def test_neither_is_one_without_a_note_nor_any_by_an_unknown_user() -> None:
    with held() as scene:
        scene.do(scene.edit({"spec": rolling(paused=True)}))
        assert rollback(scene).code == 6
    with paused() as scene:
        scene.door.user = ""
        assert rollback(scene).code == 6
        assert written(scene) == []


def test_two_without_a_user_name_are_not_the_same_person() -> None:
    """A server before 1.28 gives no user name, neither for the pause nor for the rollback."""
    with canary() as scene:
        scene.door.user = ""
        assert scene.run("pause", NAME, "-n", NAMESPACE).code == 0
        refused = rollback(scene)
        assert stored(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True
    assert refused.code == 6
    assert "node-agent is paused by an unknown user; a rollback would lift that" in refused.err


def test_who_sees_the_question_or_keeps_the_pause_is_not_refused() -> None:
    with paused() as scene:
        scene.door.user = "bob@example.com"
        ran = rollback(scene, terminal=True, typed="y\n")
        assert ran.code == 0
        assert "paused true -> false" in ran.err
    with paused() as scene:
        scene.door.user = "pipeline"
        assert rollback(scene, "--keep-paused").code == 0
        assert stored(scene)["spec"]["updateStrategy"]["rollingUpdate"]["paused"] is True


def recipe(code: int) -> tuple[int, list[str]]:
    """The README's recipe, where the change ends so: its exit code, and the verbs that it called."""
    readme = (MANIFESTS.parent / "README.md").read_text()
    (script,) = (one for one in readme.split("```")[1::2] if "kubectl kruise-ds set-image" in one)
    fake = f'kubectl() {{ echo "$2"; [ "$2" != set-image ] || return {code}; }}'
    ended = subprocess.run(
        ["sh", "-ec", f"{fake}\n{script}"], capture_output=True, text=True, check=False, timeout=60
    )
    return ended.returncode, ended.stdout.split()


def test_the_pipeline_recipe_rolls_back_only_what_will_not_finish() -> None:
    for code in (1, 2, 3, 5, 6, 130):
        assert recipe(code) == (code, ["set-image"])
    assert recipe(4) == (4, ["set-image", "rollback"])
    assert recipe(0) == (0, ["set-image"])
