"""How many requests a verb needs, and which of them a slow server holds up."""

from __future__ import annotations

import json

import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.simulator.faults import Hang, Rule
from tests.plugin.scene import daemonset_named
from tests.plugin.verbs.few_nodes import HOME, KIND, NODES, acted, few_nodes, moving, paused_ones, stop_serving

REVISIONS = "list controllerrevisions.apps"


@pytest.mark.parametrize(
    "words", [("list", "-A"), ("list", *HOME), ("status", *HOME), ("restart", "--all", "-y", *HOME)], ids=" ".join
)
def test_revisions_are_read_once_for_all(words: tuple[str, ...]) -> None:
    with few_nodes("net-agent", "log-agent") as scene:
        before = scene.door.link.counts()[REVISIONS]
        assert scene.run(*words).code == 0
        assert scene.door.link.counts()[REVISIONS] - before == 1


def test_each_object_gets_its_own_revisions() -> None:
    with moving() as scene:
        scene.do(scene.api.create(DAEMONSETS, daemonset_named("net-agent")))
        scene.pass_time(200.0)
        listed = json.loads(scene.run("list", "-A", "-o", "json").out)["items"]
    assert [(one["name"], one["revision"]) for one in listed] == [("net-agent", 1), ("node-agent", 2)]


def test_a_pause_is_written_before_pods_and_nodes_are_read() -> None:
    with few_nodes("net-agent") as scene:
        scene.door.link.seen.clear()
        acted(scene, "pause")
        order = [f"{seen.route.verb} {seen.route.resource}" for seen in scene.door.link.seen]
        assert order[:2] == [f"get {KIND}", f"patch {KIND}"]
        assert {"list pods", "list nodes", REVISIONS} < set(order[2:])
        scene.door.link.seen.clear()
        scene.run("pause", "--all", "-y", *HOME)
        assert [seen.route.verb for seen in scene.door.link.seen][:2] == ["list", "patch"]


def test_a_slow_server_gets_a_pause_after_one_answer() -> None:
    with moving() as scene:
        scene.door.link.latency = 0.8
        began = scene.ticks()
        assert acted(scene, "pause").code == 0
        (answered,) = (seen.at for seen in scene.door.link.seen if seen.route.verb == "patch")
    assert answered - began == pytest.approx(1.6)


def test_a_pause_does_not_need_the_details_under_it() -> None:
    with few_nodes() as scene:
        scene.door.link.faults.add(Rule(Hang(), verb="list"))
        ran = acted(scene, "pause")
        assert paused_ones(scene) == ["node-agent"]
    assert (ran.code, ran.out) == (0, "daemonset.apps.kruise.io/node-agent paused\n")
    assert "note: some details are missing: nodes: no answer within 1s\n" in ran.err


@pytest.mark.parametrize("words", [("-q",), ("-o", "name"), ("-o", "json")], ids=" ".join)
def test_nothing_is_read_for_lines_that_are_not_printed(words: tuple[str, ...]) -> None:
    with few_nodes() as scene:
        before = scene.door.link.counts()
        assert acted(scene, "pause", *words).code == 0
        after = scene.door.link.counts()
    assert [one for one in ("list pods", "list nodes", REVISIONS) if after[one] != before[one]] == []


def test_pods_of_all_in_trouble_are_listed_side_by_side() -> None:
    with few_nodes("net-agent", "log-agent") as scene:
        scene.do(stop_serving(scene, *NODES))
        scene.pass_time(60.0)
        before, scene.door.link.latency = scene.door.link.counts()["list pods"], 0.5
        began = scene.ticks()
        assert scene.run("list", *HOME).code == 0
        assert scene.ticks() - began == pytest.approx(1.5), "the DaemonSets, their revisions, and all pods"
        assert scene.door.link.counts()["list pods"] - before == 3
