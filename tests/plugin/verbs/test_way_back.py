"""`rollback` is hinted at only where it has a revision to go to."""

from __future__ import annotations

from dataclasses import replace

from tests.plugin.kept import story
from tests.plugin.scene import MINUTE, PACE, Scene
from tests.plugin.verbs.few_nodes import acted, few_nodes
from tests.plugin.verbs.test_rollback_target import WORSE, rolled, unrecorded

LOOKS = (("status",), ("status", "-w"), ("promote", "--full"), ("promote", "--full", "--wait"))


@story
def stuck_restart(scene: Scene) -> None:
    """Of the only revision."""
    few_nodes.play(scene)
    scene.pass_time(MINUTE)
    scene.nodes.behave("*", replace(PACE, ready=None))
    assert acted(scene, "restart", "-y").code == 0
    scene.pass_time(1800.0)


def hinted(scene: Scene) -> set[str]:
    """What each of the looks hints at of the two ways."""
    told = [acted(scene, *look) for look in LOOKS]
    assert [one.code for one in told] == [0, 4, 6, 4], told
    return {verb for verb in ("rollback", "history") for one in told if f"kruise-ds {verb} " in one.out + one.err}


def test_after_a_stuck_restart_there_is_no_way_back() -> None:
    with stuck_restart() as scene:
        assert acted(scene, "rollback", "-y").code == 1
        assert hinted(scene) == set()


def test_where_only_a_person_can_choose_it_is_history() -> None:
    """The controller has no record of what was rolled out completely, as after `migrate`."""
    with unrecorded() as scene:
        assert acted(scene, "rollback", "-y").code == 6
        ran = acted(scene, "set-partition", "4")
        assert "raising the partition does not move them back\n  hint: kubectl kruise-ds history " in ran.err


def test_where_it_has_a_target_it_is_rollback() -> None:
    with few_nodes() as scene:
        scene.pass_time(MINUTE)
        scene.nodes.behave("*", replace(PACE, ready=None))
        rolled(scene, WORSE)
        scene.pass_time(1800.0)
        assert acted(scene, "rollback", "-y", "--dry-run=server").code == 0
        assert hinted(scene) == {"rollback"}
