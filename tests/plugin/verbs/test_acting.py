"""What all acting verbs have in common: one guarded write, the notes it leaves, and what is printed of one object and
of several."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from controller.kube.requests import JSON_PATCH
from tests.beds.api import DAEMONSETS, EVENTS, Object, Refusal
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import NAMESPACE, template
from tests.plugin.verbs.few_nodes import (
    HOME,
    LAST_ACTION,
    PAUSED,
    acted,
    few_nodes,
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


def test_the_last_action_says_who_when_why_and_with_what(scene: Scene) -> None:
    acted(scene, "pause", "--reason", "CVE triage")
    assert note(scene) == {
        "verb": "pause",
        "by": "alice@example.com",
        "at": note(scene)["at"],
        "reason": "CVE triage",
        "client": "kubectl-kruise-ds/0.1.0",
    }


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


@pytest.mark.parametrize(
    ("where", "told", "sent"),
    [
        ("client", "dry run", []),
        ("server", "server dry run", [{**STRICT, "dryRun": "All", "fieldManager": "kubectl-kruise-ds"}]),
    ],
)
def test_a_dry_run_stores_nothing(scene: Scene, where: str, told: str, sent: list[dict[str, str]]) -> None:
    before = stored(scene)
    ran = acted(scene, "pause", "-q", f"--dry-run={where}")
    assert ran == Ran(0, f"daemonset.apps.kruise.io/node-agent paused ({told})\n", "")
    assert queries(scene) == sent
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
    unchanged = acted(scene, "pause", "-o", output)
    assert read(unchanged.out)["spec"] == stored(scene)["spec"]


PREFIX = "daemonset.apps.kruise.io"
NAMES = ["log-agent", "net-agent", "node-agent"]
FORMATS = [(), ("-o", "name"), ("-o", "yaml"), ("-o", "json"), ("-q",)]


@pytest.fixture
def three() -> Iterator[Scene]:
    with few_nodes("log-agent", "net-agent") as opened:
        yield opened


class Closing(io.StringIO):
    """Takes one text, and then nothing any more."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error, self._left = error, 1

    def write(self, text: str) -> int:
        if not self._left:
            raise self._error
        self._left -= 1
        return len(text)


# a reader that goes away, a full disk


@pytest.mark.parametrize("words", FORMATS, ids=" ".join)
def test_all_are_changed_though_the_reader_goes_away(three: Scene, words: tuple[str, ...]) -> None:
    gone = Closing(BrokenPipeError(32, "Broken pipe"))
    assert three.run("pause", "--all", "-y", *words, *HOME, out=gone) == Ran(0, "", "")
    assert paused_ones(three) == NAMES


@pytest.mark.parametrize("words", FORMATS, ids=" ".join)
def test_a_full_disk_is_reported_when_all_are_changed(three: Scene, words: tuple[str, ...]) -> None:
    ran = three.run("pause", "--all", "-y", *words, *HOME, out=Closing(OSError(28, "No space left on device")))
    assert ran == Ran(1, "", "error: done, but it could not be printed: No space left on device\n")
    assert paused_ones(three) == NAMES


def test_what_changes_nothing_says_nothing_of_done(three: Scene) -> None:
    ran = three.run("pause", "--all", "--dry-run=client", *HOME, out=Closing(OSError(28, "No space left on device")))
    assert ran == Ran(1, "", "error: it could not be printed: No space left on device\n")


# documents


def test_json_of_several_is_one_list_as_kubectls_and_yaml_several_documents(three: Scene) -> None:
    document = json.loads(three.run("pause", "--all", "-y", "-o", "json", *HOME).out)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    assert [one["metadata"]["name"] for one in document["items"]] == NAMES
    assert all("managedFields" not in one["metadata"] for one in document["items"])
    ran = three.run("resume", "--all", "-y", "-o", "yaml", *HOME)
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(ran.out)] == NAMES
    alone = three.run("pause", "-l", "app=net-agent", "-o", "json", *HOME)
    assert json.loads(alone.out)["metadata"]["name"] == "net-agent", "one of all stays itself"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_document_is_the_same_in_every_encoding(three: Scene, encoding: str, output: str) -> None:
    owner = "Größe \N{GRINNING FACE}"
    three.do(three.edit({"metadata": {"annotations": {"owner": owner}}}))
    sink = io.BytesIO()
    ran = acted(three, "pause", "-o", output, out=io.TextIOWrapper(sink, encoding, write_through=True))
    assert (ran.code, ran.err) == (0, "")
    read = json.loads if output == "json" else yaml.safe_load
    assert read(sink.getvalue().decode(encoding))["metadata"]["annotations"]["owner"] == owner


@pytest.mark.parametrize("verb", ["history", "status"])
def test_verbs_that_look_escape_as_well(three: Scene, verb: str) -> None:
    three.do(three.edit({"metadata": {"annotations": {"kubernetes.io/change-cause": "größer"}}}))
    acted(three, "pause", "--reason", "größer")
    plain, escaped = (acted(three, verb, "-o", "json", only_ascii=only).out for only in (False, True))
    assert not plain.isascii()
    assert escaped.isascii()
    assert json.loads(escaped) == json.loads(plain)


