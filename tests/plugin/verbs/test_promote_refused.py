"""When `promote` refuses, and in which words."""

from __future__ import annotations

import pytest

from tests.plugin.scene import canary, first_deployment, healthy, held, on_delete, paused, refused, stalled
from tests.plugin.verbs.promoting import LINE, WHERE, partition, promote, written


def test_a_step_that_is_not_finished_is_not_left() -> None:
    with stalled() as scene:
        ran = promote(scene)
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == (
            "error: step 2 is not finished: 7 of 8 nodes updated, c-04 CrashLoopBackOff\n"
            f"  hint: --force goes on anyway; kubectl kruise-ds rollback {WHERE} goes back\n"
        )
        assert not written(scene)


def test_with_force_it_is_left_all_the_same() -> None:
    with stalled() as scene:
        ran = promote(scene, "--force")
        assert (ran.code, ran.err) == (0, "warning: c-04 is failing on revision 7\n")
        assert partition(scene) == 8


def test_a_template_that_the_server_refuses_is_told_in_its_words() -> None:
    with refused() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.startswith("error: step 4 is not finished: 0 of 24 nodes updated, ")
        assert 'violates PodSecurity "restricted"' in ran.err


@pytest.mark.parametrize("way", [["--full", "-y"], ["--to", "8"]])
def test_a_step_that_was_asked_for_by_its_value_needs_the_present_one_finished_too(way: list[str]) -> None:
    with canary() as scene:
        assert promote(scene, *way).code == 6
        assert partition(scene) == 16


def test_what_is_paused_is_not_promoted() -> None:
    with paused() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err == (
            "error: node-agent is paused: 6 of 16 nodes updated\n"
            f"  hint: --force goes on anyway; kubectl kruise-ds resume {WHERE} continues it\n"
        )


def test_with_on_delete_there_are_no_steps() -> None:
    with on_delete() as scene:
        ran = promote(scene, "--full")
        assert ran.code == 6
        assert ran.err == (
            "error: cannot promote node-agent: updateStrategy is OnDelete, pods change only when you delete them\n"
            f"  hint: kubectl kruise-ds nodes {WHERE} --only old\n"
        )


def test_without_steps_it_says_what_to_do() -> None:
    with held() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": None}}}))
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err == (
            "error: node-agent has no steps: it has no annotation kruise-ds/steps\n"
            f"  hint: kubectl annotate ads {WHERE} kruise-ds/steps=90%,50%,0\n"
            f"  hint: or without steps: kubectl kruise-ds promote {WHERE} --to VALUE, or --full\n"
        )


def test_steps_that_are_none_are_named() -> None:
    with held() as scene:
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/steps": "8,16"}}}))
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.startswith(
            'error: annotation kruise-ds/steps="8,16" is not a list of steps: 16 is not smaller than 8\n'
        )


def test_after_the_last_step_there_is_nothing_to_do_and_that_is_no_failure() -> None:
    with healthy() as scene:
        ran = promote(scene)
        assert (ran.code, ran.out, ran.err) == (0, f"{LINE} already promoted fully\n", "")
        assert not written(scene)


@pytest.mark.parametrize(
    "way",
    [
        ["--full", "--to", "8"],
        ["--to", "half"],
        ["--soak", "soon"],
        ["--timeout", "10m"],
        ["--wait", "--dry-run=client"],
    ],
)
def test_what_contradicts_itself_is_wrong_usage(way: list[str]) -> None:
    with held() as scene:
        assert promote(scene, *way).code == 2
        assert not written(scene)


def test_a_soak_that_is_not_over_refuses() -> None:
    with held() as scene:
        ran = promote(scene, "--soak", "30m")
        assert ran.code == 6
        assert ran.err == (
            "error: step 2 is finished, and quiet for 18m of 30m\n"
            "  hint: --force goes on anyway; --wait waits until then\n"
        )
        assert promote(scene, "--soak", "15m").code == 0


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (("pods", "nodes"), "nodes and pods"),
        (("nodes",), "nodes"),
        (("pods",), "pods"),
        (("controllerrevisions.apps",), "controllerrevisions"),
        (("pods", "nodes", "controllerrevisions.apps"), "nodes, controllerrevisions and pods"),
    ],
)
@pytest.mark.parametrize("way", [[], ["--full"], ["--wait"], ["--wait", "--force"]], ids=" ".join)
def test_a_gate_that_cannot_see_stays_closed(kinds: tuple[str, ...], told: str, way: list[str]) -> None:
    with canary() as scene:
        for kind in kinds:
            scene.door.forbid("list", kind)
        ran = promote(scene, *way)
        binding = " by a ClusterRoleBinding: nodes are in no namespace" if "nodes" in kinds else ""
        assert (ran.code, ran.out) == (6, "")
        assert ran.err == (
            f"error: cannot see whether step 2 is finished: no right to list {told}\n"
            f"  hint: --force goes on anyway; ask for ClusterRole kruise-ds-operator{binding}\n"
        )
        assert not written(scene)


def test_where_there_is_no_earlier_revision_no_rollback_is_advised() -> None:
    with first_deployment() as scene:
        ran = promote(scene)
        assert ran.code == 6
        assert ran.err.splitlines()[-1] == "  hint: --force goes on anyway"
