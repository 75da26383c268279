"""`status -w` and `--wait` while watches break, servers hang, load balancers answer, and clocks are wrong."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from controller.kube.requests import Request, Response
from tests.beds.api import PODS
from tests.beds.simulator.faults import Answer, CloseWatch, ErrorEvent, Hang, LoseRequest, Rule
from tests.beds.simulator.kinds import CONFIGMAPS
from tests.beds.simulator.route import route
from tests.plugin import scene as scenes
from tests.plugin.playing import Meanwhile
from tests.plugin.scene import MINUTE, NAME, NAMESPACE, PACE, WATCH, Ran, Scene
from tests.plugin.users_machine import UserTransport
from tests.plugin.verbs.few_nodes import KIND, acted, at_half, few_nodes, few_recover, moving, stored

WATCHES = "daemonsets.apps.kruise.io"
PULLS = "imagepulljobs.apps.kruise.io"


def test_without_a_controller_it_gives_up_after_a_minute() -> None:
    with scenes.abandoned() as scene:
        began = scene.now()
        ran = scene.check("status/watch-abandoned", *WATCH)
        assert scene.now() - began == pytest.approx(60.0, abs=2.0)
    assert ran.code == 4


def trouble(*rules: Rule) -> Ran:
    """Wait until the step is done although this happens on the way."""
    with moving() as scene:
        for rule in rules:
            scene.door.link.faults.add(rule)
        ran = scene.run(*WATCH, meanwhile=few_recover)
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
    assert f"{NAME} Held 2/2 updated" in ran.out.splitlines()[-1]


PROXY = "<html>404 page not found</html>"


@pytest.mark.parametrize(
    ("resource", "answer"),
    [(WATCHES, Answer(404, message=PROXY)), (WATCHES, Answer(401)), ("pods", Answer(403)), ("pods", Answer(404))],
    ids=["object 404", "object 401", "pods 403", "pods 404"],
)
def test_an_answer_that_passes_does_not_end_it(answer: Answer, resource: str) -> None:
    """The watch breaks, and behind the load balancer our credentials are unknown for a moment."""

    async def breaks(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.link.faults.add(Rule(answer, verb="get,list", resource=resource, times=3))
        scene.door.link.faults.add(Rule(LoseRequest(), verb="watch", resource=resource, times=2))
        scene.door.link.drop_watches()
        await few_recover(scene)

    with moving() as scene:
        ran = scene.run(*WATCH, "--timeout", "5m", meanwhile=breaks)
        scene.door.link.faults.check()
    assert ran.code == 0, ran.err
    assert f"{NAME} Held 2/2 updated" in ran.out.splitlines()[-1]


def test_a_right_that_is_taken_away_for_good_ends_it_after_a_while() -> None:
    async def taken(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.forbid("*", WATCHES)
        scene.door.link.drop_watches()

    with moving() as scene:
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
def test_the_timeout_covers_everything_that_hangs(rule: Rule) -> None:
    with moving() as scene:
        scene.door.link.faults.add(rule)
        began = scene.now()
        ran = scene.run(*WATCH, "--timeout", "3s")
        assert scene.now() - began <= 4.0
    assert ran.code == 3, ran.err
    assert " after 3s: " in ran.err


def test_a_log_that_hangs_is_not_waited_for() -> None:
    with moving() as scene:
        scene.nodes.behave("a-03", replace(PACE, ready=None, crash=4.0))
        scene.pass_time(60.0)
        scene.door.link.faults.add(Rule(Hang(), resource="pods/log"))
        began = scene.now()
        assert scene.run("status", NAME, "-n", NAMESPACE).code == 0
        assert 0.0 < scene.now() - began <= 2.5
        scene.door.link.faults.check()


@pytest.mark.parametrize("form", ["", "json"])
def test_a_server_that_has_forgotten_where_we_were_is_read_anew(form: str) -> None:
    async def forgets(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.link.up = False
        scene.door.link.drop_watches()
        await few_recover(scene)
        scene.cluster.store.compact()
        scene.door.link.up = True

    with moving() as scene:
        ran = scene.run(*WATCH, "--timeout", "5m", *(("-o", form) if form else ()), meanwhile=forgets)
    assert ran.code == 0, ran.err
    assert "retrying" in ran.err


def test_a_watch_that_ended_in_good_order_may_find_its_place_forgotten() -> None:
    async def ends(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        store = scene.cluster.store
        for watch in [watch for watches in store.watches.values() for watch in watches]:
            watch.close()
        scene.cluster.create(CONFIGMAPS, NAMESPACE, {"metadata": {"name": "news"}})
        store.compact()
        await few_recover(scene)

    with moving() as scene:
        ran = scene.run(*WATCH, "--timeout", "5m", meanwhile=ends)
    assert ran.code == 0, ran.err


async def goes_back(scene: Scene) -> None:
    """A revision that comes back has a new number."""
    await scene.edit({"spec": {"template": scenes.HISTORY[0][1], **scenes.rolling(partition=0)}})


async def goes(scene: Scene) -> None:
    """A pod does, and nothing else tells it."""
    await scene.controller.kill()
    await scene.api.delete(PODS, (await scene.pod_on("a-04"))["metadata"]["name"], gracePeriodSeconds="0")


async def joins(scene: Scene) -> None:
    """A node does, before the minute is over in which they are listed."""
    await scenes.join(scene, ["d-01"])


@pytest.mark.parametrize(
    ("happens", "part", "field", "value"),
    [(goes_back, "revision", "current", 3), (goes, "nodes", "missing", 1), (joins, "nodes", "desired", 5)],
    ids=["revision", "pod", "node"],
)
def test_a_watch_tells_what_happens_meanwhile(happens: Meanwhile, part: str, field: str, value: int) -> None:
    async def later(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        await happens(scene)

    with moving() as scene:
        ran = scene.run(*WATCH, "-o", "json", "--timeout", "20s", meanwhile=later)
    assert json.loads(ran.out.splitlines()[-1])[part][field] == value


def test_no_right_to_watch_costs_a_read_every_other_second_and_no_more() -> None:
    with moving() as scene:
        scene.door.forbid("watch", "*")
        scene.door.link.seen.clear()
        ran = scene.run(*WATCH, "--timeout", "60s")
        counts = scene.door.link.counts()
    assert ran.code == 3
    assert 25 <= counts["list pods"] <= 35
    assert 25 <= counts[f"get {WATCHES}"] <= 35
    assert counts["watch pods"] == counts[f"watch {WATCHES}"] == 1


def test_watching_is_three_watches_and_a_list_of_the_nodes_each_minute() -> None:
    with moving() as scene:
        scene.door.link.seen.clear()
        scene.run(*WATCH, "--timeout", "179s")
        counts = scene.door.link.counts()
    assert counts["watch pods"] == counts[f"watch {WATCHES}"] == 1
    assert counts["list nodes"] == 3
    assert counts["list pods"] == 1
    assert counts[f"list {PULLS}"] == counts[f"watch {PULLS}"] == 1, "they are watched, though nothing is pulled"
    assert sum(counts.values()) <= 12, counts


def test_credentials_that_are_not_valid_any_more_are_reported() -> None:
    async def logs_out(scene: Scene) -> None:
        await asyncio.sleep(5.0)
        scene.door.link.faults.add(Rule(Answer(401, "Unauthorized"), verb="*"))
        scene.door.link.drop_watches()

    with moving() as scene:
        began = scene.now()
        ran = scene.run(*WATCH, meanwhile=logs_out)
        assert 30.0 <= scene.now() - began <= 70.0, "it is tried for half a minute, with pauses that grow"
    assert ran.code == 1
    assert "You must be logged in" in ran.err


NEW = "agent=registry.example.com/agent:2.0.0"


class Balanced(UserTransport):
    """A load balancer answers with a page of its own the first `times` requests like `asked`, such as `list pods`."""

    def __init__(self, door: UserTransport, asked: str, status: int, times: int = 1) -> None:
        super().__init__(door.link.cluster)
        self.user, self.logs, self.link = door.user, door.logs, door.link
        self._asked, self._status, self.left = asked, status, times

    async def exchange(self, request: Request) -> Response:
        where = route(request)
        if f"{where.verb} {where.resource}" == self._asked and self.left:
            self.left -= 1
            return Response(status=self._status, body=b"<html>not here</html>")
        return await super().exchange(request)


def behind_a_balancer(scene: Scene, asked: str, status: int, times: int = 1) -> Balanced:
    scene.door = made = Balanced(scene.door, asked, status, times)
    return made


@pytest.mark.parametrize(
    ("asked", "status"), [(f"get {KIND}", 401), (f"get {KIND}", 404), ("list nodes", 403), ("list pods", 401)]
)
def test_a_watch_goes_on_behind_a_page_of_a_load_balancer(asked: str, status: int) -> None:
    with few_nodes() as scene:
        door = behind_a_balancer(scene, asked, status, times=2)  # of 401 the first is tried with fresh credentials
        ran = scene.run(*WATCH, "--timeout", "5m")
        assert (ran.code, door.left, "Healthy 4/4 updated" in ran.out) == (0, 0, True), ran
    assert "HTTP" in ran.err
    assert "; retrying\n" in ran.err


@pytest.mark.parametrize("status", [401, 403, 404])
def test_one_that_goes_on_ends_it_after_half_a_minute(status: int) -> None:
    with few_nodes() as scene:
        behind_a_balancer(scene, f"get {KIND}", status, times=1000)
        began = scene.now()
        assert scene.run(*WATCH, "--timeout", "5m").code == 1
        assert 30.0 <= scene.now() - began <= 33.0


def test_what_the_server_itself_refuses_ends_it_at_once() -> None:
    with few_nodes() as scene:
        scene.door.forbid("get", KIND)
        began = scene.now()
        assert scene.run(*WATCH, "--timeout", "5m").code == 1
        assert scene.now() - began < 1.0


@pytest.mark.parametrize(
    ("resource", "effect"),
    [("nodes", Answer(401)), ("pods", Answer(500)), ("nodes", Answer(403, "Forbidden"))],
    ids=["nodes 401", "pods 500", "nodes 403"],
)
def test_what_has_been_written_is_waited_for_though_the_first_look_fails(
    scene: Scene, resource: str, effect: Answer
) -> None:
    scene.nodes.behave("*", PACE)
    rule = Rule(effect, verb="list", resource=resource, nth=(2,))
    scene.door.link.faults.add(rule)
    ran = acted(scene, "set-image", NEW, "--wait", "--timeout", "1h")
    assert (ran.code, scene.door.link.faults.fired(rule)) == (0, 1), ran


def test_one_403_of_a_load_balancer_makes_no_watch_blind() -> None:
    with moving() as scene:
        behind_a_balancer(scene, "list pods", 403)
        ran = scene.run(*WATCH, "--timeout", "30s")
    assert (ran.code, "without the right to list pods" in ran.err) == (3, False), ran


def test_a_refused_later_node_list_leaves_the_one_before() -> None:
    """It is listed again each minute."""

    async def refuses(_: Scene) -> None:
        await asyncio.sleep(30.0)
        door.left = 1

    with moving() as scene:
        door = behind_a_balancer(scene, "list nodes", 403, times=0)
        ran = scene.run(*WATCH, "--timeout", "100s", "-o", "json", meanwhile=refuses)
    assert (door.left, "nodes: forbidden" in ran.out + ran.err) == (0, False), ran


WRONG = pytest.mark.parametrize("ahead", [86_400.0, -12 * MINUTE], ids=["a day ahead", "behind"])
HOME = ("-n", NAMESPACE)


@WRONG
def test_a_rollout_that_moves_is_not_stalled(ahead: float) -> None:
    with moving() as scene:
        ran = scene.run("status", NAME, "-w", "--timeout", "30s", *HOME, clock_ahead=ahead)
        assert (ran.code, "Stalled" in ran.out) == (3, False), ran.out


@WRONG
def test_a_clock_that_is_set_while_it_waits_ends_nothing(ahead: float) -> None:
    with moving() as scene:
        moment = scene.now() + 10.0
        ran = scene.run(*WATCH, "--timeout", "50s", *HOME, clock_ahead=lambda: ahead if scene.now() > moment else 0.0)
        assert (ran.code, "tall" in ran.out + ran.err) == (3, False), ran


@WRONG
def test_a_log_gets_its_lines_though_the_clock_is_set(ahead: float) -> None:
    with at_half() as scene:
        moment = scene.now() + 10.0
        ran = scene.run(
            *("status", NAME, "-w", "--image", "agent:2.0.0", "--timeout", "100s", *HOME),
            clock_ahead=lambda: ahead if scene.now() > moment else 0.0,
        )
        quiet = [line.partition("(no change for ")[2] for line in ran.out.splitlines()[1:4]]
        assert quiet == ["30s)", "60s)", "90s)"], ran.out


@WRONG
def test_what_is_reported_and_noted_is_the_same_as_with_the_right_clock(ahead: float) -> None:
    told: list[tuple[str, str]] = []
    for wrong in (0.0, ahead):
        with moving() as scene:
            out = scene.run("status", NAME, *HOME, clock_ahead=wrong).out
            scene.run("pause", NAME, *HOME, clock_ahead=wrong)
            noted = json.loads(stored(scene)["metadata"]["annotations"]["kruise-ds/last-action"])["at"]
            told.append((out, noted))
    assert told[0][1][:18] == told[1][1][:18]
    assert told[0][0].splitlines()[1:] == told[1][0].splitlines()[1:]