# one question for several


def test_an_object_named_twice_is_changed_once(three: Scene) -> None:
    ran = three.run("pause", "node-agent", "ads/node-agent", "-q", *HOME)
    assert ran == Ran(0, f"{PREFIX}/node-agent paused\n", "")
    assert len(patches(three)) == 1


def test_a_rollback_of_several_shows_the_preview_of_each(three: Scene) -> None:
    three.pass_time(60.0)
    for name in NAMES:
        three.do(three.edit({"spec": {"template": {"spec": template("1.9.0")["spec"]}}}, name))
    three.pass_time(600.0)
    ran = three.run("rollback", "--all", *HOME, terminal=True, typed="n\n")
    for name in NAMES:
        assert f"\n    Roll back {name} to revision 1 " in ran.err
    assert ran.err.count("      move back   4 nodes: ") == 3
    assert ran.err.count("Continue?") == 1


def test_without_a_question_each_result_has_its_details(three: Scene) -> None:
    alone = acted(three, "restart", "--dry-run=client").out.splitlines()[1:]
    ran = three.run("restart", "--all", "-y", *HOME)
    assert ran.out.count("\n".join(alone)) == 3


# --print-patch


def test_no_patch_is_no_line_for_a_shell(three: Scene) -> None:
    acted(three, "pause")
    assert acted(three, "pause", "--print-patch") == Ran(
        0, "", f"note: {PREFIX}/node-agent already paused: no patch\n"
    )


@pytest.mark.parametrize("verb", [("pause",), ("promote",), ("restart",)], ids=" ".join)
def test_a_patch_has_no_other_format(three: Scene, verb: tuple[str, ...]) -> None:
    ran = acted(three, *verb, "--print-patch", "-o", "json")
    assert ran == Ran(2, "", "error: give -o or --print-patch, not both\n")


def test_a_printed_patch_has_the_change_cause_but_no_guard(three: Scene) -> None:
    three.do(three.edit({"metadata": {"annotations": {"team": "agents"}}}))
    words = ("set-image", "--print-patch", "--reason", "JIRA-7")
    printed = json.loads(acted(three, words[0], "agent=agent:2", *words[1:]).out.split(" -p ")[1].strip().strip("'"))
    assert [(one["op"], one["path"]) for one in printed] == [
        ("test", "/spec/template/spec/containers/0/name"),
        ("add", "/spec/template/spec/containers/0/image"),
        ("add", "/metadata/annotations/kubernetes.io~1change-cause"),
    ]
    assert (printed[0]["value"], printed[2]["value"]) == ("agent", "JIRA-7")
    assert patches(three) == []
    assert stored(three)["metadata"]["annotations"] == {"team": "agents"}


FLAGS = ("--kubeconfig=/home/me/my clusters", "--context=prod")


def test_a_printed_patch_and_nothing_in_it() -> None:
    with few_nodes() as scene:
        ran = acted(scene, "set-image", "*=agent:2", "--reason", "see kubectl get ads", "--print-patch", *FLAGS)
    words = shlex.split(ran.out)
    assert words[:5] == ["kubectl", *FLAGS, "patch", "daemonsets.apps.kruise.io"]
    assert json.loads(words[-1])[-1]["value"] == {"kubernetes.io/change-cause": "see kubectl get ads"}


CHOSEN = [(), FLAGS, ("--cluster", "b"), ("-s", "https://127.0.0.1:7"), ("--user=bob",), ("--as=bob",)]


@pytest.mark.parametrize("flags", CHOSEN, ids=" ".join)
def test_a_hint(flags: tuple[str, ...]) -> None:
    with few_nodes() as scene:
        acted(scene, "pause")
        ran = scene.run("status", "node-agent", *flags, *HOME, columns=200)
    chosen = {"--cluster": "--cluster=b ", "-s": "--server=https://127.0.0.1:7 "}
    where = chosen.get("".join(flags[:1]), f"{shlex.join(flags)} " if flags else "")
    assert f"kubectl kruise-ds {where}resume node-agent -n {NAMESPACE}\n" in ran.out


def test_a_hint_of_a_plan() -> None:
    with few_nodes(partition=30) as scene:
        scene.do(scene.edit({"spec": {"template": template("2")}}))
        plan = scene.run("plan", "node-agent", "--context=prod", *HOME, columns=200)
    command = "kubectl kruise-ds --context=prod set-partition node-agent -n observability --update 30%"
    assert command in plan.out


def test_a_printed_patch_is_refused_when_the_container_has_moved(three: Scene) -> None:
    printed = acted(three, "set-image", "agent=agent:2", "--print-patch")
    first = {"op": "add", "path": "/spec/template/spec/containers/0", "value": {"name": "proxy", "image": "proxy:1"}}
    three.do(three.api.patch(DAEMONSETS, "node-agent", [first], content_type=JSON_PATCH))
    patch = json.loads(shlex.split(printed.out)[-1])
    with pytest.raises(Refusal):
        three.do(three.api.patch(DAEMONSETS, "node-agent", patch, content_type=JSON_PATCH))
    assert stored(three)["spec"]["template"]["spec"]["containers"][0]["image"] == "proxy:1"
