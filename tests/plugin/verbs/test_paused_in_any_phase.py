"""A pause is seen in every phase, with who and why, until somebody resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from controller.api.meta import rfc3339
from tests.beds.api import DAEMONSETS
from tests.plugin import scene as scenes
from tests.plugin.playing import Scene
from tests.plugin.verbs.few_nodes import acted, stored

HOME = ("-n", scenes.NAMESPACE)
WORDS = 'by alice@example.com: "CVE triage"'
PAUSE = ("pause", "--reason", "CVE triage")


def paused_status(scene: Scene, phase: str) -> str:
    """The block of `status`, once the controller says so."""
    scene.pass_time(2.0)
    assert stored(scene)["status"]["rollout"]["phase"] == phase
    return scene.run("status", scenes.NAME, *HOME).out


@pytest.mark.parametrize(("opened", "phase"), [(scenes.held, "Held"), (scenes.healthy, "Healthy")])
def test_it_is_told_wherever_one_looks(opened: Callable[[], AbstractContextManager[Scene]], phase: str) -> None:
    with opened() as scene:
        acted(scene, *PAUSE)
        block = paused_status(scene, phase)
        assert f"  Paused     2s ago {WORDS}\n" in block
        assert "kubectl kruise-ds resume node-agent" in block
        assert "promote" not in block
        assert f"paused {WORDS}" in acted(scene, "status", "-w").out
        assert f"paused {WORDS}" in scene.run("list", *HOME, columns=200).out
        full = acted(scene, "status", "-w", "--require-full")
    assert (full.code, "promote" in full.err) == (0 if phase == "Healthy" else 5, False)


def test_a_pause_that_nobody_noted_is_told_too() -> None:
    with scenes.held() as scene:
        scene.do(scene.edit({"spec": scenes.rolling(paused=True)}))
        block = paused_status(scene, "Held")
        assert "  Paused     nothing more is rolled out before resume\n" in block
        assert "Held 8/8 updated: partition 16 keeps 16 old; paused" in acted(scene, "status", "-w").out


def test_who_paused_it_is_known_until_it_is_resumed_whatever_is_done_meanwhile() -> None:
    with scenes.healthy() as scene:
        acted(scene, *PAUSE)
        for words in (("set-image", "agent=registry.example.com/agent:2.0.0"), ("set-partition", "3")):
            scene.door.user = "bob@example.com"
            assert acted(scene, *words).code == 0
            noted = json.loads(stored(scene)["metadata"]["annotations"]["kruise-ds/last-action"])
            assert (noted["verb"], noted["by"]) == (words[0], "bob@example.com")
            assert WORDS in paused_status(scene, "Paused")
        told = json.loads(acted(scene, "status", "-o", "json").out)["paused"]
        assert (told["by"], told["reason"]) == ("alice@example.com", "CVE triage")
        acted(scene, "resume")
        (found,) = scene.do(scene.api.list(DAEMONSETS))
        assert "pause" not in json.loads(found["metadata"]["annotations"]["kruise-ds/last-action"])


def owner(scene: Scene, manager: str) -> dict[str, object]:
    """An entry of managedFields: `manager` writes the pause now."""
    fields: object = {"f:spec": {"f:updateStrategy": {"f:rollingUpdate": {"f:paused": {}}}}}
    return {"manager": manager, "operation": "Update", "time": rfc3339(scene.now()), "fieldsV1": fields}


def test_a_note_does_not_outlive_the_pause_that_it_tells_of() -> None:
    """Somebody resumes, and pauses again, with kubectl: the note is still there, and of another pause."""
    with scenes.healthy() as scene:
        acted(scene, *PAUSE)
        scene.do(scene.edit({"metadata": {"managedFields": [owner(scene, "kubectl-kruise-ds")]}}))
        assert WORDS in paused_status(scene, "Healthy")
        scene.pass_time(60.0)
        again = owner(scene, "kubectl-edit")
        scene.do(scene.edit({"metadata": {"managedFields": [again]}}))
        block = paused_status(scene, "Healthy")
        assert WORDS not in block
        assert "  Paused " in block
        acted(scene, "set-image", "agent=registry.example.com/agent:2.0.0")
        assert "pause" not in json.loads(stored(scene)["metadata"]["annotations"]["kruise-ds/last-action"])
        refused = acted(scene, "rollback", "-y")
    assert (refused.code, "node-agent is paused; a rollback would lift that" in refused.err) == (6, True)


def test_a_later_action_is_no_other_pause() -> None:
    """It is the same writer's, and moves the time of all that it owns."""
    with scenes.healthy() as scene:
        acted(scene, *PAUSE)
        scene.pass_time(60.0)
        acted(scene, "set-image", "agent=registry.example.com/agent:2.0.0")
        scene.do(scene.edit({"metadata": {"managedFields": [owner(scene, "kubectl-kruise-ds")]}}))
        assert WORDS in paused_status(scene, "Paused")
