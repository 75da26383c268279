"""`pause`, `resume` and `restart`: what they write and say, and what is seen of a pause."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from controller.api.objects import rfc3339
from tests.beds.api import DAEMONSETS
from tests.plugin import scene as scenes
from tests.plugin.scene import Scene, canary, healthy, on_delete, paused
from tests.plugin.verbs.few_nodes import acted, patches, rolling_of, stored


def test_the_mock_up() -> None:
    with canary() as scene:
        scene.check("acting/pause", "pause", "node-agent", "-n", "observability", "--reason", "CVE triage")
        assert rolling_of(stored(scene))["paused"] is True


def test_what_message_8_says_to_type_shows_pods_that_wait_for_deletion() -> None:
    with on_delete() as scene:
        *_, hint = acted(scene, "pause").err.strip().split("kubectl kruise-ds ")
        shown = scene.run(*hint.split(), "-o", "name").out.split()
    assert len(shown) == 24


def test_without_the_right_to_list_revisions_it_names_no_number() -> None:
    with canary() as scene:
        scene.door.forbid("list", "controllerrevisions.apps")
        assert acted(scene, "pause", "--dry-run=client").out.splitlines()[1:] == [
            "  6 of 24 nodes are on the newest revision; no more will be updated",
            "  not stopped: c-03 (already updating), lost pods (they come back as they were),"
            " new nodes (they get an older revision)",
        ]


def test_what_will_happen_is_reported() -> None:
    with paused() as scene:
        scene.check("acting/resume", "resume", "node-agent", "-n", "observability")
        assert rolling_of(stored(scene))["paused"] is False


def test_on_a_terminal_it_is_asked_for_with_a_look_ahead() -> None:
    with healthy() as scene:
        words = ("restart", "node-agent", "-n", "observability")
        scene.check("acting/restart", *words, terminal=True, typed="y\n")
        assert len(patches(scene)) == 1


def test_the_preview_of_a_rollout_that_is_under_way() -> None:
    with canary() as scene:
        words = ("restart", "node-agent", "-n", "observability")
        scene.check("acting/restart-canary", *words, terminal=True, typed="n\n")
        assert patches(scene) == []


HOME = ("-n", scenes.NAMESPACE)
WORDS = 'by alice@example.com: "CVE triage"'
PAUSE = ("pause", "--reason", "CVE triage")


def paused_status(scene: Scene, phase: str) -> str:
    """The block of `status`, once the controller says so."""
    scene.pass_time(2.0)
    assert stored(scene)["status"]["rollout"]["phase"] == phase
    return scene.run("status", scenes.NAME, *HOME).out


@pytest.mark.parametrize(("opened", "phase"), [(scenes.held, "Held"), (scenes.healthy, "Healthy")])
def test_every_verb_shows_it(opened: Callable[[], AbstractContextManager[Scene]], phase: str) -> None:
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


def test_a_pause_without_a_note_is_shown_too() -> None:
    with scenes.held() as scene:
        scene.do(scene.edit({"spec": scenes.rolling(paused=True)}))
        block = paused_status(scene, "Held")
        assert "  Paused     nothing more is rolled out before resume\n" in block
        assert "Held 8/8 updated: partition 16 keeps 16 old; paused" in acted(scene, "status", "-w").out


def test_who_paused_it_is_known_until_it_is_resumed() -> None:
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
    """A user resumes, and pauses again, with kubectl: the note is still there, and of another pause."""
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
