"""How many requests verbs send, and what they do without nodes, pods or revisions that cannot be read in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.beds.api import DAEMONSETS
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.plugin.scene import NAME, NAMESPACE, Scene, canary, daemonset_named, held, rolling, settled
from tests.plugin.situations import selected
from tests.plugin.verbs.few_nodes import HOME, KIND, NODES, acted, few_nodes, moving, rolling_of, stop_serving, stored

SECONDS = 2.5
"""Until the write at the most."""
VERBS = (("pause",), ("resume",), ("rollback", "-y", "--to-revision=1"), ("promote", "--full", "-y"))
NODES_HANG = Rule(Hang(), verb="list", resource="nodes")


def written_after(scene: Scene, *words: str) -> tuple[float, float, str]:
    """Seconds until the write, seconds until the end, and what was said on stderr."""
    began = scene.now()
    offset = began - scene.do(_loop_time())
    scene.door.link.seen.clear()
    ran = acted(scene, *words)
    assert ran.code == 0, ran.err
    (write,) = (one for one in scene.door.link.writes(KIND) if one.status == 200)
    return write.at + offset - began, scene.now() - began, ran.err


async def _loop_time() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("verb", VERBS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ((NODES_HANG,), ("nodes: no answer within 1s",)),
        ((Rule(Hang(), verb="list", resource="pods"),), ("pods: no answer within 1s",)),
        ((Rule(Answer(500, message="etcd is away"), verb="list", resource="nodes"),), ("nodes: etcd is away",)),
        ((Rule(Hang(), resource="selfsubjectreviews*"),), ()),
        ((Rule(Hang(), resource="events"), Rule(Hang(), resource="leases*")), ()),
        ((NODES_HANG, Rule(Hang(), verb="list", resource="pods"), Rule(Hang(), resource="selfsubjectreviews*")), ()),
    ],
    ids=["nodes hang", "pods hang", "nodes fail", "who I am hangs", "event and lease hang", "all that is listed"],
)
def test_it_is_written_within_two_seconds(
    verb: tuple[str, ...], rules: tuple[Rule, ...], told: tuple[str, ...]
) -> None:
    with moving() as scene:
        if verb[0] == "resume":
            scene.do(scene.edit({"spec": rolling(paused=True)}))
        for rule in rules:
            scene.door.link.faults.add(rule)
        until_written, until_end, err = written_after(scene, *verb)
        assert rolling_of(stored(scene)).get("paused", False) is (verb[0] == "pause")
    assert until_written <= SECONDS
    assert until_end <= SECONDS + 1.0
    for words in told:
        assert f"note: some details are missing: {words}\n" in err


def test_pause_does_not_wait_for_the_revisions_either() -> None:
    with moving() as scene:
        scene.door.link.faults.add(Rule(Hang(), verb="list", resource="*"))
        until_written, _, err = written_after(scene, "pause")
    assert until_written <= SECONDS
    assert "controllerrevisions: no answer within 1s" in err


@pytest.mark.parametrize("effect", [Hang(3.0), Answer(500)], ids=["hang", "fail"])
def test_a_wait_makes_up_for_what_there_was_no_time_to_read(effect: Effect) -> None:
    """It is no right that is missing, and nothing happens to the object that would have it read anew."""
    with canary() as scene:
        scene.door.link.faults.add(Rule(effect, verb="list", resource="controllerrevisions*", nth=(1, 2)))
        ran = acted(scene, "resume", "--wait", "--timeout", "20s", terminal=True)
    assert ran.code == 3
    assert "note: some details are missing: controllerrevisions: " in ran.err
    last = ran.out.rpartition("Revision ")[2]
    assert ("6 → 7" in last, "rollback node-agent" in last) == (True, True), last


@pytest.fixture
def by_label() -> Iterator[Scene]:
    """Three nodes have revision 7; one of them no longer has the label that the selector wants, and stays on it."""
    with settled() as scene:
        selected(scene)
        yield scene


def test_with_a_selector_and_unread_nodes_it_does_not_say_who_moves(by_label: Scene) -> None:
    by_label.door.link.faults.add(NODES_HANG)
    ran = acted(by_label, "rollback", "--to-revision=6", "-y", columns=200)
    assert ran.code == 0
    assert "  who moves   unknown: the nodes could not be read\n" in ran.out
    assert "move back" not in ran.out


def test_the_question_has_it_though_the_nodes_come_late(by_label: Scene) -> None:
    by_label.door.link.faults.add(Rule(Hang(3.0), verb="list", resource="nodes"))
    ran = acted(by_label, "rollback", "--to-revision=6", terminal=True, typed="n\n", columns=200)
    assert ran.code == 6
    assert "  move back   2 nodes: c-08 c-06" in ran.err.replace(" | ", " ")
    assert "  will NOT    1 node: c-07 " in ran.err


NOTE = "note: not everything could be read: controllerrevisions: forbidden\n"
HERE = ("-n", NAMESPACE)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with held() as opened:
        opened.door.forbid("list", "controllerrevisions*")
        yield opened


def test_status_leaves_the_number_out(scene: Scene) -> None:
    ran = scene.run("status", NAME, *HERE)
    assert (ran.code, ran.err) == (0, NOTE)
    assert "8 of 24 nodes on revision ?" in ran.out
    told = json.loads(scene.run("status", NAME, *HERE, "-o", "json").out)
    assert (told["phase"], told["nodes"]["updated"], told["nodes"]["old"]) == ("Held", 8, 16)
    assert (told["revision"]["current"], told["revision"]["previous"]) == (None, None)


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ((), 0, ""),
        (("--require-full",), 5, "is held at 8 of 24 nodes"),
        (("--revision", "7"), 1, "is unknown without the right to list controllerrevisions"),
    ],
)
@pytest.mark.parametrize("how", ["-w", "--exit-code"])
def test_waiting_ends_as_ever_but_not_for_a_number(
    scene: Scene, flags: tuple[str, ...], code: int, words: str, how: str
) -> None:
    ran = scene.run("status", NAME, *HERE, how, *flags)
    assert (ran.code, words in ran.err) == (code, True), ran.err


def test_watched_the_right_is_still_missing(scene: Scene) -> None:
    told = json.loads(scene.run("status", NAME, *HERE, "-w", "-o", "json").out.splitlines()[-1])
    assert told["unreadable"] == ["controllerrevisions: forbidden"]
    assert told["revision"]["current"] is None


def test_nodes_and_list_leave_the_number_out(scene: Scene) -> None:
    ran = scene.run("nodes", NAME, *HERE, columns=120)
    assert (ran.code, ran.err) == (0, NOTE)
    by_node = {line.split()[0]: line.split()[2:4] for line in ran.out.splitlines()[1:25]}
    assert (by_node["c-08"], by_node["a-01"]) == (["updated", "?"], ["old", "?"])
    listed = scene.run("list", *HERE, columns=120)
    assert (listed.code, listed.err) == (0, NOTE)
    header, line, *_ = listed.out.splitlines()
    assert line[header.index("REV") : header.index("SINCE")].strip() == "?"
    document = json.loads(scene.run("list", *HERE, "-o", "json").out)
    assert document["items"][0]["revision"] is None


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
