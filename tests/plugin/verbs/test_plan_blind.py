"""`plan` with fewer rights, and where the server refuses the pods: what it still says, and of what it warns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.refusal import Refused
from tests.plugin import scene as scenes
from tests.plugin.scene import Scene, canary, daemonset, settled
from tests.plugin.verbs.planning import document, manifest, plan, waves, written


def test_without_the_right_to_create_pods_the_template_is_not_checked() -> None:
    with canary() as scene:
        scene.door.forbid("create", "pods")
        (check,) = [one for one in document(scene)["checks"] if one["name"] == "TemplateDryRun"]
        assert (check["result"], check["text"]) == (
            "skipped",
            "server dry-run of the pod template: no right to create pods",
        )


def test_without_the_right_to_change_it_a_try_is_not_checked_by_the_server() -> None:
    with canary() as scene:
        scene.door.forbid("patch", "daemonsets.apps.kruise.io")
        ran = plan(scene, "--partition", "8")
        assert ran.code == 0
        assert ran.err == "note: not checked by the server: no right to change the DaemonSet\n"
        assert "what if  partition 16 → 8" in ran.out


def test_without_the_right_to_create_it_a_new_one_is_planned_all_the_same(tmp_path: Path) -> None:
    with settled() as scene:
        scene.door.forbid("create", "daemonsets.apps.kruise.io")
        ran = scene.run("plan", "-f", written(tmp_path, manifest(name="other")), "-o", "json")
        assert (ran.code, ran.err) == (0, "note: not checked by the server: no right to change the DaemonSet\n")
        found = msgspec.json.decode(ran.out)
        assert [len(wave) for wave in waves(found)] == [24]
        assert {one["name"]: one["result"] for one in found["checks"]}["TemplateDryRun"] == "skipped"


def test_without_the_right_to_list_nodes_those_with_pods_stand_for_all() -> None:
    with canary() as scene:
        scene.door.forbid("list", "nodes")
        found = document(scene)
        assert waves(found) == [["c-02"], ["c-01"]]
        (check,) = [one for one in found["checks"] if one["name"] == "MissingRights"]
        assert check["text"].startswith("no right to list nodes: ")


def test_without_the_right_to_list_pods_there_is_no_plan() -> None:
    with canary() as scene:
        scene.door.forbid("list", "pods")
        ran = plan(scene)
        assert (ran.code, ran.out, ran.err) == (
            1,
            "",
            "error: a plan for node-agent needs the right to list pods in namespace observability\n",
        )


def test_a_template_that_the_server_refuses_moves_nobody() -> None:
    with scenes.refused() as scene:
        found = document(scene)
        assert (found["wouldChange"], waves(found)) == (False, [])
        assert len(found["kept"]["refused"]) == 24
        (check,) = [one for one in found["checks"] if one["name"] == "TemplateDryRun"]
        assert check["result"] == "failed"
        assert scenes.REFUSAL in check["text"]


@contextmanager
def refused_from_the_start(words: str) -> Iterator[Scene]:
    def admission(attempt: Attempt) -> None:
        if attempt.kind.plural == "pods" and attempt.verb == "create":
            raise Refused(403, "Forbidden", f'pods "{attempt.name}" is forbidden: {words}')

    with scenes.opened() as scene:
        scene.do(scenes.join(scene))
        scene.cluster.admission.append(admission)
        scene.do(scene.api.create(DAEMONSETS, daemonset()))
        scene.pass_time(60.0)
        yield scene


@pytest.mark.parametrize("words", [scenes.REFUSAL, "exceeded quota: pods"], ids=["policy", "quota"])
@pytest.mark.parametrize("may_ask", [True, False])
def test_a_first_deployment_whose_pods_are_refused_promises_none(words: str, may_ask: bool) -> None:
    """By the dry run, or by what the controller was told: without the right to ask, or where no dry run tells."""
    with refused_from_the_start(words) as scene:
        if not may_ask:
            scene.door.forbid("create", "pods")
        found = document(scene)
        assert (found["wouldChange"], waves(found), found["end"]["updated"]) == (False, [], 0)
        assert found["end"]["phase"] != "Healthy"
        assert len(found["kept"]["refused"]) == 24
        (failed,) = [one for one in found["checks"] if one["result"] == "failed"]
        assert words in failed["text"]
        assert "Effect     nothing happens until the server accepts its pods\n" in plan(scene).out
