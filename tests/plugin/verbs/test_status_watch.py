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

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS
from tests.beds.nodes.behaviour import Behaviour
from tests.beds.simulator.faults import Answer, CloseWatch, ErrorEvent, Hang, LoseRequest, Rule
from tests.beds.simulator.kinds import CONFIGMAPS
from tests.plugin import scene as scenes
from tests.plugin.scene import NAME, NAMESPACE, NOW, PACE, Ran, Scene, canary, held, paused, settled, template

WATCH = ("status", NAME, "-n", NAMESPACE, "-w")
WATCHES = "daemonsets.apps.kruise.io"
PULLS = "imagepulljobs.apps.kruise.io"
STUCK = Behaviour(terminate=1.0, start=10.0, ready=None)


async def recovers(scene: Scene) -> None:
    """c-03 gets ready after 20 s."""
    await asyncio.sleep(20.0)
    scene.nodes.behave("c-03", PACE)


async def all_recovers(scene: Scene) -> None:
    await recovers(scene)
    await asyncio.sleep(60.0)
    scene.nodes.behave("c-04", PACE)


def test_a_log_gets_a_line_for_each_change_and_a_sign_of_life_twice_a_minute() -> None:
    with canary() as scene:
        ran = scene.check("status/watch-stalled", *WATCH, meanwhile=recovers)
    assert ran.code == 4
    assert "stalled at 7 of 8 nodes" in ran.err
    assert "hint: kubectl kruise-ds rollback node-agent -n observability" in ran.err


def test_it_ends_when_the_step_is_done() -> None:
    with canary() as scene:
        ran = scene.check("status/watch-held", *WATCH, meanwhile=all_recovers)
    assert (ran.code, ran.err) == (0, "")


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
    with canary() as scene:
        ran = scene.run(*WATCH, "-o", "json", meanwhile=all_recovers)
    documents = [json.loads(line) for line in ran.out.splitlines()]
    assert {one["kind"] for one in documents} == {"RolloutStatus"}
    assert [documents[0]["phase"], documents[-1]["phase"]] == ["Progressing", "Held"]
    assert len(documents) >= 5
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


def test_another_revision_takes_over() -> None:
    async def overtakes(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.edit({"spec": {"template": template("1.9.1")}})

    with canary() as scene:
        ran = scene.run(*WATCH, "--revision", "7", meanwhile=overtakes)
    assert ran.code == 6
    assert "it is 8 now" in ran.err


def test_it_is_deleted_meanwhile() -> None:
    async def deletes(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.api.delete(DAEMONSETS, NAME)

    with canary() as scene:
        ran = scene.run(*WATCH, meanwhile=deletes)
    assert (ran.code, "was deleted" in ran.err) == (1, True)


def test_somebody_pauses_it_meanwhile() -> None:
    async def pauses(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.edit({"spec": scenes.rolling(paused=True)})

    with canary() as scene:
        assert scene.run(*WATCH, meanwhile=pauses).code == 5


def test_without_a_controller_it_gives_up_after_a_minute() -> None:
    with scenes.abandoned() as scene:
        began = scene.now()
        ran = scene.check("status/watch-abandoned", *WATCH)
        assert scene.now() - began == pytest.approx(60.0, abs=2.0)
    assert ran.code == 4


def test_several_objects_end_with_the_highest_code() -> None:
    with held() as scene:
        scene.nodes.behave("*", replace(PACE, ready=None))
        scene.do(scene.api.create(DAEMONSETS, scenes.daemonset_named("log-shipper")))
        ran = scene.run("status", "-n", NAMESPACE, "-w", "--timeout", "2m")
    assert ran.code == 3
    assert "log-shipper is at 0 of 24 nodes" in ran.err


def test_of_equal_names_in_two_namespaces_each_is_told_and_waited_for_by_itself() -> None:
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


def trouble(*rules: Rule) -> Ran:
    """Wait until the step is done although this happens on the way."""
    with canary() as scene:
        for rule in rules:
            scene.door.link.faults.add(rule)
        ran = scene.run(*WATCH, meanwhile=all_recovers)
        scene.door.link.faults.check()
    return ran


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Answer(403, "Forbidden"), verb="watch", resource=WATCHES),
        Rule(Answer(403, "Forbidden"), verb="watch", resource="pods"),
        Rule(Answer(500), verb="watch", resource="pods", times=3),
        Rule(Answer(410, "Expired"), verb="watch", resource="pods", times=2),
        Rule(ErrorEvent(events=2), verb="watch", resource="pods", times=2),
        Rule(ErrorEvent(events=1), verb="watch", resource=WATCHES, times=2),
        Rule(CloseWatch(events=1), verb="watch", resource="pods", times=5),
        Rule(CloseWatch(events=1, reset=True), verb="watch", resource=WATCHES, times=5),
        Rule(LoseRequest(), verb="watch", resource="*", times=6),
    ],
    ids=str,
)
def test_it_comes_to_the_same_end_whatever_happens_to_its_watches(rule: Rule) -> None:
    ran = trouble(rule)
    assert ran.code == 0, ran.err
    assert f"{NAME} Held 8/8 updated" in ran.out.splitlines()[-1]


