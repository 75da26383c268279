"""Verbs with their words, situations of a small DaemonSet in which each is tried, and the exit codes of scenes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tests.beds.api import DAEMONSETS, NODES
from tests.plugin import scene as scenes
from tests.plugin.kept import story
from tests.plugin.scene import (
    NAME,
    PACE,
    Opened,
    Scene,
    rolling,
    settled,
    start_canary,
    template,
)
from tests.plugin.verbs.few_nodes import few_nodes, stop_serving

IMAGE = "agent=registry.example.com/agent:2.0.0"
WAIT = ("--wait", "--timeout", "90s")
OLD = "old-agent"
"""A native DaemonSet."""


VERBS: Mapping[str, tuple[str, ...]] = {
    "list": ("list",),
    "status": ("status", NAME),
    "status -w": ("status", NAME, "-w", "--timeout", "90s"),
    "status --exit-code": ("status", NAME, "--exit-code"),
    "nodes": ("nodes", NAME),
    "plan": ("plan", NAME),
    "plan --exit-code": ("plan", NAME, "--image", IMAGE, "--exit-code"),
    "history": ("history", NAME),
    "diff": ("diff", NAME),
    "pause": ("pause", NAME),
    "resume": ("resume", NAME),
    "resume --wait": ("resume", NAME, *WAIT),
    "set-partition": ("set-partition", NAME, "1"),
    "set-partition --wait": ("set-partition", NAME, "1", *WAIT),
    "promote": ("promote", NAME),
    "promote --full -y --wait": ("promote", NAME, "--full", "-y", *WAIT),
    "promote --full": ("promote", NAME, "--full"),
    "promote --full -y": ("promote", NAME, "--full", "-y"),
    "retry": ("retry", NAME),
    "rollback": ("rollback", NAME),
    "rollback -y": ("rollback", NAME, "-y"),
    "rollback -y --wait": ("rollback", NAME, "-y", *WAIT),
    "restart": ("restart", NAME),
    "restart -y --wait": ("restart", NAME, "-y", *WAIT),
    "set-image": ("set-image", NAME, IMAGE),
    "set-image --wait": ("set-image", NAME, IMAGE, *WAIT),
    "apply": ("apply", "-f", "MANIFEST"),
    "apply -y --wait": ("apply", "-f", "MANIFEST", "-y", "--hold-at", "2", *WAIT),
    "migrate": ("migrate", OLD),
    "migrate -y": ("migrate", OLD, "-y"),
    "migrate --to-native": ("migrate", NAME, "--to-native"),
    "migrate --to-native -y": ("migrate", NAME, "--to-native", "-y"),
    "pull": ("pull", IMAGE.partition("=")[2], "--timeout", "90s"),
    "pull --no-wait": ("pull", IMAGE.partition("=")[2], "--no-wait"),
    "doctor": ("doctor",),
}


@story
def held(scene: Scene, /, **settings: object) -> None:
    """At 2 of 4 nodes of revision 2."""
    few_nodes.play(scene)
    scene.nodes.behave("*", PACE)
    scene.do(scene.edit({"spec": {"template": scenes.template("1.9.0"), **rolling(partition=2, **settings)}}))
    scene.pass_time(600.0)


@story
def paused(scene: Scene) -> None:
    """By another user, without a note."""
    held.play(scene, paused=True)


@story
def stuck(scene: Scene) -> None:
    """New pods never get ready, since a moment."""
    held.play(scene)
    scene.nodes.behave("*", replace(PACE, ready=None))
    scene.do(scene.edit({"spec": {"template": scenes.template("1.9.1")}}))
    scene.pass_time(60.0)


@story
def stalled(scene: Scene) -> None:
    stuck.play(scene)
    scene.pass_time(1200.0)


@contextmanager
def gone() -> Iterator[Scene]:
    with few_nodes() as scene:
        scene.do(scene.api.delete(DAEMONSETS, NAME))
        scene.pass_time(60.0)
        yield scene


CODES: dict[Opened, int] = {
    scenes.canary: 3,
    scenes.stalled: 4,
    scenes.held: 0,
    scenes.soaking: 3,
    scenes.awaiting_approval: 5,
    scenes.aborted: 4,
    scenes.paused: 5,
    scenes.healthy: 0,
    scenes.refused: 4,
    scenes.on_delete: 5,
    scenes.first_deployment: 3,
    scenes.surge: 3,
    scenes.in_place: 3,
    scenes.preparing: 3,
    scenes.abandoned: 3,
}


ZONES = {"key": "topology.kubernetes.io/zone", "maxUnavailable": "25%", "maxDomains": 1}


@story
def in_zones(scene: Scene) -> None:
    """Two nodes of the third zone are being updated; in the first, a pod was not ready before, and is not now."""
    settled.play(scene)
    scene.do(stop_serving(scene, "a-05"))
    scene.pass_time(30.0)
    start_canary(scene, partition=0, topology=ZONES, maxUnavailable=4)
    scene.nodes.behave("a-05", replace(PACE, ready=None))
    scene.pass_time(100.0)


def settle(scene: Scene) -> None:
    """Every node gets well, and the controller has nothing left to do."""
    for name in ("*", *BAD):
        scene.nodes.behave(name, PACE)
    scene.do(scene.until(lambda one: one["status"]["observedGeneration"] == one["metadata"]["generation"]))
    scene.do(scene.until(lambda one: one["status"]["rollout"]["phase"] in ("Healthy", "Held", "Paused", "Manual")))


def selected(scene: Scene) -> None:
    """Revision 7 on c-08 to c-06 by label; then c-07 loses it."""
    label(scene, "canary", "c-08", "c-07", "c-06")
    scene.do(scene.edit({"spec": {**rolling(selector={"matchLabels": {"track": "canary"}}, maxUnavailable=3)}}))
    scene.nodes.behave("*", PACE)
    scene.do(scene.edit({"spec": {"template": template("1.9.0")}}))
    scene.do(scene.until(lambda one: one["status"].get("updatedNumberScheduled") == 3))
    settle(scene)
    label(scene, None, "c-07")


def label(scene: Scene, track: str | None, *names: str) -> None:
    for name in names:
        change = {"metadata": {"labels": {"track": track}}}
        scene.do(scene.api.patch(NODES, name, change, content_type="application/merge-patch+json"))


BAD = ("c-08", "c-07", "c-06", "c-05", "c-04", "c-03")
"""The nodes that have revision 7 in the canary."""
