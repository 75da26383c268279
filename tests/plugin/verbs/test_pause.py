"""pause: no further node is updated, and it says what goes on all the same."""

from __future__ import annotations

from tests.beds.api import PODS
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import canary, on_delete
from tests.plugin.verbs.few_nodes import acted, patches, rolling_of, stored


def images(scene: Scene) -> dict[str, str]:
    """By node."""
    pods = scene.do(scene.api.list(PODS))
    return {pod["spec"]["nodeName"]: pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods}


def test_the_mock_up() -> None:
    with canary() as scene:
        scene.check("acting/pause", "pause", "node-agent", "-n", "observability", "--reason", "CVE triage")
        assert rolling_of(stored(scene))["paused"] is True


def test_nothing_more_is_updated_and_a_new_node_gets_what_was_said() -> None:
    with canary() as scene:
        ran = acted(scene, "pause")
        assert "new nodes (they get revision 6)" in ran.out
        before = images(scene)
        scene.do(scene.edit({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
        scene.do(scene.nodes.add("d-01"))
        scene.pass_time(600.0)
        assert images(scene) == {**before, "d-01": "1.8.4"}


def test_a_lost_pod_comes_back_as_it_was() -> None:
    with canary() as scene:
        assert "lost pods (they come back as they were)" in acted(scene, "pause").out
        before = images(scene)
        for node in ("c-08", "a-01"):
            pod = scene.do(scene.pod_on(node))
            scene.do(scene.api.delete(PODS, pod["metadata"]["name"]))
        scene.pass_time(600.0)
        assert (before["c-08"], before["a-01"]) == ("1.9.0", "1.8.4")
        assert images(scene) == before


def test_on_delete() -> None:
    with on_delete() as scene:
        assert acted(scene, "pause") == Ran(
            6,
            "",
            "error: cannot pause node-agent: updateStrategy is OnDelete, pods change only when you delete them\n"
            "  hint: kubectl kruise-ds nodes node-agent -n observability --only old\n",
        )
        assert patches(scene) == []


def test_what_message_8_says_to_type_shows_the_pods_that_wait_to_be_deleted() -> None:
    with on_delete() as scene:
        *_, hint = acted(scene, "pause").err.strip().split("kubectl kruise-ds ")
        shown = scene.run(*hint.split(), "-o", "name").out.split()
    assert len(shown) == 24


def test_who_may_not_look_at_pods_or_nodes_can_pause_all_the_same() -> None:
    with canary() as scene:
        for resource in ("pods", "nodes", "controllerrevisions.apps"):
            scene.door.forbid("list", resource)
        ran = acted(scene, "pause")
        assert ran == Ran(0, "daemonset.apps.kruise.io/node-agent paused\n", "")
        assert rolling_of(stored(scene))["paused"] is True


def test_without_the_right_to_list_revisions_it_names_no_number() -> None:
    with canary() as scene:
        scene.door.forbid("list", "controllerrevisions.apps")
        assert acted(scene, "pause", "--dry-run=client").out.splitlines()[1:] == [
            "  6 of 24 nodes are on the newest revision; no more will be updated",
            "  not stopped: c-03 (already updating), lost pods (they come back as they were),"
            " new nodes (they get an older revision)",
        ]
