"""The states in which the plugin is shown: 24 nodes in three zones, DaemonSet `node-agent`, revision 6 to 7.

    with canary() as scene:
        ran = scene.run("status", "node-agent", "-n", "observability")

Each is a context manager that yields a `Scene` at the moment `NOW`, and the same in every run (see `kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.api import NODES as NODE_KIND
from tests.beds.nodes.fleet import ZONE_LABEL
from tests.beds.nodes.stages import Behaviour
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.refusal import Refused
from tests.plugin.kept import story
from tests.plugin.playing import NAMESPACE, NOW, Ran, Scene, opened

__all__ = ["NAMESPACE", "NOW", "Ran", "Scene", "opened"]

DAY, HOUR, MINUTE = 86_400.0, 3600.0, 60.0
NAME = "node-agent"
NODES = tuple(f"{zone}-{number:02}" for zone in "abc" for number in range(1, 9))
PACE = Behaviour(terminate=1.0, start=10.0, ready=30.0)
"""41 seconds from the deletion of the old pod to the new one's being ready."""
STARTED = NOW - 372.0
LAST_WORDS = "open /etc/agent/v2.yaml: no such file or directory"
REFUSAL = 'violates PodSecurity "restricted": allowPrivilegeEscalation != false'
STEPS = ({"nodes": 2, "soak": "10m"}, {"nodes": 8, "soak": "30m", "approval": "Required"}, {"nodes": "100%"})
Opened = Callable[[], AbstractContextManager[Scene]]
STATUS = ("status", NAME, "-n", NAMESPACE)
WATCH = (*STATUS, "-w")


def template(version: str, level: str = "info", *, certs: bool = True) -> Object:
    """The pods of `node-agent`. `registry.example.com/agent:VERSION` is the only image."""
    container: Object = {
        "name": "agent",
        "image": f"registry.example.com/agent:{version}",
        "env": [{"name": "LOG_LEVEL", "value": level}, {"name": "API_TOKEN", "value": "sample"}],
    }
    spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 5}
    if certs:
        container["volumeMounts"] = [{"name": "certs", "mountPath": "/etc/certs"}]
        spec["volumes"] = [{"name": "certs", "configMap": {"name": "agent-certs"}}]
    return {"metadata": {"labels": {"app": NAME}}, "spec": spec}


HISTORY = (
    (61.0, template("1.8.0", "debug", certs=False)),
    (61.0, template("1.8.0", "info", certs=False)),
    (61.0, template("1.8.1", "debug", certs=False)),
    (61.0, template("1.8.2", "debug", certs=False)),
    (40.0, template("1.8.4", "debug")),
    (12.0, template("1.8.4", "info")),
)
"""Revisions 1 to 6: how many days ago, and what."""


def daemonset(**rolling: object) -> Object:
    """`node-agent` as it was at first."""
    return daemonset_named(NAME, **rolling)


def daemonset_named(name: str, **rolling: object) -> Object:
    """One like it."""
    content = deepcopy(HISTORY[0][1])
    content["metadata"]["labels"] = {"app": name}
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": content,
            "revisionHistoryLimit": 3,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, **rolling}},
        },
    }


def rolling(**fields: object) -> Object:
    """The part of a spec with these fields of rollingUpdate."""
    return {"updateStrategy": {"rollingUpdate": fields}}


async def join(scene: Scene, names: Sequence[str] = NODES) -> None:
    """These nodes come; the first letter is the zone."""
    for name in names:
        await scene.nodes.add(name, labels={ZONE_LABEL: f"zone-{name[0]}", "kubernetes.io/arch": "amd64"})


async def _seen(scene: Scene, name: str = NAME) -> None:
    """Until the controller has acted on the newest spec."""
    await scene.until(
        lambda one: (one.get("status") or {}).get("observedGeneration") == one["metadata"]["generation"]
    )


async def _filled(scene: Scene) -> None:
    await scene.until(lambda one: one["status"].get("numberAvailable") == len(NODES))


@story
def settled(scene: Scene) -> None:
    """Revision 6 on all nodes for 12 days; of the earlier revisions 4 and 5 are kept (and 3, the limit)."""
    for number, (days, content) in enumerate(HISTORY):
        if days < 61.0:
            scene.go_to(NOW - days * DAY)
        if number:
            scene.do(scene.edit({"spec": {"template": content}}))
        else:
            scene.go_to(NOW - days * DAY)
            scene.do(scene.api.create(DAEMONSETS, daemonset()))
        scene.do(_seen(scene))
    scene.do(join(scene))
    scene.do(_filled(scene))


