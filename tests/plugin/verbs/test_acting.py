"""What all acting verbs have in common, shown with pause: one guarded write, the notes it leaves, what is printed."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest
import yaml

from controller.kube.requests import JSON_PATCH
from tests.beds.api import DAEMONSETS, EVENTS, Object
from tests.plugin.playing import Ran, Scene
from tests.plugin.verbs.few_nodes import (
    LAST_ACTION,
    PAUSED,
    acted,
    patches,
    paused_ones,
    queries,
    rolling_of,
    stored,
)

STRICT = {"fieldValidation": "Strict"}
"""What the kind does not have is refused."""


def note(scene: Scene) -> dict[str, str]:
    return msgspec.json.decode(stored(scene)["metadata"]["annotations"][LAST_ACTION], type=dict[str, str])


# the write


def test_it_is_one_patch_guarded_by_the_version_that_was_read(scene: Scene) -> None:
    before = stored(scene)
    acted(scene, "pause")
    ((guard, *operations),) = patches(scene)
    version = before["metadata"]["resourceVersion"]
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    assert [one["path"] for one in operations] == [
        "/spec/updateStrategy/rollingUpdate/paused",
        "/metadata/annotations",
    ]
    assert queries(scene) == [{**STRICT, "fieldManager": "kubectl-kruise-ds"}]
    assert rolling_of(stored(scene)) == {**rolling_of(before), "paused": True}


def test_another_field_manager_may_be_named(scene: Scene) -> None:
    acted(scene, "pause", "--field-manager", "pipeline")
    assert queries(scene) == [{**STRICT, "fieldManager": "pipeline"}]


def test_what_is_so_already_is_told_and_not_written(scene: Scene) -> None:
    acted(scene, "pause")
    before = stored(scene)
    again = acted(scene, "pause")
    assert again == Ran(0, "daemonset.apps.kruise.io/node-agent already paused\n", "")
    assert len(patches(scene)) == 1
    assert stored(scene) == before


def test_the_last_action_says_who_when_why_and_with_what(scene: Scene) -> None:
    acted(scene, "pause", "--reason", "CVE triage")
    assert note(scene) == {
        "verb": "pause",
        "by": "alice@example.com",
        "at": note(scene)["at"],
        "reason": "CVE triage",
        "client": "kubectl-kruise-ds/0.1.0",
    }


def test_a_server_that_does_not_say_who_we_are_is_no_obstacle(scene: Scene) -> None:
    scene.door.user = ""
    assert acted(scene, "pause").code == 0
    assert set(note(scene)) == {"verb", "at", "client"}


def test_an_event_tells_it_too(scene: Scene) -> None:
    acted(scene, "pause", "--reason", "CVE triage")
    events = [one for one in scene.do(scene.api.list(EVENTS)) if one["reason"] == "Paused"]
    (event,) = events
    assert event["message"] == "paused by alice@example.com: CVE triage"
    assert (event["type"], event["reportingComponent"]) == ("Normal", "kubectl-kruise-ds")
    assert event["involvedObject"]["uid"] == stored(scene)["metadata"]["uid"]


def test_without_the_right_to_write_events_it_is_done_in_silence(scene: Scene) -> None:
    scene.door.forbid("create", "events")
    ran = acted(scene, "pause", "-q")
    assert ran == Ran(0, PAUSED, "")
    assert paused_ones(scene) == ["node-agent"]


# --dry-run, --print-patch, -o, -q


def test_a_dry_run_of_the_client_sends_no_write(scene: Scene) -> None:
    before = stored(scene)
    ran = acted(scene, "pause", "-q", "--dry-run=client")
    assert ran == Ran(0, "daemonset.apps.kruise.io/node-agent paused (dry run)\n", "")
    assert patches(scene) == []
    assert stored(scene) == before


def test_a_dry_run_of_the_server_asks_it_and_stores_nothing(scene: Scene) -> None:
    before = stored(scene)
    ran = acted(scene, "pause", "-q", "--dry-run=server")
    assert ran == Ran(0, "daemonset.apps.kruise.io/node-agent paused (server dry run)\n", "")
    assert queries(scene) == [{**STRICT, "dryRun": "All", "fieldManager": "kubectl-kruise-ds"}]
    assert stored(scene) == before
    assert not [one for one in scene.do(scene.api.list(EVENTS)) if one["reason"] == "Paused"]


@pytest.mark.parametrize("where", ["client", "server"])
def test_a_dry_run_shows_the_object_as_it_would_be(scene: Scene, where: str) -> None:
    shown = acted(scene, "pause", f"--dry-run={where}", "-o", "json")
    acted(scene, "pause")
    would_be, has_become = json.loads(shown.out), stored(scene)
    for moving in ("resourceVersion", "generation", "managedFields"):
        would_be["metadata"].pop(moving, None)
        has_become["metadata"].pop(moving, None)
    assert would_be["spec"] == has_become["spec"]
    assert would_be["metadata"] == has_become["metadata"]


def test_print_patch_is_a_command_that_does_the_same(scene: Scene) -> None:
    ran = acted(scene, "pause", "--print-patch", "--reason", "it's late")
    assert patches(scene) == []
    words = shlex.split(ran.out)
    assert words[:-1] == [
        *("kubectl", "patch", "daemonsets.apps.kruise.io", "node-agent"),
        *("-n", "observability", "--type=json", "-p"),
    ]
    expected = {**rolling_of(stored(scene)), "paused": True}
    scene.do(scene.api.patch(DAEMONSETS, "node-agent", json.loads(words[-1]), content_type=JSON_PATCH))
    assert rolling_of(stored(scene)) == expected


def test_o_name_is_the_name_alone(scene: Scene) -> None:
    assert acted(scene, "pause", "-o", "name") == Ran(0, "daemonset.apps.kruise.io/node-agent\n", "")


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_o_json_and_yaml_are_the_object_that_the_server_made(scene: Scene, output: str, read: Any) -> None:
    ran = acted(scene, "pause", "-o", output)
    document: Object = read(ran.out)
    assert (document["kind"], rolling_of(document)["paused"]) == ("DaemonSet", True)
    assert document["metadata"]["generation"] == stored(scene)["metadata"]["generation"]
    assert document["metadata"]["annotations"] == stored(scene)["metadata"]["annotations"]
    assert ran.err == ""


def test_a_document_of_no_change_is_the_object_as_it_is(scene: Scene) -> None:
    acted(scene, "pause")
    assert json.loads(acted(scene, "pause", "-o", "json").out)["spec"] == stored(scene)["spec"]


def test_ascii_is_only_ascii(scene: Scene) -> None:
    ran = acted(scene, "restart", "--dry-run=client", only_ascii=True)
    assert "a-04 ... a-01" in ran.out
    assert ran.out.isascii()
