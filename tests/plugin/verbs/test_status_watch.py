"""`status -w`: its three forms, and how it ends: with which code, when, and with which words."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests.beds.api import DAEMONSETS, NAMESPACES
from tests.plugin import scene as scenes
from tests.plugin.playing import Meanwhile
from tests.plugin.scene import NAME, NAMESPACE, PACE, STATUS, WATCH, Scene, canary, held, paused, template
from tests.plugin.verbs.few_nodes import few_nodes, few_recover, moving, unreachable, unserved


async def recovers(scene: Scene) -> None:
    """c-03 gets ready after 20 s."""
    await asyncio.sleep(20.0)
    scene.nodes.behave("c-03", PACE)


async def all_recovers(scene: Scene) -> None:
    await recovers(scene)
    await asyncio.sleep(60.0)
    scene.nodes.behave("c-04", PACE)


def test_a_log_gets_a_line_per_change_and_two_signs_of_life_a_minute() -> None:
    with canary() as scene:
        ran = scene.check("status/watch-stalled", *WATCH, meanwhile=recovers)
    assert ran.code == 4
    assert "stalled at 7 of 8 nodes" in ran.err
    assert "hint: kubectl kruise-ds rollback node-agent -n observability" in ran.err


def test_plain_lines_on_a_terminal_and_in_a_dumb_one() -> None:
    for more, environ in ((("--plain",), {}), ((), {"TERM": "dumb"})):
        with held() as scene:
            ran = scene.run(*WATCH, *more, terminal=True, environ=environ)
        assert ran.out == f"12:04:10Z {NAME} Held 8/8 updated: partition 16 keeps 16 old\n"


def test_a_terminal_gets_a_block_that_is_drawn_in_place_and_stays() -> None:
    with canary() as scene:
        ran = scene.run(*WATCH, terminal=True, meanwhile=all_recovers)
        after = scene.run(*WATCH, terminal=True, environ={"NO_COLOR": "1"}).out
    assert ran.code == 0
    assert "12:04:10Z  watching, Ctrl-C to stop" in ran.out
    assert ran.out.count("\x1b[2K") > 100, "it is not drawn anew in its place"
    last = ran.out.rpartition("\x1b[2K")[2]
    assert "Held" in last
    assert "watching" not in last
    assert "zone-c   ●●●●●●●●   8 of 8" in after


def test_documents_one_a_line() -> None:
    with moving() as scene:
        ran = scene.run(*WATCH, "-o", "json", meanwhile=few_recover)
    documents = [json.loads(line) for line in ran.out.splitlines()]
    assert {one["kind"] for one in documents} == {"RolloutStatus"}
    assert [documents[0]["phase"], documents[-1]["phase"]] == ["Progressing", "Held"]
    assert len(documents) >= 3
    assert (ran.code, ran.err) == (0, "")
    nodes = [one["nodes"] for one in documents]
    parts = ("updated", "updating", "failing", "next", "old", "missing")
    assert [sum(one[part] for part in parts) for one in nodes] == [one["desired"] for one in nodes]
    updated = [one["updated"] for one in nodes]
    assert updated == sorted(updated), "it never goes back"


ENDINGS: list[tuple[Callable[[], AbstractContextManager[Scene]], tuple[str, ...], int, str]] = [
    (scenes.held, (), 0, ""),
    (scenes.held, ("--require-full",), 5, "is held at 8 of 24 nodes"),
    (scenes.healthy, (), 0, ""),
    (scenes.healthy, ("--require-full",), 0, ""),
    (scenes.paused, (), 5, "is paused at 6 of 24 nodes"),
    (scenes.on_delete, (), 5, "OnDelete"),
    (scenes.stalled, (), 4, "stalled at 7 of 8 nodes"),
    (scenes.refused, (), 4, "violates PodSecurity"),
    (scenes.canary, ("--fail-fast",), 4, "fails at 4 of 8 nodes: c-04 CrashLoopBackOff"),
    (scenes.canary, ("--timeout", "90s"), 3, "timed out after 90s"),
    (scenes.held, ("--revision", "7"), 0, ""),
    (scenes.held, ("--revision", "6"), 6, "revision 6 of node-agent is not the one"),
]


@pytest.mark.parametrize(("opened", "flags", "code", "words"), ENDINGS)
def test_how_it_ends(
    opened: Callable[[], AbstractContextManager[Scene]], flags: tuple[str, ...], code: int, words: str
) -> None:
    with opened() as scene:
        began = scene.now()
        ran = scene.run(*WATCH, *flags)
        took = scene.now() - began
    assert (ran.code, words in ran.err) == (code, True), ran.err
    assert took == pytest.approx(90.0 if code == 3 else 0.0, abs=1.0)


@pytest.mark.parametrize("forbidden", ["", "nodes", "pods"])
@pytest.mark.parametrize(
    ("silent", "at", "who"), [(1, 3, "1 unreachable node: a-01"), (2, 0, "2 unreachable nodes: ")]
)
def test_unreachable_nodes_are_waited_for_until_time_is_up(silent: int, at: int, who: str, forbidden: str) -> None:
    with unreachable(silent) as scene:
        if forbidden:
            scene.door.forbid("list", forbidden)
        ran = scene.run(*WATCH, "--timeout", "90s", "--fail-fast")
        shown = scene.run("status", NAME, "-n", NAMESPACE)
        listed = scene.run("list", "-n", NAMESPACE)
    assert ran.code == 3, ran.err
    assert f"is at {at} of 4 nodes (Progressing), waits for {who}" in ran.err
    if forbidden != "pods":  # without them it is one line
        assert f"Waits for {who}" in " ".join(shown.out.split())
    assert "Progressing" in listed.out


@pytest.mark.parametrize("forbidden", ["", "nodes", "pods"])
def test_pods_lost_after_the_rollout_end_it_at_the_deadline(forbidden: str) -> None:
    with unserved() as scene:
        began = scene.now()
        assert scene.run(*STATUS, "--exit-code").code == 3
        if forbidden:
            scene.door.forbid("list", forbidden)
        ran = scene.run(*WATCH, "--timeout", "2h")
        took = scene.now() - began
        at_once = scene.run(*STATUS, "--exit-code")
    assert (ran.code, at_once.code) == (4, 4), ran.err
    assert took == pytest.approx(540.0, abs=5.0)
    assert "is over, but 4 nodes have no available pod for longer than 10m: " in ran.err
    assert forbidden == "pods" or ran.err.split("10m: ")[1].startswith("waiting for a-04, a-03"), ran.err


async def overtakes(scene: Scene) -> None:
    await scene.edit({"spec": {"template": template("1.9.1")}})


async def deletes(scene: Scene) -> None:
    await scene.api.delete(DAEMONSETS, NAME)


@pytest.mark.parametrize(
    ("happens", "flags", "code", "words"),
    [(overtakes, ("--revision", "2"), 6, "it is 3 now"), (deletes, (), 1, "was deleted")],
    ids=["another revision", "deleted"],
)
def test_what_happens_meanwhile_ends_it(happens: Meanwhile, flags: tuple[str, ...], code: int, words: str) -> None:
    async def later(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await happens(scene)

    with moving() as scene:
        ran = scene.run(*WATCH, *flags, meanwhile=later)
    assert (ran.code, words in ran.err) == (code, True), ran


def test_several_objects_end_with_the_highest_code() -> None:
    with few_nodes() as scene:
        scene.nodes.behave("*", replace(PACE, ready=None))
        scene.do(scene.api.create(DAEMONSETS, scenes.daemonset_named("log-shipper")))
        ran = scene.run("status", "-n", NAMESPACE, "-w", "--timeout", "2m")
    assert ran.code == 3
    assert "log-shipper is at 0 of 4 nodes" in ran.err


def test_one_that_is_stuck_does_not_end_the_wait_for_another() -> None:
    with scenes.stalled() as scene:
        scene.do(scene.api.create(DAEMONSETS, scenes.daemonset_named("log-shipper")))
        ran = scene.run("status", "-n", NAMESPACE, "-w")
    assert (ran.code, "log-shipper is" in ran.err) == (4, False), ran.err


def test_equal_names_in_two_namespaces_are_waited_for_one_by_one() -> None:
    with scenes.abandoned() as scene:
        scene.do(scene.api.create(NAMESPACES, {"metadata": {"name": "shop"}}))
        same = {**scenes.daemonset(), "metadata": {"name": NAME, "namespace": "shop"}}
        scene.do(scene.api.create(DAEMONSETS, same))
        began = scene.now()
        ran = scene.run("status", "-A", "-w")
        took = scene.now() - began
        at_once = scene.run("status", "-A", "--exit-code")
    assert ran.code == 4, ran.err
    assert took == pytest.approx(60.0, abs=2.0)
    for namespace in (NAMESPACE, "shop"):
        assert f"warning: {namespace}/{NAME} is Pending for 30s: is the controller running?" in ran.err
        assert f"error: namespace {namespace}: nothing happens to daemonset.apps.kruise.io/{NAME}: " in ran.err
        assert f"error: namespace {namespace}: daemonset.apps.kruise.io/{NAME} is at " in at_once.err


def test_a_rollout_that_begins_while_one_looks() -> None:
    async def begins(scene: Scene) -> None:
        await asyncio.sleep(3.0)
        await scene.edit({"spec": {"template": template("1.9.0"), **scenes.rolling(partition=3)}})

    with few_nodes() as scene:
        scene.nodes.behave("*", PACE)
        scene.do(begins(scene))
        ran = scene.run(*WATCH)
    assert ran.code == 0
    assert ran.out.splitlines()[-1].endswith(f"{NAME} Held 1/1 updated: partition 3 keeps 3 old")


def test_quiet_says_nothing_but_the_exit_code_and_the_error() -> None:
    with paused() as scene:
        ran = scene.run(*WATCH, "-q")
        assert scene.run(*WATCH, "-o", "yaml").code == 2, "no form of watching"
    assert (ran.code, ran.out, ran.err.startswith("error: ")) == (5, "", True)


class HeadOne(io.TextIOWrapper):
    """A pipe whose reader takes one line and goes away, as `head -1`."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._lines = 0

    def write(self, text: str) -> int:
        self._lines += text.count("\n")
        if self._lines > 1:
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(text)