def start_canary(scene: Scene, *, at: float = STARTED, partition: int = 22, **fields: object) -> None:
    """Revision 7 comes, at first to two nodes."""
    scene.go_to(at)
    scene.nodes.behave("*", PACE)
    metadata = {"annotations": {"kubernetes.io/change-cause": "JIRA-412"}}
    spec = {"template": template("1.9.0"), **rolling(partition=partition, **fields)}
    scene.do(scene.edit({"metadata": metadata, "spec": spec}))


@story
def canary(scene: Scene) -> None:
    """The example of the mock-ups: partition 16, c-08 to c-05 done, c-04 fails again and again, c-03 starts."""
    settled.play(scene)
    start_canary(scene)
    scene.nodes.behave("c-05", replace(PACE, ready=69.0))
    for name in ("c-04", "c-03"):
        scene.nodes.behave(name, replace(PACE, ready=None))
    scene.go_to(STARTED + 260.0)
    scene.do(scene.edit({"spec": rolling(partition=16)}))
    scene.go_to(STARTED + 313.0)
    scene.nodes.behave("c-04", replace(PACE, ready=None, crash=4.0, back_off=2.0))
    scene.go_to(NOW - 1.0)
    scene.nodes.behave("c-04", replace(PACE, start=None))
    scene.do(_last_words(scene, "c-04"))
    scene.go_to(NOW)


@story
def stalled(scene: Scene) -> None:
    """The same 20 minutes later: c-02 and c-01 were updated, c-04 still fails."""
    canary.play(scene)
    scene.nodes.behave("c-03", PACE)
    scene.go_to(NOW + 20 * MINUTE)


@story
def held(scene: Scene) -> None:
    """The second step is done, since 18 minutes: 8 nodes have revision 7, partition 16 keeps the others."""
    settled.play(scene)
    start_canary(scene, at=NOW - HOUR)
    scene.go_to(NOW - 18 * MINUTE - 164.0)
    scene.do(scene.edit({"spec": rolling(partition=16)}))
    scene.go_to(NOW)


def _in_steps(scene: Scene, at: float) -> None:
    settled.play(scene)
    start_canary(scene, at=at, partition=0, steps=STEPS)
    scene.go_to(NOW)


@story
def soaking(scene: Scene) -> None:
    """By `STEPS`: the second is reached, since 12 minutes."""
    _in_steps(scene, NOW - 10 * MINUTE - 12 * MINUTE - 41.0 - 3 * 41.0)


@story
def awaiting_approval(scene: Scene) -> None:
    """By `STEPS`: the second is to be approved, since 20 minutes."""
    _in_steps(scene, NOW - HOUR)


@story
def aborted(scene: Scene, /, action: str = "Pause") -> None:
    """By `STEPS`: two nodes got revision 7, and on one of them it was not ready for longer than 2 minutes."""
    settled.play(scene)
    on_failure = {"unavailableNodes": 1, "after": "2m", "action": action}
    start_canary(scene, at=NOW - 18 * MINUTE, partition=0, steps=STEPS, onFailure=on_failure)
    scene.nodes.behave("c-07", replace(PACE, ready=None))
    scene.go_to(NOW)


@story
def paused(scene: Scene) -> None:
    """Paused 3 hours ago at partition 8, when 6 nodes were done."""
    settled.play(scene)
    start_canary(scene, at=NOW - 3 * HOUR - 100.0, partition=8)
    scene.go_to(NOW - 3 * HOUR)
    action = {
        "verb": "pause",
        "by": "alice@example.com",
        "at": "2025-11-20T09:04:10Z",
        "reason": "CVE triage",
        "client": "kubectl-kruise-ds",
    }
    annotations = {"kruise-ds/last-action": msgspec.json.encode(action).decode()}
    scene.do(scene.edit({"metadata": {"annotations": annotations}, "spec": rolling(paused=True)}))
    scene.go_to(NOW)


@story
def healthy(scene: Scene) -> None:
    """Revision 7 on all nodes, for two hours."""
    settled.play(scene)
    start_canary(scene, at=NOW - 2 * HOUR - 492.0, partition=0)
    scene.pass_time(492.0)
    scene.go_to(NOW)


