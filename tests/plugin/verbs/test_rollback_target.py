"""Where a rollback goes: the last revision that was rolled out completely, whatever cannot be read; and where it is
hinted at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.beds.api import DAEMONSETS, REVISIONS
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.plugin.kept import story
from tests.plugin.scene import MINUTE, PACE, Scene, join, rolling, template
from tests.plugin.verbs.few_nodes import acted, few_nodes, patches, rolling_of, stored

GOOD, BAD, WORSE = "1.8.0", "1.9.0", "1.9.1"
FORBIDDEN = Answer(403, "Forbidden", "no right to it")
FAILURES = (Hang(), Hang(3.0), FORBIDDEN, Answer(500, message="etcd is away"))
LISTED = ("pods", "nodes")


@story
def two_canaries(scene: Scene, /, canaries: int = 2) -> None:
    """A bad revision on so many of four nodes, then a worse one on two."""
    few_nodes.play(scene)
    scene.pass_time(MINUTE)
    for version, partition in ((BAD, 4 - canaries), (WORSE, 2)):
        scene.do(scene.edit({"spec": {"template": template(version), **rolling(partition=partition)}}))
        scene.pass_time(300.0)


@contextmanager
def unrecorded() -> Iterator[Scene]:
    """The same, made by a controller that records nothing."""
    with two_canaries() as scene:
        scene.do(scene.controller.stop())
        lost = {"status": {"rollout": {"stableRevision": None}}}
        scene.do(scene.api.patch(DAEMONSETS, "node-agent", lost, sub="status"))
        yield scene


def image(scene: Scene) -> str:
    """The version that the template asks for."""
    name: str = stored(scene)["spec"]["template"]["spec"]["containers"][0]["image"]
    return name.rpartition(":")[2]


@pytest.mark.parametrize("effect", FAILURES, ids=["never", "late", "refused", "failing"])
@pytest.mark.parametrize("what", [("pods",), ("nodes",), LISTED], ids=" and ".join)
def test_it_goes_to_the_stable_revision_whatever_is_not_read(what: tuple[str, ...], effect: Effect) -> None:
    with two_canaries() as scene:
        for one in what:
            scene.door.link.faults.add(Rule(effect, verb="list", resource=one))
        ran = acted(scene, "rollback", "-y")
        assert (ran.code, image(scene)) == (0, GOOD), ran.err
        assert rolling_of(stored(scene))["partition"] == 0


def test_a_late_list_of_revisions_is_waited_for() -> None:
    with two_canaries() as scene:
        scene.door.link.faults.add(Rule(Hang(3.0), verb="list", resource="controllerrevisions*"))
        assert (acted(scene, "rollback", "-y").code, image(scene)) == (0, GOOD)


CHOICE = "".join(
    f"  hint: 10m ago, agent:{image}: kubectl kruise-ds rollback node-agent -n observability --to-revision {number}\n"
    for number, image in ((2, "1.9.0"), (1, "1.8.0"))
).replace("10m ago, agent:1.8.0", "11m ago, agent:1.8.0")


def test_without_a_record_it_is_refused() -> None:
    with unrecorded() as scene:
        ran = acted(scene, "rollback", "-y")
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
        words = "it is unknown which revision node-agent is to go back to: "
        words += "no revision is known to have been rolled out completely\n"
        assert ran.err.endswith(f"error: {words}{CHOICE}")
        assert (acted(scene, "rollback", "-y", "--to-revision", "1").code, image(scene)) == (0, GOOD)


def rolled(scene: Scene, version: str, **limits: object) -> None:
    scene.do(scene.edit({"spec": {"template": template(version), **rolling(**limits)}}))
    scene.pass_time(600.0)


def test_from_the_stable_revision_it_is_the_one_that_was_so_before() -> None:
    with two_canaries() as scene:
        scene.do(scene.edit({"spec": rolling(partition=0)}))
        scene.pass_time(300.0)
        ran = acted(scene, "rollback", "-y", columns=200)
        assert (ran.code, image(scene)) == (0, GOOD)
        assert "it is the one before that was rolled out completely; revision 2 was not" in ran.out
        scene.pass_time(300.0)
        assert acted(scene, "set-image", "*=registry.example.com/agent:1.9.2", "-y").code == 0
        scene.pass_time(300.0)
        assert (acted(scene, "rollback", "-y").code, image(scene)) == (0, GOOD)


def put_back(scene: Scene) -> None:
    """The template is that of revision 1 again."""
    (good,) = [one["data"] for one in scene.do(scene.api.list(REVISIONS)) if one["revision"] == 1]
    del good["spec"]["template"]["$patch"]
    back = [{"op": "replace", "path": "/spec/template", "value": good["spec"]["template"]}]
    scene.do(scene.api.patch(DAEMONSETS, "node-agent", back))


def test_a_restart_is_no_revision_to_go_back_from() -> None:
    with two_canaries() as scene:
        rolled(scene, "2.0.0", partition=0)
        for wait in (1.0, 600.0):
            assert acted(scene, "restart", "-y").code == 0
            scene.pass_time(wait)
            ran = acted(scene, "rollback", "-y", "--dry-run=server", columns=200)
            assert (ran.code, " rolled back to revision 1 (" in ran.out) == (0, True), ran


def test_a_dead_node_does_not_make_it_go_to_an_ancient_one() -> None:
    with few_nodes() as scene:
        scene.do(join(scene, ("a-05",)))
        scene.pass_time(MINUTE)
        scene.do(scene.nodes.lose("a-05"))
        for version in ("2.0.0", "3.0.0"):
            rolled(scene, version, maxUnavailable=2)
        rolled(scene, BAD, partition=4, maxUnavailable=2)
        assert (acted(scene, "rollback", "-y").code, image(scene)) == (0, "3.0.0")


@pytest.mark.parametrize("limits", [{"partition": 1}, {"maxUnavailable": 2}], ids=["partition", "pod never ready"])
def test_after_one_that_only_most_nodes_had_it_is_refused(limits: dict[str, int]) -> None:
    """A person may have held one node for good, or an autoscaler may have added nodes to a canary."""
    with few_nodes() as scene:
        scene.do(join(scene, ("a-05",)))
        scene.pass_time(MINUTE)
        if "partition" not in limits:
            scene.nodes.behave("a-05", replace(PACE, ready=None))
        for version in ("2.0.0", "3.0.0", BAD):
            rolled(scene, version, **limits)
        ran = acted(scene, "rollback", "-y")
        assert (ran.code, image(scene)) == (6, BAD)
        assert "--to-revision" in ran.err


def test_one_that_was_ready_for_a_moment_is_no_target() -> None:
    with few_nodes() as scene:
        scene.pass_time(MINUTE)
        scene.do(scene.edit({"spec": {"template": template(BAD), **rolling(maxUnavailable=4)}}))
        scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] == "Healthy"))
        rolled(scene, WORSE, partition=2)
        assert (acted(scene, "rollback", "-y").code, image(scene)) == (0, GOOD)


@pytest.mark.parametrize("what", LISTED)
def test_a_comparison_with_the_former_revision_needs_no_record(what: str) -> None:
    with unrecorded() as scene:
        scene.door.forbid("list", what)
        ran = acted(scene, "diff")
        heads = [line.split(" (")[0] for line in ran.out.splitlines()[:2]]
        assert (ran.code, heads) == (0, ["--- node-agent revision 2", "+++ node-agent revision 3"])


LOOKS = (("status",), ("status", "-w"))


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
    assert [one.code for one in told] == [0, 4], told
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
