"""`apply` that is ended before or after any of its writes: no node gets what was not meant, and the same command does
the rest. Then kubectl's own apply of the manifest lets no node go that is held back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.kube.requests import APPLY_PATCH, Request, Response
from tests.beds.api import DAEMONSETS, Object
from tests.beds.simulator.route import route
from tests.plugin.playing import Scene
from tests.plugin.scene import manifest, written
from tests.plugin.users_machine import UserTransport
from tests.plugin.verbs.few_nodes import (
    HOME,
    KIND,
    NODES,
    exists,
    few_nodes,
    fresh,
    images,
    rolling_of,
    stored,
    writes,
)

LAST_ACTION, LAST_APPLIED = "kruise-ds/last-action", "kubectl.kubernetes.io/last-applied-configuration"
CLIENT: Object = {
    "manager": "kubectl-client-side-apply",
    "operation": "Update",
    "apiVersion": "apps.kruise.io/v1beta1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {
        "f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}},
        "f:spec": {"f:minReadySeconds": {}, "f:updateStrategy": {"f:rollingUpdate": {"f:partition": {}}}},
    },
}


class Ended(UserTransport):
    """The command ends before (or, `done`, after) its write of this number: nothing more of it reaches the server."""

    def __init__(self, door: UserTransport, number: int, *, done: bool) -> None:
        super().__init__(door.link.cluster)
        self.user, self.number, self.done = door.user, number, done

    async def exchange(self, request: Request) -> Response:
        mine = route(request).resource == KIND and request.method == "PATCH"
        if mine and ("dryRun", "All") not in request.query:
            self.number -= 1
            if self.number == 0 and not self.done:
                self.link.up = False
            response = await super().exchange(request)
            if self.number == 0:
                self.link.up = False
            return response
        return await super().exchange(request)


def never_held(scene: Scene, tmp_path: Path) -> None:
    """Partition 0."""


def held_higher(scene: Scene, tmp_path: Path) -> None:
    assert scene.run("apply", "-f", written(tmp_path, manifest("1.8.0")), "--hold-at", "3", "-y").code == 0


def held_by_the_manifest(scene: Scene, tmp_path: Path) -> None:
    assert scene.run("apply", "-f", written(tmp_path, manifest("1.8.0", partition=3)), "-y").code == 0


def held_the_same_by_the_manifest(scene: Scene, tmp_path: Path) -> None:
    assert scene.run("apply", "-f", written(tmp_path, manifest("1.8.0", partition=2)), "-y").code == 0


def applied_by_the_client(scene: Scene, tmp_path: Path) -> None:
    spec = {"minReadySeconds": 1, "updateStrategy": {"rollingUpdate": {"partition": 3}}}
    scene.do(scene.edit({"metadata": {"annotations": {LAST_APPLIED: "{}\n"}}, "spec": spec}))
    scene.do(scene.edit({"metadata": {"managedFields": [CLIENT]}}))


BEFORE: list[Callable[[Scene, Path], None]] = [
    never_held,
    held_higher,
    held_by_the_manifest,
    held_the_same_by_the_manifest,
    applied_by_the_client,
]


@contextmanager
def prepared(before: Callable[[Scene, Path], None], tmp_path: Path) -> Iterator[Scene]:
    with few_nodes() as scene:
        before(scene, tmp_path)
        scene.pass_time(60.0)
        scene.door.link.seen.clear()
        yield scene


def outcome(scene: Scene, name: str = "node-agent") -> Any:
    """What is stored, without the note of when."""
    found = stored(scene, name)
    meta = found["metadata"]
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key != LAST_ACTION}
    entries = [
        (one["manager"], one["operation"], str(one["fieldsV1"].get("f:spec"))) for one in meta["managedFields"]
    ]
    managers = sorted(one for one in entries if one[2] != "None")
    return found["spec"], annotations, managers


def kubectl_applies(scene: Scene, wanted: Object) -> None:
    path = DAEMONSETS.path(wanted["metadata"]["namespace"], wanted["metadata"]["name"])
    scene.do(scene.api.send("PATCH", path, wanted, content_type=APPLY_PATCH, fieldManager="kubectl"))


def endings(tmp_path: Path, before: Callable[[Scene, Path], None], wanted: Object) -> tuple[int, Any]:
    """How many writes there are, and what they lead to."""
    with prepared(before, tmp_path) as scene:
        ran = scene.run("apply", "-f", written(tmp_path, wanted), "--hold-at", "2", "-y")
        assert ran.code == 0, ran
        result = outcome(scene, wanted["metadata"]["name"])
        count = len(writes(scene))
        kubectl_applies(scene, wanted)
        assert rolling_of(stored(scene, wanted["metadata"]["name"]))["partition"] == 2
        return count, result


@pytest.mark.parametrize("before", BEFORE, ids=lambda one: one.__name__)
def test_an_ended_apply_does_no_harm_and_is_done_again(before: Callable[[Scene, Path], None], tmp_path: Path) -> None:
    wanted = manifest("2.0.0")
    count, result = endings(tmp_path, before, wanted)
    for number in range(1, count + 1):
        for done in (False, True):
            with prepared(before, tmp_path) as scene:
                was, door = stored(scene)["spec"], scene.door
                scene.door = Ended(door, number, done=done)
                path = written(tmp_path, wanted)
                scene.run("apply", "-f", path, "--hold-at", "2", "-y")
                scene.door = door
                scene.pass_time(600.0)
                new = [node for node, image in images(scene).items() if image == "2.0.0"]
                assert len(new) <= 2, (number, done)
                spec = stored(scene)["spec"]
                if spec["template"] != was["template"]:
                    held = rolling_of(stored(scene))["partition"]
                    kubectl_applies(scene, wanted)
                    assert rolling_of(stored(scene))["partition"] == held >= 2, (number, done)
                else:
                    assert {**spec, "updateStrategy": was["updateStrategy"]} == was, "only the partition is there"
                    assert rolling_of(stored(scene))["partition"] >= rolling_of({"spec": was})["partition"]
                ran = scene.run("apply", "-f", path, "--hold-at", "2", "-y")
                assert (ran.code, outcome(scene)) == (0, result), (number, done)
                assert scene.run("apply", "-f", path, "--hold-at", "2", "-y").out.endswith(" unchanged\n")
                scene.pass_time(600.0)
                assert sum(image == "2.0.0" for image in images(scene).values()) == 2


def test_an_ended_apply_of_a_new_one_is_done_again(tmp_path: Path) -> None:
    """It has nothing to hold: all nodes get their first pod, with or without a partition."""
    count, result = endings(tmp_path, never_held, fresh())
    for number in range(1, count + 1):
        for done in (False, True):
            with prepared(never_held, tmp_path) as scene:
                door, path = scene.door, written(tmp_path, fresh())
                scene.door = Ended(door, number, done=done)
                scene.run("apply", "-f", path, "--hold-at", "2", "-y")
                scene.door = door
                assert exists(scene, "fresh") == (number > 1 or done)
                assert scene.run("apply", "-f", path, "--hold-at", "2", "-y").code == 0
                assert outcome(scene, "fresh") == result, (number, done)


def test_no_partition_of_a_manifest_undoes_what_a_person_has_set(tmp_path: Path) -> None:
    """Without a question; the same for --hold-at. Raising it is never dangerous."""
    with few_nodes() as scene:
        lower, plain = manifest("2.0.0", partition=0), manifest("2.0.0")
        assert scene.run("apply", "-f", written(tmp_path, manifest("1.8.0")), "-y").code == 0
        assert scene.run("set-partition", "node-agent", "3", *HOME, "-y").code == 0
        for words in ((), ("--dry-run=server",)):
            for wanted, flags in ((lower, ()), (plain, ("--hold-at", "1"))):
                ran = scene.run("apply", "-f", written(tmp_path, wanted), *flags, *words, "-y")
                assert (ran.code, rolling_of(stored(scene))["partition"]) == (6, 3)
                assert "node-agent is held at partition 3, which no manifest has set; this would set it to" in ran.err
        assert scene.run("apply", "-f", written(tmp_path, lower), "-y", terminal=True).code == 6
        ran = scene.run("apply", "-f", written(tmp_path, lower), terminal=True, typed="n\n")
        assert (ran.code, "  -  partition: 3\n  +  partition: 0\n" in ran.err) == (6, True)
        assert scene.run("apply", "-f", written(tmp_path, plain), "--hold-at", "4", "-y").code == 0
        assert scene.run("apply", "-f", written(tmp_path, lower), "-y", "--force-conflicts").code == 0
        assert rolling_of(stored(scene))["partition"] == 0
        assert len(images(scene)) == len(NODES)
