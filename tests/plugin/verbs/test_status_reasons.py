"""Why a rollout is where it is: the controller's own reason, in the same words from `status`, `list` and JSON."""

from __future__ import annotations

import json

from tests.kit.api import DAEMONSETS
from tests.plugin.scene import NAME, NAMESPACE, Scene, paused, refused, rolling

STATUS = ("status", NAME, "-n", NAMESPACE)


def told(scene: Scene) -> str:
    return scene.run(*STATUS).out


def test_a_refused_template_that_nobody_waits_for_any_more_is_held() -> None:
    with refused() as scene:
        scene.do(scene.edit({"spec": rolling(partition=24)}))
        scene.pass_time(60.0)
        stored = scene.do(scene.api.get(DAEMONSETS, NAME))["status"]["rollout"]
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
    assert document["phase"] == stored["phase"] == "Held"


def test_a_note_with_a_garbled_time_is_none() -> None:
    with paused() as scene:
        note = '{"verb":"pause","at":"garbage","client":"x"}'
        scene.do(scene.edit({"metadata": {"annotations": {"kruise-ds/last-action": note}}}))
        ran = scene.run(*STATUS)
        listed = scene.run("list", "-n", NAMESPACE)
    assert (ran.code, listed.code) == (0, 0), ran.err + listed.err
    assert "  Paused     3h ago\n" in ran.out