@story
def refused(scene: Scene) -> None:
    """The server accepts no pod of revision 7."""

    def admission(attempt: Attempt) -> None:
        if attempt.kind.plural == "pods" and attempt.verb == "create" and "agent:1.9.0" in str(attempt.object):
            raise Refused(403, "Forbidden", f'pods "{attempt.name}" is forbidden: {REFUSAL}')

    settled.play(scene)
    scene.cluster.admission.append(admission)
    start_canary(scene, partition=0)
    scene.go_to(NOW)


@story
def on_delete(scene: Scene) -> None:
    """Pods change only when they are deleted: 24 old ones."""
    settled.play(scene)
    scene.do(scene.edit({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}))
    scene.go_to(STARTED)
    scene.do(scene.edit({"spec": {"template": template("1.9.0")}}))
    scene.go_to(NOW)


@story
def first_deployment(scene: Scene) -> None:
    """Revision 1, half of the nodes have their first pod ready."""
    scene.do(join(scene))
    scene.go_to(STARTED)
    for name in NODES:
        scene.nodes.behave(name, PACE if name[0] == "a" or name < "b-05" else replace(PACE, ready=None))
    scene.do(scene.api.create(DAEMONSETS, daemonset()))
    scene.go_to(NOW)


@story
def surge(scene: Scene) -> None:
    """maxSurge 2 instead: c-08 to c-05 done, c-04 and c-03 have the new pod beside the old one, which serves."""
    settled.play(scene)
    scene.do(scene.edit({"spec": rolling(maxSurge=2, maxUnavailable=0, rollingUpdateType="Standard")}))
    start_canary(scene, partition=16)
    for name in ("c-04", "c-03"):
        scene.nodes.behave(name, replace(PACE, ready=None))
    scene.go_to(NOW)


@story
def in_place(scene: Scene) -> None:
    """Revision 8 in place, with a minute for traffic to leave: c-08 to c-05 done, c-04 finds no image, c-03 restarts,
    c-02 loses its traffic. a-01 has still a pod from before updates in place were asked for."""
    settled.play(scene)
    scene.go_to(NOW - 2 * DAY)
    grace = {"annotations": {"kruise-ds/in-place-grace-seconds": "60"}}
    kind = rolling(rollingUpdateType="InPlaceIfPossible", maxUnavailable=3, partition=1)
    scene.do(scene.edit({"metadata": grace, "spec": {"template": template("1.8.6"), **kind}}))
    start_canary(scene, at=NOW - 154.0, partition=16)
    scene.nodes.behave("c-04", replace(PACE, missing_images=("*:1.9.0",), registry="manifest unknown"))
    scene.nodes.behave("c-03", replace(PACE, start=40.0))
    scene.go_to(NOW)


@story
def preparing(scene: Scene) -> None:
    """A preDelete hook holds the pods of c-08 and c-07, which are to be updated; b-01 may not run one any more."""
    settled.play(scene)
    scene.do(_hooked(scene))
    start_canary(scene, at=NOW - 25 * MINUTE, partition=16)
    scene.go_to(NOW - 3 * MINUTE)
    tainted = {"spec": {"taints": [{"key": "gpu", "effect": "NoExecute"}]}}
    scene.do(scene.api.patch(NODE_KIND, "b-01", tainted, content_type="application/merge-patch+json"))
    scene.go_to(NOW)


async def _hooked(scene: Scene) -> None:
    """A webhook has given every pod the label that the hook looks for."""
    labels: Object = {"example.io/block-deleting": "true"}
    for name in NODES:
        await scene.api.patch(PODS, (await scene.pod_on(name))["metadata"]["name"], {"metadata": {"labels": labels}})
    await scene.edit({"spec": {"lifecycle": {"preDelete": {"labelsHandler": labels}}}})


@story
def abandoned(scene: Scene) -> None:
    """Revision 7 was asked for when the controller was away: its lease was last renewed 14 minutes ago."""
    settled.play(scene)
    scene.go_to(NOW - 14 * MINUTE)
    scene.do(scene.controller.kill())
    start_canary(scene, partition=0)
    scene.go_to(NOW)


async def _last_words(scene: Scene, node: str) -> None:
    """What the container said before it ended the last time."""
    await scene.say_last_words(await scene.pod_on(node), LAST_WORDS)


def written(tmp_path: Path, *manifests: Object) -> str:
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


def manifest(version: str = "1.9.0", name: str = NAME, **rolling: Any) -> Object:
    """As a person keeps it in Git."""
    found = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", **daemonset(**rolling)}
    found["metadata"] = {"name": name, "namespace": NAMESPACE}
    found["spec"] = {**found["spec"], "template": template(version)}
    return found
