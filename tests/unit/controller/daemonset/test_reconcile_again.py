"""When a pass comes back: after errors, writes that are not seen, and what time alone will change."""

from __future__ import annotations

import asyncio

import pytest

from controller.daemonset.reconcile import due_in
from controller.runtime.freshness import OF_PODS, STALE_WARNING
from controller.runtime.pacing import FIRST_INTERVAL
from controller.runtime.pass_outcome import AT_ONCE, LOOK_AGAIN_SECONDS
from controller.runtime.workers import ComeBack, Retry
from tests.beds.dependencies import refusal
from tests.beds.scripted import Answer, ok
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import OURS, ago, ds, pod
from tests.unit.controller.daemonset.passes import CONFLICT, STATUS, Passes


@virtual_time
async def test_own_writes_that_are_not_seen_are_waited_for_and_after_a_second_looked_past_but_not_acted_on() -> None:
    passes = Passes()
    passes.acting.dependencies.ledger.wrote(OURS, OF_PODS, "50", now())
    assert await passes() == ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
    assert passes.asked == []
    await asyncio.sleep(LOOK_AGAIN_SECONDS)
    outcome = await passes(ok())
    assert passes.asked == [STATUS], "no pod is made from caches that may lack it"
    assert isinstance(outcome, ComeBack)
    assert outcome.after <= LOOK_AGAIN_SECONDS
    passes.pods_seen_until(50)
    await passes.freely()
    assert passes.asked[0] == "POST pods"
    assert passes.told["stale"] == 2


@virtual_time
async def test_a_cache_that_stays_behind_is_listed_again_once_each_time() -> None:
    passes = Passes()
    for time, version in enumerate((50, 60), start=1):
        passes.acting.dependencies.ledger.wrote(OURS, OF_PODS, str(version), now())
        await passes.freely()
        await asyncio.sleep(STALE_WARNING)
        await passes.freely()
        assert passes.told["overdue"] == time - 1, "not before the time is over"
        for _ in range(3):
            await asyncio.sleep(1.0)
            await passes.freely()
        assert passes.told["overdue"] == time
        passes.pods_are([pod("node-0")], version=version)
        await passes.freely()


@virtual_time
async def test_a_status_that_was_just_written_is_not_written_again_at_once() -> None:
    """Only what nobody waits for: no generation, no condition, no end."""
    passes = Passes(nodes=4)
    young = [pod(f"node-{number}", ready=None) for number in range(4)]
    passes.pods_are(young, version=2)
    await passes(ok())
    passes.pods_are([pod("node-0"), *young[1:]], version=8)
    outcome = await passes()
    assert isinstance(outcome, ComeBack)
    assert 0 < outcome.after <= FIRST_INTERVAL
    await asyncio.sleep(outcome.after)
    await passes(ok())
    passes.pods_are([pod("node-0"), pod("node-1"), *young[2:]], version=9)
    assert isinstance(await passes(), ComeBack), "and the next one waits longer"


@virtual_time
async def test_what_time_alone_will_change_is_looked_at_then() -> None:
    passes = Passes(ds(min_ready=60), pods=[pod("node-0", ready=ago(20))])
    outcome = await passes(ok())
    assert isinstance(outcome, ComeBack)
    assert 40 < outcome.after < 41


@virtual_time
async def test_what_is_due_stays_due_after_an_error() -> None:
    passes = Passes(ds(min_ready=60), nodes=2, pods=[pod("node-0", ready=ago(20))])
    outcome = await passes(CONFLICT, ok())
    assert isinstance(outcome, Retry)
    assert outcome.at_most is not None
    assert 40 < outcome.at_most < 41


@pytest.mark.parametrize(
    ("wakes_in", "status_due", "again", "fresh", "due"),
    [
        (None, None, False, True, None),
        (60.0, None, False, True, 60.0),
        (-3.0, None, False, True, AT_ONCE),
        (60.0, 2.0, False, True, 2.0),
        (1.0, 2.0, False, True, 1.0),
        (None, 2.0, False, True, 2.0),
        (60.0, 2.0, True, True, AT_ONCE),
        (None, None, True, False, AT_ONCE),
        (None, None, False, False, LOOK_AGAIN_SECONDS),
        (60.0, 2.0, False, False, LOOK_AGAIN_SECONDS),
        (0.5, None, False, False, 0.5),
    ],
)
def test_the_next_pass_is_due_when_the_first_of_its_reasons_is(
    wakes_in: float | None, status_due: float | None, again: bool, fresh: bool, due: float | None
) -> None:
    assert due_in(wakes_in, status_due, again=again, fresh=fresh) == due


BUSY = refusal(429, retry_after=99)


@pytest.mark.parametrize("answers", [(BUSY, ok()), (ok(), BUSY), (BUSY, CONFLICT)])
@virtual_time
async def test_a_server_that_asks_for_time_gets_it(answers: tuple[Answer, ...]) -> None:
    outcome = await Passes()(*answers)
    assert isinstance(outcome, Retry)
    assert outcome.at_least == 30


@pytest.mark.parametrize(
    ("answer", "word"),
    [(CONFLICT, "conflict"), (refusal(403, "Forbidden"), "error"), (refusal(500), "error")],
    ids=["conflict", "forbidden", "broken"],
)
@virtual_time
async def test_a_status_that_is_refused_is_counted_and_tried_again(answer: Answer, word: str) -> None:
    passes = Passes()
    assert isinstance(await passes(ok(), answer), Retry)
    assert (passes.statuses, passes.told["written"]) == ([word], 0)
