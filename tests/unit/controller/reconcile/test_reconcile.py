"""One pass from the key to its outcome: when it may act, what it says, and when it comes back."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.names import ROLLOUT_COMPLETE
from controller.kube.requests import Request, Response
from controller.reconcile.caches import Cached
from controller.reconcile.reconcile import RECHECK_SECONDS, ImagePulls, seconds_until_due
from controller.reconcile.write_outcomes import TRUSTED_SECONDS
from controller.runtime.expectations import OF_PODS, STALE_WARNING
from controller.runtime.pacing import FIRST_INTERVAL
from controller.runtime.workers import AT_ONCE, SILENCE_SECONDS, STALE_RETRY_SECONDS, Done, RequeueAfter, Retry
from tests.beds.dependencies import refusal, stored
from tests.beds.scripted import Answer, Slow, ok
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import OURS, ago, ds, pod, revision
from tests.unit.controller.reconcile.passes import CONFLICT, STATUS, Passes

GONE = refusal(404, "NotFound")


@pytest.mark.parametrize("spec", [{}, {"nodeSelector": "everywhere"}], ids=["sound", "senseless"])
@virtual_time
async def test_a_terminating_daemonset_is_the_garbage_collectors(spec: dict[str, Any]) -> None:
    passes = Passes(ds(terminating=True, **spec))
    assert await passes() == Done()
    assert (passes.asked, passes.told["planned"]) == ([], 0)


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


@virtual_time
async def test_a_pass_that_cannot_decide_is_over_all_the_same() -> None:
    """A pass that counts as running for ever delays each later one by a whole rest."""

    class Mistaken(ImagePulls):
        def unpulled(self, daemonset: DaemonSet, cached: Cached) -> NoReturn:
            raise KeyError("image")

    passes = Passes(image_pulls=Mistaken())
    key = passes.daemonset.key
    passes.pacer.passed(key, 1.0, now())
    with pytest.raises(KeyError):
        await passes()
    await asyncio.sleep(60)
    assert passes.pacer.delay(key, "urgent", now()) == 0.0


@virtual_time
async def test_a_pass_amid_a_new_list_finds_each_node_with_its_pod() -> None:
    there = [pod("node-0"), pod("node-1")]
    passes = Passes(pods=there, nodes=2)
    for _ in passes.pods_become([replace(one, name=f"{one.name}-2", uid=f"{one.uid}-2") for one in there], version=9):
        await passes.freely()
        assert set(passes.asked) <= {STATUS}


@virtual_time
async def test_an_answer_that_comes_during_a_list_is_waited_for_in_the_cache() -> None:
    """The list is older than the deletion: a pass that trusts it decides to delete the same pod again."""
    there = [pod("node-0", "v1"), pod("node-1", "v1")]
    history = (revision("v1", number=1), revision("v2", number=2))
    passes = Passes(ds(rev="v2", max_unavailable=1), nodes=2, pods=there, revisions=history)
    passes.pods_are(there, version=10)
    terminating = ok(b'{"kind":"Pod","metadata":{"uid":"x","resourceVersion":"20"}}')
    async with passes.slow(Slow(SILENCE_SECONDS + 3, terminating)):
        assert [one.partition(" ")[0] for one in passes.asked] == ["DELETE"]
        await passes(ok())
        assert passes.asked == [STATUS], "of what is not under way"
        steps = passes.pods_become(there, version=15)
        next(steps)
        await asyncio.sleep(4)  # until the deletion is answered
        for _ in steps:
            assert await passes() == RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
            assert passes.asked == []


@virtual_time
async def test_what_is_answered_after_the_daemonset_is_gone_is_not_kept() -> None:
    passes = Passes()
    passing = asyncio.ensure_future(passes(Slow(1.0, ok()), GONE))
    await asyncio.sleep(0.5)
    passes.is_gone()
    passes.states.forget(OURS)
    passes.acting.dependencies.expectations.forget(OURS)
    assert await passing == Done()
    assert len(passes.acting.dependencies.expectations._owners) == 0


@virtual_time
async def test_a_status_without_its_daemonset_is_done_once_the_cache_knows() -> None:
    """Until then a webhook or a proxy may have said that it is gone."""
    passes = Passes()
    assert isinstance(await passes(ok(), GONE), Retry)
    passes.is_gone()
    assert await passes() == Done()


@virtual_time
async def test_the_end_of_a_rollout_is_reported_once_its_status_is_written() -> None:
    passes = Passes(nodes=1)
    await passes(ok(), ok())
    passes.pods_are([pod("node-0")], version=8)
    await passes(CONFLICT)
    assert ROLLOUT_COMPLETE not in passes.said
    await passes(ok())
    assert passes.said.count(ROLLOUT_COMPLETE) == 1
    await passes()
    assert passes.said.count(ROLLOUT_COMPLETE) == 1


@virtual_time
async def test_a_bug_after_the_key_was_requeued_fails_its_own_pass() -> None:
    passes = Passes(nodes=1)

    async def mistaken(request: Request) -> Response:
        await asyncio.sleep(SILENCE_SECONDS + 5)
        raise KeyError("pod-1")

    with pytest.RaisesGroup(KeyError):
        async with passes.slow(mistaken):
            await passes(ok())
            assert passes.asked == [STATUS]
    assert await passes.freely() is not None
    assert passes.asked[0] == "POST pods", "nothing is under way any more"


@virtual_time
async def test_each_late_answer_requeues_its_key() -> None:
    passes = Passes(nodes=1)
    async with passes.slow(Slow(SILENCE_SECONDS + 3, ok())) as passing:
        await passes(ok())
    assert passes.woken == ["not answered yet", "answered at last"]
    assert passing.result() == RequeueAfter(AT_ONCE, "time passed")


@virtual_time
async def test_a_pass_whose_answers_are_late_begins_nothing_more() -> None:
    passes = Passes(nodes=2)
    async with passes.slow(Slow(SILENCE_SECONDS + 3, ok())):
        pass
    assert passes.asked == ["POST pods"]


@virtual_time
async def test_a_failure_that_is_late_is_reported_all_the_same() -> None:
    passes = Passes(nodes=1)
    async with passes.slow(Slow(SILENCE_SECONDS + 3, refusal(403, "Forbidden")), GONE):
        assert passes.states.of(OURS).write_failure is None
    assert passes.states.of(OURS).write_failure is not None


@virtual_time
async def test_what_failed_before_the_others_are_late_is_reported_at_once() -> None:
    history = (revision("v1", number=1), revision("v2", number=2))
    there = [pod("node-0"), pod("node-1")]
    passes = Passes(ds(rev="v2", max_unavailable=2), nodes=2, pods=there, revisions=history)
    answers = refusal(403, "Forbidden"), Slow(SILENCE_SECONDS + 3, ok()), stored("node-1-v1")
    async with passes.slow(*answers):
        assert passes.states.of(OURS).write_failure is not None


@virtual_time
async def test_a_dry_run_that_fails_is_not_repeated_at_once() -> None:
    history = (revision("v1", number=1), revision("v2", number=2))
    passes = Passes(ds(rev="v2"), pods=[pod("node-0")], revisions=history)
    await asyncio.sleep(TRUSTED_SECONDS)
    outcome = await passes(refusal(500), ok())
    assert isinstance(outcome, Retry)
    assert outcome.at_most is None or outcome.at_most >= RECHECK_SECONDS


@virtual_time
async def test_own_writes_that_are_not_seen_hold_up_actions_but_not_the_status() -> None:
    passes = Passes()
    passes.acting.dependencies.expectations.expect_version(OURS, OF_PODS, "50", now())
    assert await passes() == RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
    assert passes.asked == []
    await asyncio.sleep(STALE_RETRY_SECONDS)
    outcome = await passes(ok())
    assert passes.asked == [STATUS], "no pod is made from caches that may lack it"
    assert isinstance(outcome, RequeueAfter)
    assert outcome.after <= STALE_RETRY_SECONDS
    passes.pods_seen_until(50)
    await passes.freely()
    assert passes.asked[0] == "POST pods"
    assert passes.told["stale"] == 2


@virtual_time
async def test_a_cache_that_stays_behind_is_listed_again_once_each_time() -> None:
    passes = Passes()
    for time, version in enumerate((50, 60), start=1):
        passes.acting.dependencies.expectations.expect_version(OURS, OF_PODS, str(version), now())
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
    """Only what no user waits for: no generation, no condition, no end."""
    passes = Passes(nodes=4)
    young = [pod(f"node-{number}", ready=None) for number in range(4)]
    passes.pods_are(young, version=2)
    await passes(ok())
    passes.pods_are([pod("node-0"), *young[1:]], version=8)
    outcome = await passes()
    assert isinstance(outcome, RequeueAfter)
    assert 0 < outcome.after <= FIRST_INTERVAL
    await asyncio.sleep(outcome.after)
    await passes(ok())
    passes.pods_are([pod("node-0"), pod("node-1"), *young[2:]], version=9)
    assert isinstance(await passes(), RequeueAfter), "and the next one waits longer"


@virtual_time
async def test_a_status_that_is_refused_late_is_not_sent_again_at_once() -> None:
    passes = Passes(pods=[pod("node-0")])
    async with passes.slow(Slow(5.0, CONFLICT)):
        pass
    assert isinstance(await passes(), RequeueAfter)
    assert passes.asked == []


@virtual_time
async def test_what_time_alone_will_change_is_looked_at_then() -> None:
    outcome = await Passes(ds(min_ready=60), pods=[pod("node-0", ready=ago(20))])(ok())
    assert isinstance(outcome, RequeueAfter)
    assert 40 < outcome.after < 41
    outcome = await Passes(ds(min_ready=60), nodes=2, pods=[pod("node-0", ready=ago(20))])(CONFLICT, ok())
    assert isinstance(outcome, Retry)
    assert outcome.at_most is not None
    assert 40 < outcome.at_most < 41, "it stays due after an error"


@virtual_time
async def test_after_a_refused_status_no_pass_is_due_at_once() -> None:
    """Each pass wants another one at once while a record that it decides by is not written."""
    outcome = await Passes(ds(min_ready=60), pods=[pod("node-0", ready=ago(59.9))])(refusal(403, "Forbidden"))
    assert isinstance(outcome, Retry)
    assert outcome.at_most == STALE_RETRY_SECONDS


@pytest.mark.parametrize(
    ("wakes_in", "status_due", "again", "fresh", "due"),
    [
        (None, None, False, True, None),
        (60.0, None, False, True, 60.0),
        (-3.0, None, False, True, AT_ONCE),
        (None, 1e-15, False, True, AT_ONCE),
        (60.0, 2.0, False, True, 2.0),
        (1.0, 2.0, False, True, 1.0),
        (None, 2.0, False, True, 2.0),
        (60.0, 2.0, True, True, AT_ONCE),
        (None, None, True, False, AT_ONCE),
        (None, None, False, False, STALE_RETRY_SECONDS),
        (60.0, 2.0, False, False, STALE_RETRY_SECONDS),
        (0.5, None, False, False, 0.5),
    ],
)
def test_the_next_pass_is_due_when_the_first_of_its_reasons_is(
    wakes_in: float | None, status_due: float | None, again: bool, fresh: bool, due: float | None
) -> None:
    assert seconds_until_due(wakes_in, status_due, again=again, fresh=fresh, wrote=False) == due


@pytest.mark.parametrize(("wakes_in", "due"), [(None, RECHECK_SECONDS), (60.0, RECHECK_SECONDS), (1.0, 1.0)])
def test_after_its_writes_a_pass_is_due_soon_without_an_event(wakes_in: float | None, due: float) -> None:
    assert seconds_until_due(wakes_in, None, again=False, fresh=True, wrote=True) == due


BUSY = refusal(429, retry_after=99)


@pytest.mark.parametrize("answers", [(BUSY, ok()), (ok(), BUSY), (BUSY, CONFLICT)])
@virtual_time
async def test_a_server_that_asks_for_time_gets_it(answers: tuple[Answer, ...]) -> None:
    outcome = await Passes()(*answers)
    assert isinstance(outcome, Retry)
    assert outcome.at_least == 30
