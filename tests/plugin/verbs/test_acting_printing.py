"""What acting verbs print of several objects, and that all are changed whatever becomes of what is printed."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator

import pytest
import yaml

from controller.kube.requests import JSON_PATCH
from tests.beds.api import DAEMONSETS, Refusal
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import NAMESPACE, canary, daemonset_named, template
from tests.plugin.verbs.few_nodes import HOME, acted, few_nodes, patches, paused_ones, stored

PREFIX = "daemonset.apps.kruise.io"
MANY = sorted(f"agent-{number:02}" for number in range(30))
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
def test_all_are_changed_though_the_reader_goes_away(scene: Scene, words: tuple[str, ...]) -> None:
    for name in MANY:
        scene.do(scene.api.create(DAEMONSETS, daemonset_named(name)))
    gone = Closing(BrokenPipeError(32, "Broken pipe"))
    assert scene.run("pause", "--all", "-y", *words, *HOME, out=gone) == Ran(0, "", "")
    assert paused_ones(scene) == [*MANY, "node-agent"]


def test_the_exit_code_is_that_of_the_changes(three: Scene) -> None:
    strategy = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    three.do(three.edit({"spec": strategy}, "log-agent"))
    assert three.run("pause", "--all", "-y", *HOME, out=Closing(BrokenPipeError(32, "Broken pipe"))).code == 6
    assert paused_ones(three) == ["net-agent", "node-agent"]


@pytest.mark.parametrize("words", FORMATS, ids=" ".join)
def test_a_full_disk_is_told_when_all_are_changed(three: Scene, words: tuple[str, ...]) -> None:
    ran = three.run("pause", "--all", "-y", *words, *HOME, out=Closing(OSError(28, "No space left on device")))
    assert ran == Ran(1, "", "error: done, but it could not be printed: No space left on device\n")
    assert paused_ones(three) == NAMES


def test_what_changes_nothing_says_nothing_of_done(three: Scene) -> None:
    ran = three.run("pause", "--all", "--dry-run=client", *HOME, out=Closing(OSError(28, "No space left on device")))
    assert ran == Ran(1, "", "error: it could not be printed: No space left on device\n")


# documents


def test_yaml_of_several_is_several_documents(three: Scene) -> None:
    ran = three.run("pause", "--all", "-y", "-o", "yaml", *HOME)
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(ran.out)] == NAMES


def test_json_of_several_is_one_list_as_kubectls(three: Scene) -> None:
    document = json.loads(three.run("pause", "--all", "-y", "-o", "json", *HOME).out)
    assert (document["apiVersion"], document["kind"]) == ("v1", "List")
    assert [one["metadata"]["name"] for one in document["items"]] == NAMES
    assert all("managedFields" not in one["metadata"] for one in document["items"])


def test_a_list_has_those_that_were_done(three: Scene) -> None:
    three.do(three.edit({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}, "log-agent"))
    ran = three.run("pause", "log-agent", "net-agent", "-y", "-o", "json", *HOME)
    assert ran.code == 6
    assert [one["metadata"]["name"] for one in json.loads(ran.out)["items"]] == ["net-agent"]


def test_one_of_all_stays_itself(three: Scene) -> None:
    ran = three.run("pause", "-l", "app=net-agent", "-o", "json", *HOME)
    assert json.loads(ran.out)["metadata"]["name"] == "net-agent"


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


def test_what_the_server_says_is_nothing_for_a_terminal_to_obey(three: Scene) -> None:
    owner = "a\x1b[31m\x9b2J\x7f"
    labels, annotations = {"app.kubernetes.io/managed-by": "Helm"}, {"meta.helm.sh/release-name": owner}
    three.do(three.edit({"metadata": {"labels": labels, "annotations": annotations}}))
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        ran = acted(three, "pause", "--dry-run=client", "-o", output)
        assert "warning: " in ran.err
        assert not set(ran.out + ran.err) & set("\x1b\x9b\x7f")
        assert read(ran.out)["metadata"]["annotations"]["meta.helm.sh/release-name"] == owner


# one question for several


def test_an_object_named_twice_is_changed_once(three: Scene) -> None:
    ran = three.run("pause", "node-agent", "ads/node-agent", "-q", *HOME)
    assert ran == Ran(0, f"{PREFIX}/node-agent paused\n", "")
    assert len(patches(three)) == 1


def test_the_question_tells_what_would_happen_to_each(three: Scene) -> None:
    alone = acted(three, "restart", "--dry-run=client").out.splitlines()[1:]
    ran = three.run("restart", "--all", *HOME, terminal=True, typed="y\n")
    lines = ran.err.splitlines()
    at = lines.index("  observability/node-agent  restarted")
    assert alone
    assert lines[at + 1 : -1] == [f"  {line}" for line in alone]
    assert ran.out.splitlines() == [f"{PREFIX}/{name} restarted" for name in NAMES], "it was told before"


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


@pytest.mark.parametrize("verb", [("pause",), ("promote", "--force"), ("restart",)], ids=" ".join)
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
        promoted = scene.run("promote", "node-agent", *flags, *HOME)
    chosen = {"--cluster": "--cluster=b ", "-s": "--server=https://127.0.0.1:7 "}
    where = chosen.get("".join(flags[:1]), f"{shlex.join(flags)} " if flags else "")
    assert promoted.code == 6, promoted
    assert f"kubectl kruise-ds {where}resume node-agent -n {NAMESPACE}" in promoted.err
    assert f"kubectl kruise-ds {where}resume node-agent -n {NAMESPACE}\n" in ran.out


def test_a_hint_of_a_plan() -> None:
    with few_nodes(partition=30) as scene:
        scene.do(scene.edit({"spec": {"template": template("2")}}))
        plan = scene.run("plan", "node-agent", "--context=prod", *HOME, columns=200)
    command = "kubectl kruise-ds --context=prod set-partition node-agent -n observability --update 30%"
    assert command in plan.out


def test_what_to_look_at() -> None:
    with canary() as scene:
        ran = scene.run("status", "node-agent", "--context", "prod", "-n", NAMESPACE, columns=120)
    assert "kubectl --context=prod " in ran.out
    assert "kubectl kruise-ds --context=prod rollback node-agent" in ran.out


def test_a_printed_patch_is_refused_when_the_container_has_moved(three: Scene) -> None:
    printed = acted(three, "set-image", "agent=agent:2", "--print-patch")
    first = {"op": "add", "path": "/spec/template/spec/containers/0", "value": {"name": "proxy", "image": "proxy:1"}}
    three.do(three.api.patch(DAEMONSETS, "node-agent", [first], content_type=JSON_PATCH))
    patch = json.loads(shlex.split(printed.out)[-1])
    with pytest.raises(Refusal):
        three.do(three.api.patch(DAEMONSETS, "node-agent", patch, content_type=JSON_PATCH))
    assert stored(three)["spec"]["template"]["spec"]["containers"][0]["image"] == "proxy:1"
