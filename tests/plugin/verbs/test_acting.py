"""What all acting verbs have in common, shown with pause: the one write, its guard, questions, notes, outputs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from controller.kube.request import JSON_PATCH
from tests.kit.api import DAEMONSETS, EVENTS, LEASES, MERGE_PATCH, Object
from tests.plugin.playing import HOME as SYSTEM
from tests.plugin.playing import LEASE, Ran, Scene
from tests.plugin.scene import abandoned
from tests.plugin.verbs.few_nodes import (
    HOME,
    acted,
    few_nodes,
    get_between,
    patches,
    queries,
    rolling_of,
    stored,
)

PAUSED = "daemonset.apps.kruise.io/node-agent paused\n"
LAST_ACTION = "kruise-ds/last-action"


@pytest.fixture
def scene() -> Iterator[Scene]:
    with few_nodes() as opened:
        yield opened


@pytest.fixture
def three() -> Iterator[Scene]:
    with few_nodes("log-agent", "net-agent") as opened:
        yield opened


def paused_ones(scene: Scene) -> list[str]:
    found = scene.do(scene.api.list(DAEMONSETS))
    return sorted(one["metadata"]["name"] for one in found if rolling_of(one).get("paused"))


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
    assert queries(scene) == [{"fieldManager": "kubectl-kruise-ds"}]
    assert rolling_of(stored(scene)) == {**rolling_of(before), "paused": True}


def test_another_field_manager_may_be_named(scene: Scene) -> None:
    acted(scene, "pause", "--field-manager", "pipeline")
    assert queries(scene) == [{"fieldManager": "pipeline"}]


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
    assert queries(scene) == [{"dryRun": "All", "fieldManager": "kubectl-kruise-ds"}]
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
    ran = acted(scene, "restart", "--dry-run=client", ascii=True)
    assert "a-04 ... a-01" in ran.out
    assert ran.out.isascii()


# who else writes


def test_a_status_that_was_written_meanwhile_is_no_conflict(scene: Scene) -> None:
    status = {"status": {"numberReady": 3}}
    get_between(
        scene, lambda: scene.api.patch(DAEMONSETS, "node-agent", status, sub="status", content_type=MERGE_PATCH)
    )
    assert acted(scene, "pause", "-q") == Ran(0, PAUSED, "")
    assert len(patches(scene)) == 2
    assert paused_ones(scene) == ["node-agent"]


def test_an_annotation_that_was_made_meanwhile_stays(scene: Scene) -> None:
    """There was none when we looked: our own must not bring all of them anew."""
    change = {"metadata": {"annotations": {"team": "agents"}}}
    get_between(scene, lambda: scene.edit(change))
    acted(scene, "pause")
    annotations = stored(scene)["metadata"]["annotations"]
    assert annotations["team"] == "agents"
    assert LAST_ACTION in annotations


def test_five_attempts_are_enough_or_it_is_said_so(scene: Scene) -> None:
    turn = iter(range(10))
    get_between(scene, lambda: scene.edit({"metadata": {"labels": {"turn": str(next(turn))}}}), times=5)
    ran = acted(scene, "pause")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.startswith("Error from server (Conflict): ")
    assert "hint: run the command again" in ran.err
    assert len(patches(scene)) == 5
    assert paused_ones(scene) == []


IMAGE = {"containers": [{"name": "agent", "image": "registry.example.com/agent:1.9.1"}]}


@pytest.mark.parametrize(
    ("spec", "now"),
    [
        ({"template": {"spec": IMAGE}}, "revision 2, image agent:1.9.1"),
        ({"updateStrategy": {"rollingUpdate": {"partition": 3}}}, "partition 3"),
        ({"updateStrategy": {"rollingUpdate": {"paused": True}}}, "paused"),
        ({"minReadySeconds": 7}, "generation 2"),
    ],
    ids=["template", "partition", "paused", "else"],
)
def test_message_12_a_spec_that_was_changed_meanwhile_is_not_overwritten(
    scene: Scene, spec: Object, now: str
) -> None:
    get_between(scene, lambda: scene.edit({"spec": spec}))
    ran = acted(scene, "set-partition", "1")
    assert ran == Ran(
        6,
        "",
        f"error: node-agent changed while you were looking (now {now})\n"
        "  hint: run the command again to see the new plan\n",
    )
    assert len(patches(scene)) == 1
    assert "annotations" not in stored(scene)["metadata"]


def test_message_12_for_another_object_of_the_same_name(scene: Scene) -> None:
    async def replace() -> None:
        body = await scene.api.get(DAEMONSETS, "node-agent")
        await scene.api.delete(DAEMONSETS, "node-agent")
        await scene.api.create(DAEMONSETS, {"metadata": {"name": "node-agent"}, "spec": body["spec"]})

    get_between(scene, replace)
    ran = acted(scene, "pause")
    assert ran.err.startswith("error: node-agent changed while you were looking (now another object of that name)\n")
    assert ran.code == 6
    assert paused_ones(scene) == []


# what is worth a warning


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "agents:apps.kruise.io/DaemonSet:observability/x"}},
            'Argo CD app "agents" (self-heal may revert this); change it in Git as well',
        ),
        (
            {"labels": {"kustomize.toolkit.fluxcd.io/name": "agents"}},
            'Flux Kustomization "agents" (its next reconciliation may revert this); change it in Git as well',
        ),
    ],
    ids=["argo", "flux"],
)
def test_message_13_somebody_else_owns_it(scene: Scene, metadata: Object, words: str) -> None:
    scene.do(scene.edit({"metadata": metadata}))
    assert acted(scene, "pause", "-q") == Ran(0, PAUSED, f"warning: node-agent is managed by {words}\n")
    assert acted(scene, "pause").err == "", "nothing is written, so nothing can be reverted"


def test_message_4_no_controller_is_active() -> None:
    with abandoned() as scene:
        ran = acted(scene, "pause", "-q")
    assert ran == Ran(
        0,
        PAUSED,
        "warning: patched, but no controller is active: "
        "lease kruise-ds-system/kruise-ds-controller was last renewed 14m ago\n",
    )


def test_message_4_where_no_controller_ever_was(scene: Scene) -> None:
    scene.do(scene.controller.kill())
    scene.do(scene.api.delete(LEASES, LEASE, namespace=SYSTEM))
    assert acted(scene, "pause", "-q").err == (
        "warning: patched, but no controller is active: there is no lease kruise-ds-system/kruise-ds-controller\n"
    )


def test_message_4_where_the_controller_has_said_goodbye(scene: Scene) -> None:
    scene.do(scene.controller.kill())
    gone = {"spec": {"holderIdentity": ""}}
    scene.do(scene.api.patch(LEASES, LEASE, gone, namespace=SYSTEM, content_type=MERGE_PATCH))
    scene.pass_time(20.0)
    err = acted(scene, "pause", "-q").err
    assert err.startswith(
        "warning: patched, but no controller is active: lease kruise-ds-system/kruise-ds-controller was given back "
    )


def test_who_may_not_read_the_lease_is_not_bothered(scene: Scene) -> None:
    scene.do(scene.controller.kill())
    scene.do(scene.api.delete(LEASES, LEASE, namespace=SYSTEM))
    scene.door.forbid("get", "leases.coordination.k8s.io")
    assert acted(scene, "pause", "-q") == Ran(0, PAUSED, "")


# questions


def test_a_no_changes_nothing(scene: Scene) -> None:
    ran = acted(scene, "restart", terminal=True, typed="n\n")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.endswith("Continue? [y/N] nothing was changed\n")
    assert patches(scene) == []


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {"terminal": True, "typed": "y\n"}),
        (("-y",), {"terminal": True}),
        ((), {}),
        ((), {"terminal": True, "environ": {"KRUISE_DS_PROMPT": "never"}}),
        ((), {"typed": "yes\n", "environ": {"KRUISE_DS_PROMPT": "always"}}),
    ],
    ids=["yes", "flag", "no terminal", "never", "always"],
)
def test_it_goes_ahead(scene: Scene, words: tuple[str, ...], options: dict[str, Any]) -> None:
    ran = acted(scene, "restart", *words, **options)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "daemonset.apps.kruise.io/node-agent restarted")
    assert len(patches(scene)) == 1


@pytest.mark.parametrize("words", [("--dry-run=client",), ("--dry-run=server",), ("--print-patch",)])
def test_what_writes_nothing_asks_nothing(scene: Scene, words: tuple[str, ...]) -> None:
    ran = acted(scene, "restart", *words, terminal=True)
    assert (ran.code, ran.err) == (0, "")


# several objects


def test_none_chosen_is_wrong_usage(scene: Scene) -> None:
    ran = scene.run("pause", *HOME)
    assert ran == Ran(2, "", "error: which one? give a name, -l LABELS or --all\n")


@pytest.mark.parametrize("words", [("node-agent", "--all"), ("--all", "-l", "app=node-agent")])
def test_two_ways_to_choose_are_one_too_many(scene: Scene, words: tuple[str, ...]) -> None:
    ran = scene.run("pause", *words, *HOME)
    assert ran == Ran(2, "", "error: give names, -l or --all, not two of them\n")


def test_none_found_is_an_error(scene: Scene) -> None:
    ran = scene.run("pause", "-l", "app=other", *HOME)
    assert ran == Ran(1, "", "error: no Advanced DaemonSet was found in namespace observability\n")


def test_several_without_a_terminal_need_yes(three: Scene) -> None:
    ran = three.run("pause", "--all", *HOME)
    assert ran == Ran(
        6,
        "",
        "error: 3 DaemonSets would be changed, and there is no terminal to ask\n"
        "  hint: add --yes if that is what you want\n",
    )
    assert paused_ones(three) == []


@pytest.mark.parametrize("words", [("--all",), ("node-agent", "log-agent", "net-agent"), ("-A",)])
def test_with_yes_all_of_them_are_changed(three: Scene, words: tuple[str, ...]) -> None:
    ran = three.run("pause", *words, "-y", "-q", *HOME)
    lines = {f"daemonset.apps.kruise.io/{name} paused" for name in ("log-agent", "net-agent", "node-agent")}
    assert (ran.code, set(ran.out.splitlines()), ran.err) == (0, lines, "")
    assert paused_ones(three) == ["log-agent", "net-agent", "node-agent"]
    assert len(patches(three)) == 3


def test_on_a_terminal_one_question_is_asked_for_all(three: Scene) -> None:
    three.run("pause", "log-agent", *HOME)
    ran = three.run("pause", "--all", "-q", *HOME, terminal=True, typed="y\n")
    assert ran.err == (
        "3 DaemonSets:\n"
        "  observability/log-agent  already paused\n"
        "  observability/net-agent  paused\n"
        "  observability/node-agent  paused\n"
        "Continue? [y/N] "
    )
    assert paused_ones(three) == ["log-agent", "net-agent", "node-agent"]
    assert len(patches(three)) == 3, "one of them was paused already"


def test_and_a_no_is_a_no_for_all(three: Scene) -> None:
    assert three.run("restart", "--all", *HOME, terminal=True, typed="\n").code == 6
    assert patches(three) == []


def test_when_all_are_so_already_nobody_is_asked(three: Scene) -> None:
    three.run("pause", "--all", "-y", *HOME)
    ran = three.run("pause", "--all", "-q", *HOME)
    assert (ran.code, ran.err) == (0, "")


def test_all_namespaces_need_yes_even_on_a_terminal(three: Scene) -> None:
    ran = three.run("pause", "-A", terminal=True, typed="y\n")
    assert ran == Ran(
        6,
        "",
        "error: -A would change 3 DaemonSets in all namespaces\n  hint: add --yes if that is what you want\n",
    )
    assert paused_ones(three) == []


def test_one_that_is_refused_does_not_keep_the_others(three: Scene) -> None:
    strategy = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    three.do(three.edit({"spec": strategy}, "log-agent"))
    ran = three.run("pause", "--all", "-y", *HOME)
    assert ran.code == 6
    assert ran.err.startswith("error: cannot pause log-agent: updateStrategy is OnDelete")
    assert paused_ones(three) == ["net-agent", "node-agent"]


def test_one_that_fails_at_the_server_does_not_keep_the_others(three: Scene) -> None:
    get_between(three, lambda: three.edit({"spec": {"minReadySeconds": 7}}, "log-agent"))
    ran = three.run("pause", "log-agent", "net-agent", "-y", *HOME)
    assert ran.code == 6
    assert ran.err.startswith("error: log-agent changed while you were looking")
    assert paused_ones(three) == ["net-agent"]
