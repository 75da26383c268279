"""`plan`: what it prints of the sample rollouts, what if, from manifests, with fewer rights, and its exit codes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller.api.objects import epoch
from kubectl_plugin.forecast.forecast import MOST_WAVES
from tests.beds.api import DAEMONSETS, NODES, PODS
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.refusal import Refused
from tests.plugin import scene as scenes
from tests.plugin.in_process import call
from tests.plugin.scene import (
    NAME,
    NAMESPACE,
    Ran,
    Scene,
    canary,
    daemonset,
    manifest,
    settled,
    template,
    written,
)
from tests.plugin.verbs.few_nodes import few_nodes

HERE = ("-n", NAMESPACE)


def plan(scene: Scene, *words: str, **options: Any) -> Ran:
    return scene.run("plan", NAME, *HERE, *words, **options)


def document(scene: Scene, *words: str) -> Any:
    ran = plan(scene, *words, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    return msgspec.json.decode(ran.out)


def waves(found: Any) -> list[list[str]]:
    return [[move["node"] for move in wave["moves"]] for wave in found["waves"]]


# what people see


def test_the_canary_of_the_mock_up() -> None:
    with canary() as scene:
        scene.check("plan/canary", "plan", NAME, *HERE)
        scene.check("plan/canary-colour", "plan", NAME, *HERE, colour=True)
        scene.check("plan/canary-wide", "plan", NAME, *HERE, "-o", "wide")
        whole = scene.check("plan/canary-json", "plan", NAME, *HERE, "-o", "json").out
        assert yaml.safe_load(plan(scene, "-o", "yaml").out) == msgspec.json.decode(whole)
        scene.check("plan/what-if", "plan", NAME, *HERE, "--partition", "0", "--max-unavailable", "25%")
        scene.check("plan/what-if-image", "plan", NAME, *HERE, "--image", "agent=registry.example.com/agent:1.9.1")


WHOLE = ("--partition", "0", "--waves", "0")


def test_a_forecast_that_takes_long_says_how_far_it_is() -> None:
    seconds = count(0.0, 1.0)
    with canary() as scene:
        quick = plan(scene, *WHOLE)
        ran, quiet = (plan(scene, *WHOLE, *flags, ticks=lambda: next(seconds)) for flags in ((), ("-q",)))
    assert (quick.err, quiet.err) == ("", "")
    assert ran.err.startswith(f"note: still working out the waves of {NAME}: ")
    numbers = [int(line.split(": ")[2].split()[0]) for line in ran.err.splitlines()]
    assert numbers == sorted(set(numbers))


def test_control_c_ends_a_forecast_at_once() -> None:
    """No other task gets a turn while it is worked out, so there is nothing that could be cancelled."""
    interrupted = list[bool]()

    def ours(*_: object) -> None: ...

    def ticks() -> float:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            interrupted.append(True)
            signal.raise_signal(signal.SIGINT)
        return scene.ticks()

    with canary() as scene:
        before = signal.signal(signal.SIGINT, ours)
        try:
            ran = plan(scene, *WHOLE, ticks=ticks)
            assert signal.getsignal(signal.SIGINT) is ours
        finally:
            signal.signal(signal.SIGINT, before)
        assert plan(scene).code == 0
    assert (ran.code, ran.out, ran.err, interrupted) == (130, "", "", [True])


@pytest.mark.parametrize(
    "opened",
    [
        scenes.settled,
        scenes.held,
        scenes.soaking,
        scenes.awaiting_approval,
        scenes.aborted,
        scenes.paused,
        scenes.on_delete,
        scenes.first_deployment,
        scenes.surge,
        scenes.in_place,
        scenes.refused,
        scenes.stalled,
        scenes.abandoned,
    ],
    ids=lambda one: one.__name__,
)
def test_how_the_other_scenes_look(opened: Callable[[], AbstractContextManager[Scene]]) -> None:
    with opened() as scene:
        scene.check(f"plan/{opened.__name__}", "plan", NAME, *HERE)


def test_grace_periods_count_for_nodes_that_are_not_worked_out_too() -> None:
    with scenes.in_place() as scene:
        scene.check("plan/in_place-what-if", "plan", NAME, *HERE, "--partition", "0", "--waves", "2", columns=120)


# what if


@pytest.mark.parametrize(
    ("words", "code", "err"),
    [
        (
            ("--partition", "half"),
            2,
            'error: invalid partition "half": use a number (0 or more) or a percentage from 0% to 100%\n',
        ),
        (
            ("--max-unavailable", "-1"),
            2,
            'error: invalid maxUnavailable "-1": use a number (0 or more) or a percentage from 0% to 100%\n',
        ),
        (("--image", "agent"), 2, 'error: invalid image "agent": use CONTAINER=IMAGE, or *=IMAGE\n'),
        (("--image", "other=x:1"), 1, 'error: node-agent has no container "other"; it has: agent\n'),
        (("--waves", "-1"), 2, "error: invalid --waves -1: use a number, or 0 for the most\n"),
    ],
)
def test_what_cannot_be_tried_out_is_reported(words: tuple[str, ...], code: int, err: str) -> None:
    with settled() as scene:
        ran = plan(scene, *words)
        assert (ran.code, ran.out, ran.err) == (code, "", err)


def test_on_delete_has_no_settings_to_try_out() -> None:
    with scenes.on_delete() as scene:
        ran = plan(scene, "--partition", "0")
        assert (ran.code, ran.err.splitlines()[0]) == (
            6,
            "error: cannot plan another partition of node-agent: updateStrategy is OnDelete, pods change only when"
            " you delete them",
        )


def test_the_help_says_how_many_waves_there_are_at_most() -> None:
    assert f"at most {MOST_WAVES}; 0 for so many" in " ".join(call(["plan", "--help"]).out.split())


def test_all_waves_are_worked_out_when_asked_for() -> None:
    with scenes.abandoned() as scene:
        few, whole = document(scene, "--waves", "3"), document(scene, "--waves", "0")
        assert waves(few) == waves(whole)[:3]
        assert few["rest"]["nodes"] == [node for wave in waves(whole)[3:] for node in wave]
        assert (len(waves(whole)), whole["rest"]["nodes"]) == (12, [])
        assert few["effect"] == whole["effect"]
        assert few["end"]["updated"] == whole["end"]["updated"] == 24


# from manifests


def test_a_manifest_is_planned_before_it_is_applied(tmp_path: Path) -> None:
    with settled() as scene:
        ran = scene.run("plan", "-f", written(tmp_path, manifest("1.9.0", partition=22)), "-o", "json")
        found = msgspec.json.decode(ran.out)
        assert found["asked"] == ["image agent 1.8.4 -> 1.9.0", "partition 0 -> 22"]
        assert waves(found) == [["c-08", "c-07"]]


def test_what_a_manifest_creates() -> None:
    with settled() as scene:
        typed = yaml.safe_dump(manifest(name="other", partition=8))
        scene.check("plan/new", "plan", "-f", "-", typed=typed)
        assert [one["metadata"]["name"] for one in scene.do(scene.api.list(DAEMONSETS))] == [NAME]


def test_several_manifests_are_planned_one_after_the_other(tmp_path: Path) -> None:
    with settled() as scene:
        path = written(tmp_path, manifest("1.9.0"), {"kind": "ConfigMap"}, manifest(name="other"))
        found = msgspec.json.decode(scene.run("plan", "-f", path, "-o", "json").out)
        assert found["kind"] == "RolloutPlanList"
        assert [one["metadata"]["name"] for one in found["items"]] == [NAME, "other"]
        lines = scene.run("plan", "-f", path).out.splitlines()
        assert [line.partition(":")[0] for line in lines if ": revision" in line] == [NAME, "other"]
        only = msgspec.json.decode(scene.run("plan", "other", "-f", path, "-o", "json").out)
        assert only["metadata"]["name"] == "other"
        missing = scene.run("plan", "third", "-f", path)
        assert (missing.code, missing.err) == (1, "error: no Advanced DaemonSet third in the files of -f and -k\n")


def test_a_name_or_a_manifest_is_needed() -> None:
    with settled() as scene:
        ran = scene.run("plan", *HERE)
        assert (ran.code, ran.err) == (2, "error: which one? give a name, or -f with its manifest\n")


# exit codes


def test_the_exit_code_tells_whether_anything_would_change(tmp_path: Path) -> None:
    with settled() as scene:
        assert plan(scene, "--exit-code").code == 0
        assert plan(scene, "--image", "*=registry.example.com/agent:1.9.0", "--exit-code").code == 7
        assert plan(scene, "--image", "*=registry.example.com/agent:1.9.0").code == 0
        assert plan(scene, "--max-unavailable", "5", "--exit-code").code == 0
        same = written(tmp_path, manifest("1.8.4"))
        assert scene.run("plan", "-f", same, "--exit-code").code == 0


def test_while_surging_pods_that_claim_a_host_port_are_not_promised() -> None:
    """As an older CRD may have let in."""
    with settled() as scene:
        claims: Any = template("1.8.4")
        claims["spec"]["containers"][0]["ports"] = [{"containerPort": 9100, "hostPort": 9100}]
        scene.do(scene.edit({"spec": {"template": claims}}))
        scene.pass_time(3600.0)
        scene.do(scene.edit({"spec": scenes.rolling(maxSurge=2, maxUnavailable=0, rollingUpdateType="Standard")}))
        words = ("--image", "agent=registry.example.com/agent:1.9.0")
        found = document(scene, *words)
        assert waves(found) == [["c-08", "c-07"]]
        assert (found["effect"]["surged"], found["effect"]["beside"], found["end"]["phase"]) == (0, 2, "Stalled")
        assert found["kept"]["budget"][0] == "c-06"
        assert "Effect     2 pods created beside an old one that stays; no node is down\n" in plan(scene, *words).out


# it comes true


def updated_since(scene: Scene, moment: float) -> list[list[str]]:
    """Nodes that got a new pod, one list for each second in which pods were made."""
    made: dict[str, list[str]] = {}
    for pod in scene.do(scene.api.list(PODS)):
        stamp = pod["metadata"]["creationTimestamp"]
        if (epoch(stamp) or 0.0) >= int(moment):
            made.setdefault(stamp, []).append(pod["spec"]["nodeName"])
    return [sorted(made[stamp]) for stamp in sorted(made)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"maxUnavailable": 1}, ["a-04", "a-03", "a-02", "a-01"]),
        ({"maxUnavailable": 3}, ["a-02 a-03 a-04", "a-01"]),
        ({"maxUnavailable": 1, "partition": "50%"}, ["a-04", "a-03"]),
        ({"maxUnavailable": 1, "selector": {"matchLabels": {"canary": "yes"}}}, ["a-03", "a-01"]),
        ({"maxUnavailable": 0, "maxSurge": 2}, ["a-03 a-04", "a-01 a-02"]),
        ({"partition": 4}, []),
    ],
    ids=["one at a time", "three", "partition", "selector", "surge", "nobody"],
)
def test_an_image_goes_where_and_when_it_was_planned(limits: dict[str, Any], expected: list[str]) -> None:
    with few_nodes(**limits) as scene:
        for node in ("a-01", "a-03"):
            scene.do(scene.api.patch(NODES, node, {"metadata": {"labels": {"canary": "yes"}}}))
        scene.nodes.behave("*", scenes.PACE)
        scene.pass_time(60.0)
        image = "agent=registry.example.com/agent:2.0.0"
        found, since = document(scene, "--image", image), scene.now()
        assert [" ".join(sorted(wave)) for wave in waves(found)] == expected
        assert (found["wouldChange"], scene.run("set-image", NAME, image, *HERE).code) == (bool(expected), 0)
        scene.pass_time(1800.0)
        assert [" ".join(wave) for wave in updated_since(scene, since)] == expected


def test_without_the_right_to_create_pods_the_template_is_not_checked() -> None:
    with canary() as scene:
        scene.door.forbid("create", "pods")
        (check,) = [one for one in document(scene)["checks"] if one["name"] == "TemplateDryRun"]
        assert (check["result"], check["text"]) == (
            "skipped",
            "server dry-run of the pod template: no right to create pods",
        )


def test_without_the_right_to_change_it_a_try_is_not_checked_by_the_server() -> None:
    with canary() as scene:
        scene.door.forbid("patch", "daemonsets.apps.kruise.io")
        ran = plan(scene, "--partition", "8")
        assert ran.code == 0
        assert ran.err == "note: not checked by the server: no right to change the DaemonSet\n"
        assert "what if  partition 16 → 8" in ran.out


def test_without_the_right_to_create_it_a_new_one_is_planned_all_the_same(tmp_path: Path) -> None:
    with settled() as scene:
        scene.door.forbid("patch", "daemonsets.apps.kruise.io")
        ran = scene.run("plan", "-f", written(tmp_path, manifest(name="other")), "-o", "json")
        assert (ran.code, ran.err) == (0, "note: not checked by the server: no right to change the DaemonSet\n")
        found = msgspec.json.decode(ran.out)
        assert [len(wave) for wave in waves(found)] == [24]
        assert {one["name"]: one["result"] for one in found["checks"]}["TemplateDryRun"] == "skipped"


def test_without_the_right_to_list_nodes_those_with_pods_stand_for_all() -> None:
    with canary() as scene:
        scene.door.forbid("list", "nodes")
        found = document(scene)
        assert waves(found) == [["c-02"], ["c-01"]]
        (check,) = [one for one in found["checks"] if one["name"] == "MissingRights"]
        assert check["text"].startswith("no right to list nodes: ")


@pytest.mark.parametrize("what", ["pods", "controllerrevisions"])
def test_without_a_right_a_plan_would_be_a_guess(what: str) -> None:
    with canary() as scene:
        scene.door.forbid("list", f"{what}*")
        ran = plan(scene)
    words = f"error: a plan for {NAME} needs the right to list {what} in namespace {NAMESPACE}\n"
    assert (ran.code, ran.out, ran.err) == (1, "", words)


@contextmanager
def refused_from_the_start(words: str) -> Iterator[Scene]:
    def admission(attempt: Attempt) -> None:
        if attempt.kind.plural == "pods" and attempt.verb == "create":
            raise Refused(403, "Forbidden", f'pods "{attempt.name}" is forbidden: {words}')

    with scenes.opened() as scene:
        scene.do(scenes.join(scene))
        scene.cluster.admission.append(admission)
        scene.do(scene.api.create(DAEMONSETS, daemonset()))
        scene.pass_time(60.0)
        yield scene


@pytest.mark.parametrize("words", [scenes.REFUSAL, "exceeded quota: pods"], ids=["policy", "quota"])
@pytest.mark.parametrize("may_ask", [True, False])
def test_a_first_deployment_whose_pods_are_refused_promises_none(words: str, may_ask: bool) -> None:
    """By the dry run, or by the answer to the controller: without the right to ask, or where no dry run tells."""
    with refused_from_the_start(words) as scene:
        if not may_ask:
            scene.door.forbid("create", "pods")
        found = document(scene)
        assert (found["wouldChange"], waves(found), found["end"]["updated"]) == (False, [], 0)
        assert found["end"]["phase"] != "Healthy"
        assert len(found["kept"]["refused"]) == 24
        (failed,) = [one for one in found["checks"] if one["result"] == "failed"]
        assert words in failed["text"]
        assert "Effect     nothing happens until the server accepts its pods\n" in plan(scene).out