PROXY = "<html>404 page not found</html>"


@pytest.mark.parametrize("resource", [WATCHES, "pods"])
@pytest.mark.parametrize("answer", [Answer(404, message=PROXY), Answer(401), Answer(403)], ids=["404", "401", "403"])
def test_an_answer_that_passes_does_not_end_it(answer: Answer, resource: str) -> None:
    """The watch breaks, and behind the load balancer nobody knows us for a moment."""

    async def breaks(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.link.faults.add(Rule(answer, verb="get,list", resource=resource, times=3))
        scene.door.link.faults.add(Rule(LoseRequest(), verb="watch", resource=resource, times=2))
        scene.door.link.drop_watches()
        await all_recovers(scene)

    with canary() as scene:
        ran = scene.run(*WATCH, "--timeout", "5m", meanwhile=breaks)
        scene.door.link.faults.check()
    assert ran.code == 0, ran.err
    assert f"{NAME} Held 8/8 updated" in ran.out.splitlines()[-1]


def test_a_right_that_is_taken_away_for_good_ends_it_after_a_while() -> None:
    async def taken(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.forbid("*", WATCHES)
        scene.door.link.drop_watches()

    with canary() as scene:
        ran = scene.run(*WATCH, meanwhile=taken)
    assert (ran.code, "Forbidden" in ran.err) == (1, True)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Hang(), resource="pods/log"),
        Rule(Hang(), verb="get", resource=WATCHES),
        Rule(Hang(), verb="list", resource="pods"),
        Rule(Hang(), verb="list", resource="nodes"),
        Rule(Hang(), verb="list", resource="controllerrevisions*"),
        Rule(Hang(), verb="watch"),
        Rule(Hang(), resource="*"),
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", [WATCH, ("promote", NAME, "-n", NAMESPACE, "--wait")], ids=["status", "promote"])
def test_the_timeout_covers_everything_that_hangs(verb: tuple[str, ...], rule: Rule) -> None:
    with canary() as scene:
        scene.door.link.faults.add(rule)
        began = scene.now()
        ran = scene.run(*verb, "--timeout", "3s")
        assert scene.now() - began <= 4.0
    assert ran.code == 3, ran.err
    assert " after 3s: " in ran.err


def test_a_log_that_hangs_is_not_waited_for() -> None:
    with canary() as scene:
        scene.nodes.behave("c-03", replace(PACE, ready=None, crash=4.0))
        scene.pass_time(60.0)
        scene.door.link.faults.add(Rule(Hang(), resource="pods/log"))
        began = scene.now()
        assert scene.run("status", NAME, "-n", NAMESPACE).code == 0
        assert 0.0 < scene.now() - began <= 2.5
        scene.door.link.faults.check()


def test_a_server_that_has_forgotten_where_we_were_is_read_anew() -> None:
    async def forgets(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.link.up = False
        scene.door.link.drop_watches()
        await all_recovers(scene)
        scene.cluster.store.compact()
        scene.door.link.up = True

    with canary() as scene:
        ran = scene.run(*WATCH, "--timeout", "5m", meanwhile=forgets)
    assert ran.code == 0, ran.err
    assert "trying on" in ran.err


def test_a_watch_that_ended_in_good_order_may_find_its_place_forgotten() -> None:
    async def ends(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        store = scene.cluster.store
        for watch in [watch for watches in store.watches.values() for watch in watches]:
            watch.close()
        scene.cluster.create(CONFIGMAPS, NAMESPACE, {"metadata": {"name": "news"}})
        store.compact()
        await all_recovers(scene)

    with canary() as scene:
        ran = scene.run(*WATCH, "--timeout", "5m", meanwhile=ends)
    assert ran.code == 0, ran.err


def test_a_revision_that_comes_back_has_a_new_number() -> None:
    async def goes_back(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.edit({"spec": {"template": scenes.HISTORY[4][1], **scenes.rolling(partition=0)}})

    with canary() as scene:
        ran = scene.run(*WATCH, "-o", "json", "--timeout", "20s", meanwhile=goes_back)
    assert json.loads(ran.out.splitlines()[-1])["revision"]["current"] == 8


def test_a_pod_that_goes_without_a_word_is_missed() -> None:
    async def goes(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await scene.controller.kill()
        await scene.api.delete(PODS, (await scene.pod_on("c-08"))["metadata"]["name"], gracePeriodSeconds="0")

    with canary() as scene:
        ran = scene.run(*WATCH, "-o", "json", "--timeout", "20s", meanwhile=goes)
    assert json.loads(ran.out.splitlines()[-1])["nodes"]["missing"] == 1


def test_no_right_to_watch_costs_a_read_every_other_second_and_no_more() -> None:
    with canary() as scene:
        scene.door.forbid("watch", "*")
        scene.door.link.seen.clear()
        ran = scene.run(*WATCH, "--timeout", "60s")
        counts = scene.door.link.counts()
    assert ran.code == 3
    assert 25 <= counts["list pods"] <= 35
    assert 25 <= counts[f"get {WATCHES}"] <= 35
    assert counts["watch pods"] == counts[f"watch {WATCHES}"] == 1


def test_watching_is_three_watches_and_a_list_of_the_nodes_each_minute() -> None:
    with canary() as scene:
        scene.door.link.seen.clear()
        scene.run(*WATCH, "--timeout", "179s")
        counts = scene.door.link.counts()
    assert counts["watch pods"] == counts[f"watch {WATCHES}"] == 1
    assert counts["list nodes"] == 3
    assert counts["list pods"] == 1
    assert counts[f"list {PULLS}"] == counts[f"watch {PULLS}"] == 1, "they are watched, though nothing is pulled"
    assert sum(counts.values()) <= 12, counts


def test_a_new_node_is_known_before_the_minute_is_over() -> None:
    async def joins(scene: Scene) -> None:
        await asyncio.sleep(3.0)
        await scenes.join(scene, ["d-01"])

    with canary() as scene:
        ran = scene.run(*WATCH, "-o", "json", "--timeout", "20s", meanwhile=joins)
    assert json.loads(ran.out.splitlines()[-1])["nodes"]["desired"] == 25


def test_a_rollout_that_begins_while_one_looks() -> None:
    async def begins(scene: Scene) -> None:
        await asyncio.sleep(3.0)
        await scene.edit({"spec": {"template": template("1.9.0"), **scenes.rolling(partition=22)}})

    with settled() as scene:
        scene.go_to(NOW)
        scene.nodes.behave("*", PACE)
        scene.do(begins(scene))
        ran = scene.run(*WATCH)
    assert ran.code == 0
    assert ran.out.splitlines()[-1].endswith(f"{NAME} Held 2/2 updated: partition 22 keeps 22 old")


def test_quiet_says_nothing_but_the_exit_code_and_the_error() -> None:
    with paused() as scene:
        ran = scene.run(*WATCH, "-q")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: ")


def test_who_is_not_known_any_more_is_told_so() -> None:
    async def logs_out(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.link.faults.add(Rule(Answer(401, "Unauthorized"), verb="*"))
        scene.door.link.drop_watches()

    with canary() as scene:
        began = scene.now()
        ran = scene.run(*WATCH, meanwhile=logs_out)
        assert 30.0 <= scene.now() - began <= 70.0, "it is tried for half a minute, with pauses that grow"
    assert ran.code == 1
    assert "You must be logged in" in ran.err


def test_yaml_is_no_form_of_watching() -> None:
    with held() as scene:
        assert scene.run(*WATCH, "-o", "yaml").code == 2


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
    with canary() as scene:
        ran = scene.run(*WATCH, meanwhile=all_recovers, out=HeadOne())
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
    words = f"warning: no node is eligible for daemonset.apps.kruise.io/{NAME}: it runs nowhere\n"
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
    nowhere = f"no node is eligible for daemonset.apps.kruise.io/{NAME}: it runs nowhere"
    warnings = [f"warning: namespace {namespace}: {nowhere}" for namespace in (NAMESPACE, "shop")]
    assert (ran.code, ran.err.splitlines()) == (0, warnings)


@pytest.mark.parametrize("words", [WATCH, ("nodes", NAME, "-n", NAMESPACE, "-w")], ids=["status", "nodes"])
@pytest.mark.parametrize("columns", [10, 30])
def test_a_narrow_window_cuts_what_is_drawn_in_place(words: tuple[str, ...], columns: int) -> None:
    """A line that wraps takes two rows: the block would no longer find its place, and flood the window."""

    async def ends(scene: Scene) -> None:
        await asyncio.sleep(3.0)
        await scene.api.delete(DAEMONSETS, NAME)

    with canary() as scene:
        ran = scene.run(*words, columns=columns, terminal=True, meanwhile=ends)
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", ran.out).replace("\r", "\n").splitlines()
    assert len(drawn) > 10
    assert [line for line in drawn if cell_len(line) > columns] == []
