"""When checks are evaluated, what their answers say later, and that nothing waits for a slow Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf

import pytest
from msgspec.structs import replace

from controller.api.daemonset import Check, CheckRecord, DaemonSet, DaemonSetStatus, Rollout
from controller.api.objects import Key, rfc3339
from controller.kube.decode import Seen
from controller.kube.prometheus import QUERY_SECONDS
from controller.planner.checks import ANSWER_SECONDS, CheckRequest, CheckResult, checks_now
from controller.reconcile.check_evaluation import MOST_QUERIES, CheckResults, Checks
from controller.reconcile.dependencies import Observer
from controller.runtime.clock import Instant
from controller.runtime.pacing import PacedQueue
from tests.beds.prometheus.played import Played
from tests.beds.stores import caches_of
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, ds

ERRORS, LAG = Check(name="errors", query="errors $revision"), Check(name="lag", query="lag")


def asking(*checks: Check, revision: str = "v2", checked_from: float | None = None) -> CheckRequest:
    return CheckRequest(checks=checks or (ERRORS,), revision=revision, pods=("a",), checked_from=checked_from)


class Reported(Observer):
    def __init__(self) -> None:
        self.problems: list[tuple[str, str, str]] = []

    def check_answered(self, key: Key, check: str, problem: str) -> None:
        self.problems.append((key.name, check, problem))


class Scene:
    """Checks beside a queue that has no worker. A pass decides at once."""

    def __init__(self, *daemonsets: DaemonSet) -> None:
        self.played, self.caches = Played(), caches_of(daemonsets)
        self.queue = PacedQueue[Key]()
        self.reported = Reported()
        self.checks = Checks(self.played.prometheus, self.caches, self.queue, self.reported)

    def decided(self, daemonset: DaemonSet, answers: CheckResults, wanted: CheckRequest | None) -> None:
        self.checks.set_request(daemonset, answers, wanted, Instant(NOW + now(), now()))

    def woken(self) -> list[str]:
        """What a worker would do now."""
        found = []
        while self.queue.depth:
            taken = self.queue._queue.popleft()
            self.queue._dirty.pop(taken, None)
            found.append(taken.name)
        return found

    @property
    def times(self) -> list[float]:
        return [round(at, 1) for at, _ in self.played.asked]


@asynccontextmanager
async def scene(*daemonsets: DaemonSet) -> AsyncIterator[Scene]:
    made = Scene(*daemonsets)
    async with made.checks.evaluating():
        yield made


def named(number: int) -> DaemonSet:
    return replace(ds(), name=f"ds-{number}", uid=f"uid-{number}")


@virtual_time
async def test_a_check_is_evaluated_at_once_and_every_30_seconds_while_a_step_is_open() -> None:
    daemonset, answers = named(0), CheckResults()
    async with scene(daemonset) as one:
        one.decided(daemonset, answers, asking())
        await asyncio.sleep(1)
        assert one.woken() == ["ds-0"]
        assert one.played.asked[0][1] == "errors v2"
        one.decided(daemonset, answers, asking())
        await asyncio.sleep(69)
        assert one.times == [0.0, 30.0, 60.0]
        assert one.woken() == [], "nothing has changed"
        one.played.fails()
        await asyncio.sleep(30)
        assert one.woken() == ["ds-0"]
        one.decided(daemonset, answers, None)
        await asyncio.sleep(300)
        assert len(one.times) == 4
        assert answers.dated(Instant(NOW, now())) == {}


@virtual_time
async def test_a_soak_ends_with_an_evaluation_that_wakes_its_rollout() -> None:
    daemonset, answers = named(0), CheckResults()
    async with scene(daemonset) as one:
        one.decided(daemonset, answers, asking(checked_from=NOW + 40))
        await asyncio.sleep(39)
        one.woken()
        await asyncio.sleep(2)
        assert one.times == [0.0, 30.0, 40.0]
        assert one.woken() == ["ds-0"]
        assert answers.dated(Instant(NOW + now(), now()))["errors"].sent_at >= NOW + 40
        await asyncio.sleep(31)
        assert one.times == [0.0, 30.0, 40.0, 70.0]
        assert one.woken() == []


@virtual_time
async def test_a_check_without_an_answer_is_reported_once_and_once_more_when_it_is_answered() -> None:
    daemonset = named(0)
    async with scene(daemonset) as one:
        one.decided(daemonset, CheckResults(), asking())
        await asyncio.sleep(1)
        assert one.reported.problems == []
        one.played.is_dead = True
        await asyncio.sleep(600)
        assert one.reported.problems == [
            ("ds-0", "errors", "Prometheus cannot be asked: prometheus:9090: Connection refused")
        ]
        one.played.is_dead = False
        await asyncio.sleep(31)
        assert one.reported.problems[1:] == [("ds-0", "errors", "")]


@virtual_time
async def test_a_prometheus_without_an_answer_wakes_once_it_counts() -> None:
    daemonset, answers = named(0), CheckResults()
    async with scene(daemonset) as one:
        one.decided(daemonset, answers, asking())
        await asyncio.sleep(1)
        one.woken()
        one.played.is_dead = True
        await asyncio.sleep(85)
        assert one.woken() == []
        await asyncio.sleep(10)
        assert one.woken() == ["ds-0"]
        await asyncio.sleep(600)
        assert one.woken() == []
        one.played.is_dead = False
        await asyncio.sleep(31)
        assert one.woken() == ["ds-0"]
        assert answers.known["errors"].problem == ""


@pytest.mark.parametrize("edit", [asking(revision="v3"), asking(replace(ERRORS, query="errors 2")), asking(LAG)])
async def test_an_answer_of_before_an_edit_does_not_count(edit: CheckRequest) -> None:
    answers = CheckResults()
    answers.observe(None, Instant(NOW, 0.0))
    answers.prepare(asking(), 0.0)
    answers.known["errors"].answered("", 1.0, 70.0)
    answers.prepare(asking(), 0.0)
    assert answers.dated(Instant(NOW, 2.0))["errors"].sent_at == NOW - 1
    answers.tried = 1.0
    answers.prepare(edit, 2.0)
    assert [one.sent_at for one in answers.dated(Instant(NOW, 2.0)).values()] == [-inf]
    assert answers.tried == -inf


@virtual_time
async def test_an_answer_that_comes_after_an_edit_is_dropped() -> None:
    daemonset, answers = named(0), CheckResults()
    async with scene(daemonset) as one:
        one.played.seconds = 5.0
        one.played.fails("errors v2")
        one.decided(daemonset, answers, asking())
        await asyncio.sleep(1)
        one.decided(daemonset, answers, asking(revision="v3"))
        await asyncio.sleep(5)
        assert answers.dated(Instant(NOW, now()))["errors"].sent_at == -inf
        await asyncio.sleep(25)
        assert [query for _, query in one.played.asked[:2]] == ["errors v2", "errors v3"]
        assert answers.dated(Instant(NOW, now()))["errors"].series == ""
        assert answers.known["errors"].sent_at == pytest.approx(one.played.asked[-1][0], abs=0.1), "not when it came"


@virtual_time
async def test_what_is_gone_is_not_asked_about() -> None:
    daemonsets = [named(number) for number in range(3)]
    async with scene(*daemonsets) as one:
        for daemonset in daemonsets:
            one.decided(daemonset, CheckResults(), asking())
        await asyncio.sleep(1)
        assert len(one.times) == 3
        one.played.asked.clear()
        store = one.caches.daemonsets.writers[""]
        store.apply(Seen(key=daemonsets[0].key, version="9", obj=None))
        store.apply(Seen(key=daemonsets[1].key, version="9", obj=replace(daemonsets[1], uid="another")))
        store.apply(
            Seen(key=daemonsets[2].key, version="9", obj=replace(daemonsets[2], version="9", terminating=True))
        )
        await asyncio.sleep(60)
        assert one.times == []
        assert one.checks._open == {}


@virtual_time
async def test_slow_queries_of_some_hold_up_others_for_a_moment_only() -> None:
    """Of three times as many DaemonSets as may ask at once, with ten slow checks each."""
    slow = [named(number) for number in range(3 * MOST_QUERIES)]
    quick = replace(named(0), name="quick", uid="quick")
    async with scene(*slow, quick) as one:
        checks = tuple(Check(name=f"slow-{number}", query="slow") for number in range(10))
        one.played.is_silent_if = lambda query: query == "slow"
        for daemonset in slow:
            one.decided(daemonset, CheckResults(), asking(*checks))
        await asyncio.sleep(15)
        answers = CheckResults()
        one.decided(quick, answers, asking())
        await asyncio.sleep(40)
        assert answers.known["errors"].sent_at > 0
        assert one.played.most_at_once == MOST_QUERIES


@virtual_time
async def test_leaving_drops_what_is_under_way() -> None:
    daemonset = named(0)
    async with scene(daemonset) as one:
        one.played.is_silent = True
        one.decided(daemonset, CheckResults(), asking())
        await asyncio.sleep(1)
    assert now() == pytest.approx(1.0)


def recorded(ago: float, state: str = "Failing") -> DaemonSetStatus:
    record = CheckRecord(name="errors", state=state, since=rfc3339(NOW - ago))
    return DaemonSetStatus(update_revision="v2", rollout=Rollout(checks=(record,)))


def answered(status: DaemonSetStatus | None, *moments: tuple[float, str], revision: str = "v2") -> CheckResult:
    """As of 1000, after these answers by a process whose first pass was at 0, when it was `NOW`."""
    answers = CheckResults()
    answers.observe(status, Instant(NOW, 0.0))
    answers.prepare(asking(revision=revision), 0.0)
    for moment, series in moments:
        answers.observe(status, Instant(NOW - 9999, moment))
        answers.known["errors"].answered(series, moment, 70.0)
    return answers.dated(Instant(NOW + 1000, 1000.0))["errors"]


@pytest.mark.parametrize(
    ("found", "since"),
    [
        (lambda: answered(None, (10, "x"), (40, "y")), NOW + 10),
        (lambda: answered(recorded(100), (10, "x"), (40, "y")), NOW - 100),
        (lambda: answered(recorded(-100), (10, "x")), NOW),
        (lambda: answered(recorded(100, "Unanswered"), (10, "x")), NOW + 10),
        (lambda: answered(recorded(100), (80, "x")), NOW + 80),
        (lambda: answered(recorded(100), (10, "x"), revision="v3"), NOW + 10),
        (lambda: answered(recorded(100), (10, ""), (40, "x")), NOW + 40),
        (lambda: answered(None, (10, "x"), (40, ""), (70, "x")), NOW + 70),
        (lambda: answered(None, (10, "x"), (100, "x")), NOW + 100),
        (lambda: answered(None, (10, "x"), (40, "")), inf),
    ],
)
def test_since_when_a_check_fails(found: Callable[[], CheckResult], since: float) -> None:
    """By the record of another process, then by answers one after the other; setting the clock changes nothing."""
    assert found().since == since


@virtual_time
async def test_ten_checks_with_slow_answers_are_answered_all_the_time() -> None:
    daemonset, answers = named(0), CheckResults()
    checks = tuple(Check(name=f"slow-{number}", query="slow") for number in range(10))
    async with scene(daemonset) as one:
        one.played.seconds = ANSWER_SECONDS - 1
        one.decided(daemonset, answers, asking(*checks))
        await asyncio.sleep(100)
        one.woken()
        for _ in range(60):
            await asyncio.sleep(10)
            found = checks_now(checks, answers.dated(Instant(NOW + now(), now())), Rollout(), NOW + now())
            assert {check.state for check in found} == {None}
            one.decided(daemonset, answers, asking(*checks))
        assert one.woken() == []
        assert one.played.most_at_once == 1, "one after the other"


def test_what_an_answer_may_take_is_what_is_waited_for_it() -> None:
    assert ANSWER_SECONDS == QUERY_SECONDS
