"""Pods whose image admission changed at creation: what `plan`, `set-image` and `apply` say of them beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.settings import FeatureGates
from kubectl_plugin.rollout.in_place import How
from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.nodes import Behaviour
from tests.beds.objects import image_of, node_of
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.plugin.kept import story
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import daemonset_named, join, written
from tests.plugin.verbs.few_nodes import HOME, NODES, acted, few_nodes

MIRROR = "mirror.example.com/"
NEW = "registry.example.com/agent:2.0.0"
IN_PLACE: Any = {"rollingUpdateType": "InPlaceIfPossible"}
UNDONE = "admission changes their image at creation, and would not change the new one"
UNSURE = (
    "4 pods have an image, cpu or memory that admission changed: whether they can be updated in place is only known"
    " when the controller asks"
)


def move(one: Object) -> None:
    one["image"] = MIRROR + one["image"].removeprefix(MIRROR)


def recommend(one: Object) -> None:
    one["resources"]["requests"]["cpu"] = "1"


def judged(scene: Scene, change: Callable[[Object], None], writes: Collection[str], but: str) -> None:
    """These writes change the container of each pod, except on the node `but`: "create", "update" or "resize"."""

    def judge(attempt: Attempt) -> None:
        write = attempt.subresource or attempt.verb
        if attempt.kind.plural == "pods" and write in writes and node_of(attempt.object) != but:
            change(attempt.object["spec"]["containers"][0])

    scene.cluster.admission.append(judge)


@story
def moved(scene: Scene, /, *writes: str, but: str = "") -> None:
    """The image of each pod is moved to a mirror by these writes."""
    judged(scene, move, writes, but)
    few_nodes.play(scene, **IN_PLACE)


@story
def recommended(scene: Scene, /, *writes: str) -> None:
    """Of each pod but that of a-04, these writes change the cpu. The node a-04 has no room for the cpu of revision
    2, so no other pod has it yet."""
    judged(scene, recommend, writes, "a-04")
    scene.do(scene.controller.stop())
    scene.controller.start(msgspec.structs.replace(scene.controller.settings, gates=FeatureGates(resize=True)))
    scene.do(join(scene, NODES))
    first = daemonset_named("node-agent", **{**IN_PLACE, "maxUnavailable": 1})
    first["spec"]["template"]["spec"]["containers"][0]["resources"] = asking("100m")
    scene.do(scene.api.create(DAEMONSETS, first))
    scene.do(scene.until(lambda one: (one.get("status") or {}).get("numberAvailable") == len(NODES)))
    scene.nodes.behave("a-04", Behaviour(resizes="Deferred"))
    scene.do(scene.edit({"spec": {"template": edited(scene, resources=asking("200m"))["spec"]["template"]}}))
    scene.pass_time(60.0)


def asking(cpu: str) -> Object:
    return {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}}


def edited(scene: Scene, **fields: object) -> Object:
    """A manifest of `node-agent` with these fields of its container."""
    live: Object = scene.do(scene.api.get(DAEMONSETS, "node-agent"))
    live["spec"]["template"]["spec"]["containers"][0] |= fields
    metadata = {key: live["metadata"][key] for key in ("name", "namespace", "labels")}
    return {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": metadata, "spec": live["spec"]}


def planned(scene: Scene, *words: str) -> Ran:
    return acted(scene, "plan", "--image", f"agent={NEW}", *words)


def asked(scene: Scene) -> list[str]:
    """The nodes' pods that the user sent a dry run for."""
    sent = [one for one in scene.door.link.writes("pods") if one.route.verb == "patch"]
    assert all(("dryRun", "All") in one.request.query for one in sent)
    return [one.route.name for one in sent]


@pytest.mark.parametrize("writes", [("create",), ("create", "update")], ids=["at creation only", "at updates too"])
def test_a_plan_says_what_the_controller_then_does(writes: tuple[str, ...]) -> None:
    with moved(*writes) as scene:
        found = json.loads(planned(scene, "-o", "json").out)
        how = {move["node"]: move["how"] for wave in found["waves"] for move in wave["moves"]}
        assert len(asked(scene)) == 1, "one pod stands for all"
        before = {node_of(pod): pod["metadata"]["uid"] for pod in scene.do(scene.api.list(PODS))}
        acted(scene, "set-image", f"agent={NEW}")
        scene.pass_time(600.0)
        pods = {node_of(pod): pod for pod in scene.do(scene.api.list(PODS))}
        assert {image_of(pod) for pod in pods.values()} == {MIRROR + NEW}
        stayed = {node for node, pod in pods.items() if pod["metadata"]["uid"] == before[node]}
        assert stayed == {node for node in NODES if how[node] == How.IN_PLACE}
        assert len(stayed) == (4 if "update" in writes else 0)


def test_it_is_said_why_and_of_which_pods() -> None:
    with moved("create", but="a-03") as scene:
        ran = planned(scene, "--waves", "0")
        assert UNDONE in " ".join(ran.out.split())
        ran = acted(scene, "set-image", f"agent={NEW}")
        assert f"  re-create: {UNDONE} (3 pods)" in ran.out.splitlines()
        assert "  in place, restarts agent (1 pod)" in ran.out.splitlines()


def test_an_apply_says_so_too(tmp_path: Path) -> None:
    with moved("create") as scene:
        ran = scene.run("apply", "-f", written(tmp_path, edited(scene, image=NEW)), "--yes", *HOME)
        assert (ran.code, f"  re-create: {UNDONE}" in ran.out.splitlines()) == (0, True), ran


@pytest.mark.parametrize(
    "effect",
    [Answer(403, "Forbidden", "no right"), Answer(500, message="away"), Hang()],
    ids=["no right", "no answer", "no answer in time"],
)
def test_what_the_server_does_not_tell_is_not_known(effect: Effect) -> None:
    with moved("create") as scene:
        scene.door.link.faults.add(Rule(effect, verb="patch", resource="pods"))
        ran = planned(scene, "-o", "json")
        checks = {one["name"]: one["text"] for one in json.loads(ran.out)["checks"]}
        assert checks["ChangedByAdmission"] == UNSURE
        ran = acted(scene, "set-image", f"agent={NEW}")
        assert (ran.code, f"  {UNSURE}" in ran.out.splitlines()) == (0, True), ran


@pytest.mark.parametrize("writes", [("create",), ("create", "resize")], ids=["at creation only", "at resizes too"])
def test_cpu_and_memory_are_asked_about_like_images(tmp_path: Path, writes: tuple[str, ...]) -> None:
    """That the controller can resize is seen by the pod of a-04, whose node has no room for the first resize."""
    with recommended(*writes) as scene:
        path = written(tmp_path, edited(scene, resources=asking("300m")))
        ran = acted(scene, "plan", "-f", path)
        told = " ".join(ran.out.split())
        assert ("admission changes their cpu or memory at creation" in told) is ("resize" not in writes)
        assert len([one for one in scene.door.link.writes("pods/resize") if one.status == 200]) == 1


def test_where_admission_changed_nothing_nothing_is_asked() -> None:
    with few_nodes(**IN_PLACE) as scene:
        assert "updated in place" in planned(scene).out
        assert asked(scene) == []
