"""`list`: one line each, and only those that are asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.beds.api import DAEMONSETS, MERGE_PATCH
from tests.beds.simulator.faults import Answer, Rule
from tests.plugin.playing import Meanwhile
from tests.plugin.scene import PACE, Ran, Scene, canary, daemonset, held


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """The canary, a DaemonSet that is held and one that is done."""
    with canary() as opened:
        done = {**daemonset(), "metadata": {"name": "log-shipper", "labels": {"tier": "logs"}}}
        done["spec"]["selector"] = {"matchLabels": {"app": "log-shipper"}}
        done["spec"]["template"] = {
            "metadata": {"labels": {"app": "log-shipper"}},
            "spec": {
                "nodeSelector": {"topology.kubernetes.io/zone": "zone-a"},
                "containers": [{"name": "shipper", "image": "registry.example.com/shipper:3.1"}],
            },
        }
        opened.do(opened.api.create(DAEMONSETS, done))
        opened.pass_time(120.0)
        yield opened


def test_how_all_of_them_look(scene: Scene) -> None:
    scene.check("list/all", "list", "-A")
    scene.check("list/all-colour", "list", "-A", colour=True)


def test_wide_is_never_cut(scene: Scene) -> None:
    ran = scene.run("list", "-n", "observability", "-o", "wide", columns=60)
    assert "agent:1.9.0" in ran.out
    assert "…" not in ran.out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("-n", "observability"), ["log-shipper", "node-agent"]),
        (("-A", "-l", "tier=logs"), ["log-shipper"]),
        (("-A", "--phase", "healthy"), ["log-shipper"]),
        (("-A", "--phase", "Progressing,stalled"), ["node-agent"]),
        (("-n", "kube-system"), []),
    ],
)
def test_which_ones(scene: Scene, words: tuple[str, ...], names: list[str]) -> None:
    ran = scene.run("list", *words, "-o", "json")
    assert [one["name"] for one in json.loads(ran.out)["items"]] == names


def test_nothing_there_is_said_as_kubectl_says_it(scene: Scene) -> None:
    ran = scene.run("list", "-n", "kube-system")
    assert (ran.code, ran.out, ran.err) == (0, "", "note: No resources found in kube-system namespace.\n")


def test_an_unknown_phase(scene: Scene) -> None:
    ran = scene.run("list", "--phase", "broken")
    assert ran.code == 2
    assert ran.err.startswith('error: invalid --phase "broken": use Pending, Progressing, ')


def test_without_a_record_of_ours_it_says_what_status_says() -> None:
    with held() as scene:
        scene.do(scene.controller.kill())
        merge = {"sub": "status", "content_type": MERGE_PATCH}
        scene.do(scene.api.patch(DAEMONSETS, "node-agent", {"status": {"rollout": None}}, **merge))
        listed = json.loads(scene.run("list", "-n", "observability", "-o", "json").out)["items"][0]
        told = json.loads(scene.run("status", "node-agent", "-n", "observability", "-o", "json").out)
    assert (listed["phase"], listed["done"], listed["target"]) == ("Held", 8, 8)
    assert told["phase"] == "Held"


def test_it_counts_the_nodes_of_the_status_not_those_with_pods() -> None:
    """A misscheduled pod is on a node that should have none."""
    with canary() as scene:
        scene.do(scene.controller.kill())
        merge = {"sub": "status", "content_type": MERGE_PATCH}
        scene.do(scene.api.patch(DAEMONSETS, "node-agent", {"status": {"desiredNumberScheduled": 7}}, **merge))
        (listed,) = json.loads(scene.run("list", "-n", "observability", "-o", "json").out)["items"]
    assert (listed["phase"], listed["desired"]) == ("Progressing", 7)


HERE = ("list", "-n", "observability")


@pytest.mark.parametrize("words", [HERE, ("list", "-A"), (*HERE, "-o", "json")])
def test_without_the_right_to_list_pods_only_their_words_are_missing(words: tuple[str, ...]) -> None:
    with canary() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*words)
    assert (ran.code, ran.err) == (0, "note: not everything could be read: pods: forbidden\n")
    assert "Progressing" in ran.out
    assert "c-04 CrashLoopBackOff" not in ran.out


def watched(scene: Scene, *words: str, seconds: float, then: Meanwhile | None = None) -> Ran:
    """`list -w` in a log until no credentials are valid any more, after so many seconds."""

    async def goes_on(opened: Scene) -> None:
        if then is not None:
            await then(opened)
        await asyncio.sleep(seconds)
        opened.door.link.faults.add(Rule(Answer(401, "Unauthorized"), verb="list"))

    return scene.run(*HERE, "-w", *words, meanwhile=goes_on)


def test_watched_the_header_is_there_once_though_nothing_matches() -> None:
    with canary() as scene:
        ran = watched(scene, "--phase", "Stalled", seconds=20.0)
    assert len(ran.out.splitlines()) == 1
    assert ran.out.startswith("NAME")


async def _held_and_gone(scene: Scene) -> None:
    await asyncio.sleep(3.0)
    for node in ("c-03", "c-04"):
        scene.nodes.behave(node, PACE)
    await scene.until(lambda one: one["status"]["rollout"]["phase"] == "Held")


async def _deleted(scene: Scene) -> None:
    await asyncio.sleep(3.0)
    await scene.api.delete(DAEMONSETS, "node-agent")


@pytest.mark.parametrize(("then", "last"), [(_held_and_gone, "node-agent  now Held"), (_deleted, "node-agent  gone")])
def test_watched_a_row_that_goes_is_reported(then: Meanwhile, last: str) -> None:
    with canary() as scene:
        ran = watched(scene, "--phase", "Progressing", seconds=20.0, then=then)
    assert ran.out.splitlines()[-1] == last
    assert ran.out.count("NAME") == 1


@pytest.mark.parametrize("more", [(), ("-o", "json")])
def test_watched_a_hiccup_is_noted_and_passes(more: tuple[str, ...]) -> None:
    async def hiccup(scene: Scene) -> None:
        await asyncio.sleep(3.0)
        fault = Answer(503, "ServiceUnavailable", "not now")
        scene.door.link.faults.add(Rule(fault, verb="list", resource="daemonsets.apps.kruise.io", times=2))
        await asyncio.sleep(20.0)
        await _held_and_gone(scene)

    with canary() as scene:
        ran = watched(scene, *more, seconds=20.0, then=hiccup)
    assert ran.err.count("not now; retrying\n") == 1
    notes = [line for line in ran.err.splitlines() if line.startswith("note: ")]
    assert len(notes) == len(set(notes)) >= 2, "each is noted once, the end for every list that is refused"
    assert "Held" in ran.out.splitlines()[-1]


KIND = "daemonsets.apps.kruise.io"


def test_watched_what_is_quiet_is_not_listed_again_and_again() -> None:
    with held() as scene:
        scene.door.link.seen.clear()
        ran = watched(scene, seconds=120.0)
        verbs = [one.route.verb for one in scene.door.link.seen if one.route.resource == KIND]
    assert ran.out.count("Held") == 1
    assert verbs.count("watch") == 1
    assert verbs.count("list") <= 15, "two at first, one in half a minute, and some that are refused in the end"


@pytest.mark.parametrize("may_watch", [True, False])
def test_watched_a_change_of_what_is_quiet_is_reported_within_seconds(may_watch: bool) -> None:
    async def paused(scene: Scene) -> None:
        await asyncio.sleep(40.0)
        await scene.edit({"spec": {"updateStrategy": {"rollingUpdate": {"paused": True}}}})
        await asyncio.sleep(8.0)

    with held() as scene:
        if not may_watch:
            scene.door.forbid("watch", KIND)
        ran = watched(scene, seconds=0.0, then=paused)
    first, *_, last = ran.out.splitlines()[1:]
    assert (first.endswith("paused"), last.endswith("paused")) == (False, True)
