"""A webhook stores something else than a verb asked for, as that of kruise-rollouts does."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.simulator.cluster import Attempt
from tests.plugin.scene import NAME, NAMESPACE, Scene, held
from tests.plugin.verbs.few_nodes import few_nodes

IN_HAND = {"rollouts.kruise.io/in-progressing": '{"rolloutName":"canary"}'}
DRIVES = '; Rollout "canary" of kruise-rollouts drives it'
HOME = ("-n", NAMESPACE)


def hold(attempt: Attempt) -> None:
    """Each edit of the template gets the highest partition, and the annotation."""
    one = attempt.object
    if attempt.kind.plural == "daemonsets" and attempt.verb == "update" and not attempt.subresource:
        one["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 32767
        one["metadata"].setdefault("annotations", {}).update(IN_HAND)


@pytest.mark.parametrize("dry", [(), ("--dry-run=server",)], ids=["written", "dry run"])
def test_a_rollback_that_moves_no_node_says_so_and_fails(dry: tuple[str, ...]) -> None:
    with held() as scene:
        scene.cluster.admission.append(hold)
        ran = scene.run("rollback", NAME, "-y", *dry, *HOME)
        stored = scene.do(scene.api.get(DAEMONSETS, NAME))["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
    assert ran.code == 8, ran
    assert f"error: {NAME}: the server stored partition 32767, not 0{DRIVES}\n" in ran.err
    assert (stored == 32767) is not dry
    assert "partition" not in ran.out


def test_a_template_that_is_held_is_what_was_asked_for_but_reported() -> None:
    with few_nodes() as scene:
        scene.cluster.admission.append(hold)
        ran = scene.run("set-image", NAME, "agent=registry.example.com/agent:9", "-y", *HOME)
        image = _image(scene)
    assert (ran.code, image) == (0, "registry.example.com/agent:9"), ran
    assert f"warning: {NAME}: the server stored partition 32767, not 0{DRIVES}\n" in ran.err


def test_an_image_that_is_taken_back_fails() -> None:
    def mirror(attempt: Attempt) -> None:
        if attempt.kind.plural == "daemonsets" and attempt.verb == "update" and not attempt.subresource:
            attempt.object["spec"]["template"]["spec"]["containers"][0]["image"] = "mirror.example.com/agent:1"

    with few_nodes() as scene:
        scene.cluster.admission.append(mirror)
        ran = scene.run("set-image", NAME, "agent=registry.example.com/agent:9", "-y", *HOME)
    assert ran.code == 8, ran
    assert f"error: {NAME}: the server stored another template; admission changed it\n" in ran.err


def _image(scene: Scene) -> str:
    found = scene.do(scene.api.get(DAEMONSETS, NAME))
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])
