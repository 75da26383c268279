"""resume: the rollout goes on, with the nodes that it says are next."""

from __future__ import annotations

from tests.plugin.playing import Ran
from tests.plugin.scene import canary, on_delete, paused
from tests.plugin.verbs.few_nodes import acted, patches, rolling_of, stored
from tests.plugin.verbs.test_pause import images


def test_what_will_happen_is_told() -> None:
    with paused() as scene:
        scene.check("acting/resume", "resume", "node-agent", "-n", "observability")
        assert rolling_of(stored(scene))["paused"] is False


def test_the_nodes_that_were_named_are_updated_next() -> None:
    with paused() as scene:
        ran = acted(scene, "resume")
        assert "10 of 24 nodes get revision 7: c-02 … b-01, 2 at a time" in ran.out
        scene.pass_time(20.0)
        new = {node for node, image in images(scene).items() if image == "1.9.0"}
        assert {"c-02", "c-01"} <= new
        assert "b-08" not in new
        scene.pass_time(600.0)
        new = {node for node, image in images(scene).items() if image == "1.9.0"}
        assert new == {f"{zone}-0{number}" for zone in "bc" for number in range(1, 9)}


def test_nodes_that_take_the_budget_are_named() -> None:
    with canary() as scene:
        acted(scene, "pause")
        ran = acted(scene, "resume")
        assert "2 of 24 nodes get revision 7: c-02, c-01 when c-04, c-03 are available" in ran.out


def test_what_is_not_paused_is_no_error() -> None:
    with canary() as scene:
        assert acted(scene, "resume") == Ran(0, "daemonset.apps.kruise.io/node-agent not paused\n", "")
        assert patches(scene) == []


def test_on_delete() -> None:
    with on_delete() as scene:
        ran = acted(scene, "resume")
        assert ran.code == 6
        assert ran.err.startswith("error: cannot resume node-agent: updateStrategy is OnDelete, pods change only ")
