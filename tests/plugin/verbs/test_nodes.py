"""`nodes`: which rows, in which order, and what stands in them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.api import NODES as NODE_KIND
from tests.plugin.scene import PACE, Scene, canary, in_place, preparing, rolling, settled
from tests.plugin.situations import ZONES, in_zones

HOME = ("-n", "observability")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with canary() as opened:
        yield opened


WAITING = ("nodes", "node-agent", *HOME, "--only", "failing,updating,next")


def test_how_the_nodes_look(scene: Scene) -> None:
    scene.check("nodes/only", *WAITING)
    scene.check("nodes/only-colour", *WAITING, colour=True)
    scene.check("nodes/all-120", "nodes", "node-agent", *HOME, columns=120)


def test_what_each_node_waits_for_while_pods_are_updated_in_place() -> None:
    with in_place() as scene:
        scene.check("nodes/in_place", *WAITING, columns=200)


def test_one_zone_sorted_by_name(scene: Scene) -> None:
    ran = scene.run("nodes", "node-agent", *HOME, "--zone", "zone-b", "--sort", "name", "-o", "name")
    assert ran.out.split() == [f"node/b-0{number}" for number in range(1, 9)]


def test_for_programs(scene: Scene) -> None:
    ran = scene.run("nodes", "node-agent", *HOME, "--only", "failing", "-o", "json")
    (failing,) = json.loads(ran.out)["items"]
    assert (failing["node"], failing["state"], failing["revision"]) == ("c-04", "failing", 7)
    assert failing["trouble"]["message"] == "open /etc/agent/v2.yaml: no such file or directory"
    assert failing["pod"]["restarts"] == 3


def test_wide_adds_what_the_pod_said_last(scene: Scene) -> None:
    ran = scene.run("nodes", "node-agent", *HOME, "--only", "failing", "-o", "wide")
    assert "open /etc/agent/v2.yaml: no such file or directory" in ran.out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--only", "broken"), 'error: invalid --only "broken": use all, updated, updating, failing, next, old, '),
        (("--sort", "size"), 'error: invalid --sort "size": use update, name, state, restarts, age\n'),
    ],
)
def test_another_word_is_refused_with_those_that_there_are(scene: Scene, words: tuple[str, ...], error: str) -> None:
    ran = scene.run("nodes", "node-agent", *HOME, *words)
    assert ran.code == 2
    assert ran.err.startswith(error)


def test_which_nodes_have_no_pod_and_why() -> None:
    with canary() as scene:
        merge = {"content_type": "application/merge-patch+json"}
        tainted = {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoExecute"}]}}
        scene.do(scene.api.patch(NODE_KIND, "a-01", tainted, **merge))
        scene.pass_time(5.0)
        ran = scene.run("nodes", "node-agent", *HOME, "--only", "excluded", columns=120)
        assert "a-01" in ran.out
        assert "taint gpu=yes:NoExecute" in ran.out
        ran = scene.run("nodes", "node-agent", *HOME, "--only", "failing", columns=120)
        assert ran.out.endswith(
            "1 of 23 nodes shown (--only all); 1 more node does not match (--excluded): 1 taint\n"
        )


async def _goes_on(scene: Scene) -> None:
    """c-03 gets ready after 20 s; after 90 s the DaemonSet is deleted."""
    await asyncio.sleep(20.0)
    scene.nodes.behave("c-03", PACE)
    await asyncio.sleep(70.0)
    await scene.api.delete(DAEMONSETS, "node-agent")


def test_watched_in_a_log_each_node_gets_a_line_when_it_changes() -> None:
    with canary() as scene:
        ran = scene.check("nodes/watched", "nodes", "node-agent", *HOME, "--zone", "zone-c", "-w", meanwhile=_goes_on)
    assert ran.code == 1
    assert ran.err == 'error: daemonsets.apps.kruise.io "node-agent" was deleted\n'


def test_watched_for_programs_each_change_is_a_document() -> None:
    with canary() as scene:
        ran = scene.run("nodes", "node-agent", *HOME, "--only", "updated", "-w", "-o", "json", meanwhile=_goes_on)
    counts = [len(json.loads(line)["items"]) for line in ran.out.splitlines()]
    assert counts[:2] == [4, 5]


def test_watched_on_a_terminal_it_is_drawn_in_its_place() -> None:
    with canary() as scene:
        ran = scene.run("nodes", "node-agent", *HOME, "--zone", "zone-c", "-w", terminal=True, meanwhile=_goes_on)
    assert ran.out.count("NODE") > 2
    assert "\x1b[" in ran.out


def test_watched_the_header_is_there_once_and_a_row_that_goes_is_reported() -> None:
    async def gets_ready(scene: Scene) -> None:
        await asyncio.sleep(20.0)
        scene.nodes.behave("c-03", PACE)
        await asyncio.sleep(20.0)
        scene.nodes.behave("c-03", replace(PACE, ready=None))
        await scene.api.delete(DAEMONSETS, "node-agent")

    words = ("nodes", "node-agent", *HOME, "--zone", "zone-c", "--only", "updating", "-w")
    with canary() as scene:
        lines = scene.run(*words, meanwhile=gets_ready).out.splitlines()
    assert [line for line in lines if line.startswith("NODE")] == [lines[0]]
    assert "c-03  now updated" in lines
    with canary() as scene:
        out = scene.run("nodes", "node-agent", *HOME, "--only", "unplanned", "-w", meanwhile=gets_ready).out
    assert len(out.splitlines()) == 1, "though nothing matches"


@pytest.mark.parametrize("more", [(), ("-w",)])
def test_a_group_that_no_node_is_in_is_an_error_that_names_those_there_are(
    scene: Scene, more: tuple[str, ...]
) -> None:
    ran = scene.run("nodes", "node-agent", *HOME, "--zone", "nope", *more)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == 'error: no node is in "nope": there are zone-a, zone-b, zone-c\n'


BY_DOMAIN = ("nodes", "node-agent", *HOME, "--by-domain")


PODS_NEEDED = "error: the nodes of node-agent need the right to list pods in namespace observability\n"


@pytest.mark.parametrize(
    ("right", "more", "error"),
    [
        *(("pods", more, PODS_NEEDED) for more in ((), ("-w",), ("-o", "json"))),
        ("nodes", ("--zone", "zone-c"), "without the right to list nodes"),
        ("nodes", ("--by-domain",), "are unknown without the right to list nodes"),
    ],
)
def test_without_a_right_no_node_or_group_is_called_empty(right: str, more: tuple[str, ...], error: str) -> None:
    with in_zones() as scene:
        scene.door.forbid("list", right)
        ran = scene.run("nodes", "node-agent", *HOME, *more)
    assert (ran.code, ran.out, error in ran.err) == (1, "", True), ran


def test_the_nodes_with_a_pod_that_a_hook_holds() -> None:
    words = ("nodes", "node-agent", *HOME, "--only", "preparing")
    with preparing() as scene:
        scene.check("nodes/preparing", *words, columns=200)
        (item, *others) = json.loads(scene.run(*words, "-o", "json").out)["items"]
        whole = json.loads(scene.run("nodes", "node-agent", *HOME, "--only", "next,old", "-o", "json").out)["items"]
    assert [item["node"], *(one["node"] for one in others)] == ["c-08", "c-07", "b-01"]
    assert [one["pod"] for one in item["preparing"]] == [item["pod"]["name"]]
    assert item["preparing"][0]["heldBy"] == ["label example.io/block-deleting=true"]
    assert [one["node"] for one in whole if one["preparing"]] == ["c-08", "c-07"]


def test_how_domains_look() -> None:
    with in_zones() as scene:
        scene.check("nodes/by-domain", *BY_DOMAIN)
        found = json.loads(scene.run(*BY_DOMAIN, "-o", "json").out)
        assert (found["key"], found["maxDomains"]) == (ZONES["key"], 1)
        assert found["items"][2] == {
            "domain": "zone-c",
            "nodes": 8,
            "updated": 4,
            "short": ["c-04", "c-03"],
            "maxUnavailable": 2,
            "shortByUpdate": True,
        }


def test_without_a_topology_the_order_names_the_domains() -> None:
    fields = {"topology": None, "order": [{"matchLabels": {"pool": "canary"}}, {"groupBy": ZONES["key"]}]}
    with in_zones() as scene:
        scene.do(scene.api.patch(NODE_KIND, "b-01", {"metadata": {"labels": {ZONES["key"]: None}}}))
        scene.do(scene.edit({"spec": rolling(**fields)}))
        shown = scene.run(*BY_DOMAIN).out.splitlines()
        assert shown[1].split() == ["zone-a", "░░░░░", "0/8", "1", "a-05"], shown
        assert shown[4].split() == ["no", "label", "░░░░░", "0/1", "0"]
        assert shown[5] == f"4 domains of {ZONES['key']}; updating zone-c"


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ({}, "updateStrategy.rollingUpdate.topology.key is not set"),
        ({"type": "OnDelete", "rollingUpdate": None}, "updateStrategy is OnDelete"),
    ],
)
def test_without_domains_the_field_and_another_way_are_named(strategy: dict[str, object], why: str) -> None:
    with settled() as scene:
        scene.do(scene.edit({"spec": {"updateStrategy": strategy}}))
        ran = scene.run(*BY_DOMAIN)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.splitlines() == [
            f"error: node-agent has no failure domains: {why}",
            "  hint: shows how: kubectl explain ads.spec.updateStrategy.rollingUpdate.topology",
            f"  hint: to see which node is in which zone: kubectl kruise-ds {' '.join(BY_DOMAIN[:4])} --by zone",
        ]


@pytest.mark.parametrize(
    "flags",
    [("-o", "name"), ("--only", "old"), ("--zone", "zone-a"), ("--by", "arch"), ("--sort", "age"), ("--excluded",)],
)
def test_flags_for_nodes_do_not_go_with_domains(scene: Scene, flags: tuple[str, ...]) -> None:
    ran = scene.run(*BY_DOMAIN, *flags)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: --by-domain has no ")


def test_domains_are_followed() -> None:
    async def meanwhile(scene: Scene) -> None:
        await asyncio.sleep(60.0)
        await scene.api.delete(DAEMONSETS, "node-agent")

    with in_zones() as scene:
        ran = scene.run(*BY_DOMAIN, "-w", meanwhile=meanwhile)
        assert ran.code == 1
        assert [line.split()[0] for line in ran.out.splitlines()[:4]] == ["DOMAIN", "zone-a", "zone-b", "zone-c"]
        assert "zone-c  ████░ 6/8      2    2  c-02, c-01" in ran.out
