"""`status`: every block of the mock-ups as a golden file, documents, and exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, NODES, PODS
from tests.plugin import scene as scenes
from tests.plugin.scene import LAST_WORDS, NAME, NAMESPACE, STATUS, Opened, canary, held, settled
from tests.plugin.situations import CODES
from tests.plugin.verbs.few_nodes import few_nodes


def name_of(opened: Opened) -> str:
    return getattr(opened, "__name__", "")


@pytest.mark.parametrize("opened", CODES, ids=name_of)
def test_block_document_and_exit_code_agree(opened: Opened) -> None:
    """The exit code is what waiting would end with."""
    with opened() as scene:
        assert scene.check(f"status/{name_of(opened)}", *STATUS).code == 0
        assert scene.run(*STATUS, "--exit-code").code == CODES[opened]
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
        stored = scene.do(scene.api.get(DAEMONSETS, NAME))["status"]["rollout"]
    nodes = document["nodes"]
    parts = [nodes[state] for state in ("updated", "updating", "failing", "next", "old", "missing")]
    assert sum(parts) == nodes["desired"] == sum(group["nodes"] for group in document["groups"])
    assert nodes["desired"] == (23 if opened is scenes.preparing else 24)
    assert sum(group["updated"] for group in document["groups"]) == nodes["updated"]
    if opened is not scenes.abandoned:
        assert document["phase"] == stored["phase"]


def test_in_a_narrow_terminal_lines_are_cut_and_say_so_except_commands() -> None:
    with canary() as scene:
        lines = scene.run(*STATUS, columns=40, only_ascii=True).out.splitlines()
    assert max(map(len, lines)) <= 40
    assert "  Target     8 of 24 nodes   partitio..." in lines
    assert "  Try        kubectl logs -n \\" in lines


def test_the_canary_in_colour_and_wide() -> None:
    with canary() as scene:
        coloured = scene.check("status/canary-colour", *STATUS, colour=True)
        wide = scene.check("status/canary-wide", *STATUS, "-o", "wide")
    assert "\x1b[31m" in coloured.out
    assert "registry.example.com/agent:1.9.0" in wide.out


def test_the_document_names_the_pods_that_a_hook_holds() -> None:
    with scenes.preparing() as scene:
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
        pods = {node: scene.do(scene.pod_on(node))["metadata"] for node in ("c-08", "c-07", "b-01")}
    since = "lifecycle.apps.kruise.io/timestamp"
    held_by = ["label example.io/block-deleting=true"]
    assert document["preparing"] == [
        {"node": node, "pod": meta["name"], "since": meta["annotations"][since], "heldBy": held_by}
        for node, meta in pods.items()
    ]


def test_the_document_of_the_mock_up() -> None:
    with canary() as scene:
        scene.check("status/canary-json", *STATUS, "-o", "json")
        document = json.loads(scene.run(*STATUS, "-o", "json").out)
        yaml = scene.run(*STATUS, "-o", "yaml").out
    assert document["problems"][0]["message"] == LAST_WORDS
    assert "phase: Progressing\n" in yaml


def test_a_list_of_all_objects_is_a_document_too() -> None:
    with settled() as scene:
        document = json.loads(scene.run("status", "-n", NAMESPACE, "-o", "json").out)
        names = scene.run("status", "-A", "-o", "name")
    assert (document["kind"], [one["name"] for one in document["items"]]) == ("RolloutStatusList", [NAME])
    assert names.out == f"daemonset.apps.kruise.io/{NAME}\n"


def test_nothing_there_is_no_failure() -> None:
    with scenes.opened() as scene:
        ran = scene.run("status", "-n", NAMESPACE)
    assert (ran.code, ran.out) == (0, "")
    assert NAMESPACE in ran.err


def test_the_last_line_of_the_logs_where_the_status_has_no_words() -> None:
    with canary() as scene:
        pod = scene.do(scene.pod_on("c-04"))
        scene.do(scene.say_last_words(pod, ""))
        scene.door.logs[pod["metadata"]["name"]] = "panic: no route\n"
        told = scene.run(*STATUS).out
        silent = scene.run(*STATUS, "--no-logs").out
        scene.door.forbid("get", "pods/log")
        forbidden = scene.run(*STATUS)
    assert '"panic: no route"' in told
    assert "panic" not in silent
    assert "back-off" not in silent
    assert forbidden.code == 0
    assert "panic" not in forbidden.out


def test_the_clock_can_be_stopped() -> None:
    with canary() as scene:
        later = scene.run(*STATUS, environ={"KRUISE_DS_NOW": "2025-11-20T12:07:58Z"})
    assert "started 10m ago" in later.out


def test_grouped_by_another_label() -> None:
    with canary() as scene:
        out = scene.run(*STATUS, "--by", "kubernetes.io/arch").out
    assert "  amd64   " + "○" * 16 + "◇◇◐✗●●●●   4 of 24" in out


def test_several_objects_stand_one_below_the_other() -> None:
    with held() as scene:
        scene.do(scene.api.create(DAEMONSETS, scenes.daemonset_named("log-shipper")))
        scene.pass_time(120.0)
        scene.check("status/two", "status", "-n", NAMESPACE)


def test_a_node_that_lost_its_pod_and_one_more_that_is_new() -> None:
    with held() as scene:
        scene.nodes.behave("*", replace(scenes.PACE, ready=None))
        scene.do(scene.api.delete(PODS, scene.do(scene.pod_on("a-03"))["metadata"]["name"]))
        scene.do(scenes.join(scene, ["d-01"]))
        scene.pass_time(30.0)
        scene.check("status/lost-and-new", *STATUS)
        assert len(scene.do(scene.api.list(NODES))) == 25


def test_words_of_the_cluster_do_not_command_the_terminal() -> None:
    with canary() as scene:
        scene.do(scene.say_last_words(scene.do(scene.pod_on("c-04")), "\x1b[2J\x07gone\r\nnext"))
        out = scene.run(*STATUS).out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "gone" in out


def test_manifests_name_the_objects(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("apiVersion: apps.kruise.io/v1beta1\nkind: DaemonSet\nmetadata: {name: node-agent}\n")
    with held() as scene:
        assert scene.run("status", "-n", NAMESPACE, "-f", str(path)).out == scene.run(*STATUS).out
        assert scene.run("status", NAME, "-f", str(path)).code == 2


@pytest.mark.parametrize(
    "flags",
    [
        ("--timeout", "5m"),
        ("--timeout", "xx"),
        ("--timeout", "5m", "--exit-code"),
        ("--plain",),
        ("--plain", "--exit-code"),
        ("--revision", "7"),
        ("--require-full",),
        ("--fail-fast",),
    ],
    ids=" ".join,
)
def test_a_flag_that_means_nothing_without_waiting_is_refused(flags: tuple[str, ...]) -> None:
    with scenes.opened() as scene:
        ran = scene.run(*STATUS, *flags)
    assert (ran.code, ran.out) == (2, "")
    assert flags[0] in ran.err


@pytest.mark.parametrize(
    ("flags", "code"),
    [(("--require-full",), 5), (("--revision", "6"), 6), (("--fail-fast",), 0), (("--timeout", "0"), 0)],
)
def test_flags_of_the_ending_mean_something_with_exit_code(flags: tuple[str, ...], code: int) -> None:
    with held() as scene:
        assert scene.run(*STATUS, *flags, "--exit-code").code == code


@pytest.mark.parametrize("which", [(NAME, "log-agent"), (NAME, "gone"), ("-A",)], ids=" ".join)
@pytest.mark.parametrize("flag", ["--revision", "--generation"])
@pytest.mark.parametrize("mode", ["-w", "--exit-code"])
def test_the_number_of_one_is_not_asked_of_several(which: tuple[str, ...], flag: str, mode: str) -> None:
    """Each counts its own: one of them would end it with 6, or with 0 too early."""
    with few_nodes("log-agent") as scene:
        ran = scene.run("status", *which, "-n", NAMESPACE, flag, "1", mode)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"error: {flag} counts the changes of one DaemonSet, and these are 2: name one\n"
        assert scene.run("status", NAME, f"ads/{NAME}", "-n", NAMESPACE, flag, "1", mode).code == 0, "it is one"


def test_one_object_in_two_spellings_is_reported_once() -> None:
    with held() as scene:
        assert scene.run(*STATUS, f"ads/{NAME}").out == scene.run(*STATUS).out
        assert json.loads(scene.run(*STATUS, f"ads/{NAME}", "-o", "json").out)["name"] == NAME


def test_what_exists_is_reported_before_the_error_of_what_does_not() -> None:
    with held() as scene:
        ran = scene.run("status", "nope", NAME, "-n", NAMESPACE)
        assert ran.out == scene.run(*STATUS).out
        alone = scene.run("status", "nope", "-n", NAMESPACE)
        watched = scene.run("status", "nope", NAME, "-n", NAMESPACE, "-w")
        document = json.loads(scene.run("status", "nope", NAME, "-n", NAMESPACE, "-o", "json").out)
    assert (ran.code, ran.err.startswith('error: daemonsets.apps.kruise.io "nope" not found')) == (1, True)
    assert (alone.code, alone.out) == (1, "")
    assert (watched.code, watched.out, watched.err) == (1, "", alone.err), "it would never come"
    assert [one["name"] for one in document["items"]] == [NAME]