def test_before_head_it_does_not_end_well_while_it_moves() -> None:
    with moving() as scene:
        ran = scene.run(*WATCH, meanwhile=few_recover, out=HeadOne())
    assert (ran.code, ran.err) == (141, "")


@pytest.mark.parametrize("how", [("-w",), ("--exit-code",)])
def test_what_nothing_fits_did_not_end_well(how: tuple[str, ...]) -> None:
    with held() as scene:
        ran = scene.run("status", "-n", NAMESPACE, "-l", "app=typo", *how)
        assert (ran.code, ran.err.splitlines()[-1]) == (1, "error: no Advanced DaemonSet was found")


@pytest.mark.parametrize("how", [("-w",), ("--exit-code",)])
@pytest.mark.parametrize("blind", [False, True], ids=["", "without pods"])
def test_a_rollout_to_no_node_at_all_is_warned_of(how: tuple[str, ...], blind: bool) -> None:
    with scenes.opened() as scene:
        scene.do(scene.api.create(DAEMONSETS, scenes.daemonset()))
        scene.pass_time(5.0)
        if blind:
            scene.door.forbid("list", "pods")
        ran = scene.run("status", NAME, "-n", NAMESPACE, *how)
    words = f"warning: no node is eligible for daemonset.apps.kruise.io/{NAME}: it runs no pods\n"
    assert (ran.code, words in ran.err) == (0, True), ran.err


