"""set-image: the template and, with --hold-at, the partition in one write."""

from __future__ import annotations

import pytest

from tests.beds.api import REVISIONS
from tests.plugin.playing import Ran
from tests.plugin.scene import Scene, healthy
from tests.plugin.verbs.few_nodes import HOME, acted, images, patches, stored

NEW = "registry.example.com/agent:2.0.0"


def test_held_at_a_partition_no_node_starts_early() -> None:
    with healthy() as scene:
        words = ("set-image", "node-agent", f"agent={NEW}", "--hold-at", "22", "-n", "observability")
        scene.check("acting/set-image", *words)
        assert len(patches(scene)) == 1
        scene.pass_time(600.0)
        assert {node for node, image in images(scene).items() if image == "2.0.0"} == {"c-08", "c-07"}


def test_without_a_hold_all_nodes_follow(scene: Scene) -> None:
    ran = acted(scene, "set-image", f"agent={NEW}", "--reason", "JIRA-7")
    assert ran.out.splitlines()[:5] == [
        "daemonset.apps.kruise.io/node-agent image updated",
        "   spec.template.spec.containers[agent]",
        "  -  image: registry.example.com/agent:1.8.0",
        "  +  image: registry.example.com/agent:2.0.0",
        "  4 of 4 nodes get revision 2: a-04 … a-01, 2 at a time",
    ]
    scene.pass_time(600.0)
    assert set(images(scene).values()) == {"2.0.0"}
    newest = max(scene.do(scene.api.list(REVISIONS)), key=lambda one: int(one["revision"]))
    assert newest["metadata"]["annotations"]["kubernetes.io/change-cause"] == "JIRA-7"


def test_the_reason_of_the_last_change_is_not_that_of_this_one(scene: Scene) -> None:
    acted(scene, "set-image", f"agent={NEW}", "--reason", "JIRA-7")
    acted(scene, "set-image", "agent=registry.example.com/agent:2.0.1")
    assert "kubernetes.io/change-cause" not in stored(scene)["metadata"]["annotations"]
    scene.pass_time(600.0)
    newest = max(scene.do(scene.api.list(REVISIONS)), key=lambda one: int(one["revision"]))
    assert "kubernetes.io/change-cause" not in newest["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("node-agent",), "which image? use set-image NAME CONTAINER=IMAGE, or *=IMAGE"),
        (("node-agent", "agent="), 'invalid image "agent=": use CONTAINER=IMAGE, or *=IMAGE'),
        ((f"agent={NEW}",), "which one? give a name, -l LABELS or --all"),
        (
            ("node-agent", f"agent={NEW}", "--hold-at", "many"),
            'invalid --hold-at "many": use a number (0 or more) or a percentage from 0% to 100%',
        ),
    ],
)
def test_wrong_usage(scene: Scene, words: tuple[str, ...], error: str) -> None:
    assert scene.run("set-image", *words, *HOME) == Ran(2, "", f"error: {error}\n")
    assert patches(scene) == []