@pytest.mark.parametrize("how", [("-w",), ("--exit-code",)])
def test_the_warning_names_the_namespace_where_there_are_several(how: tuple[str, ...]) -> None:
    with scenes.opened() as scene:
        scene.do(scene.api.create(NAMESPACES, {"metadata": {"name": "shop"}}))
        for namespace in (NAMESPACE, "shop"):
            same = {**scenes.daemonset(), "metadata": {"name": NAME, "namespace": namespace}}
            scene.do(scene.api.create(DAEMONSETS, same))
        scene.pass_time(5.0)
        ran = scene.run("status", "-A", *how)
    nowhere = f"no node is eligible for daemonset.apps.kruise.io/{NAME}: it runs no pods"
    warnings = [f"warning: namespace {namespace}: {nowhere}" for namespace in (NAMESPACE, "shop")]
    assert (ran.code, ran.err.splitlines()) == (0, warnings)


@pytest.mark.parametrize("words", [WATCH, ("nodes", NAME, "-n", NAMESPACE, "-w")], ids=["status", "nodes"])
@pytest.mark.parametrize("columns", [10, 30])
def test_a_narrow_window_cuts_what_is_drawn_in_place(words: tuple[str, ...], columns: int) -> None:
    """A line that wraps takes two rows: the block would no longer find its place, and flood the window."""

    async def ends(scene: Scene) -> None:
        await asyncio.sleep(3.0)
        await scene.api.delete(DAEMONSETS, NAME)

    with moving() as scene:
        ran = scene.run(*words, columns=columns, terminal=True, meanwhile=ends)
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", ran.out).replace("\r", "\n").splitlines()
    assert len(drawn) > 10
    assert [line for line in drawn if cell_len(line) > columns] == []
