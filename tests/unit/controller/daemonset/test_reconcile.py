"""One pass from the key to its outcome: when it may act, what it says, and when it comes back."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.wellknown import ROLLOUT_COMPLETE
from controller.daemonset.caches import Cached
from controller.kube.request import Request, Response
from controller.runtime.pass_outcome import ANSWER_SECONDS, LOOK_AGAIN_SECONDS
from controller.runtime.workers import ComeBack, Done, Retry
from controller.runtime.workqueue import Taken
from tests.beds.dependencies import refusal
from tests.beds.scripted import Slow, ok
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import OURS, ds, pod, revision, template
from tests.unit.controller.daemonset.passes import CONFLICT, STATUS, Passes

GONE = refusal(404, "NotFound")


@pytest.mark.parametrize("spec", [{}, {"nodeSelector": "everywhere"}], ids=["sound", "senseless"])
@virtual_time
async def test_a_dying_daemonset_is_the_garbage_collectors(spec: dict[str, Any]) -> None:
    passes = Passes(ds(dying=True, **spec))
    assert await passes() == Done()
    assert (passes.asked, passes.told["planned"]) == ([], 0)


@virtual_time
async def test_a_pass_acts_and_then_says_how_it_stands() -> None:
    passes = Passes()
    await passes(ok(), ok())
    assert passes.asked == ["POST pods", STATUS]
    assert (passes.statuses, passes.told["written"]) == (["success"], 1)


@virtual_time
async def test_a_pass_that_cannot_decide_is_over_all_the_same() -> None:
    """A pass that counts as running for ever delays each later one by a whole rest."""

    def mistaken(daemonset: DaemonSet, cached: Cached) -> NoReturn:
        raise KeyError("image")

    passes = Passes(unpulled=mistaken)
    key = passes.daemonset.key
    passes.pacer.passed(key, 1.0, now())
    with pytest.raises(KeyError):
        await passes()
    await asyncio.sleep(60)
    assert passes.pacer.delay(key, "urgent", now()) == 0.0


@virtual_time
async def test_a_pass_waits_while_a_list_is_half_taken_in() -> None:
    """Half of it lacks pods that are there: nothing may be decided from it."""
    there = [pod("node-0"), pod("node-1")]
    passes = Passes(pods=there, nodes=2)
    steps = passes.pods_become([replace(one, name=f"{one.name}-2") for one in there], version=9)
    next(steps)
    waiting = asyncio.ensure_future(passes(ok()))
    for _ in steps:
        await asyncio.sleep(0.1)
        assert passes.asked == []
        assert not waiting.done()
    await waiting
    assert passes.asked == [STATUS], "each node has its pod"


@virtual_time
async def test_a_daemonset_that_changes_while_a_pass_waits_is_looked_at_as_it_is_then() -> None:
    passes = Passes(pods=[pod("node-0")])
    steps = passes.pods_become([pod("node-0")], version=9)
    next(steps)
    waiting = asyncio.ensure_future(passes(ok()))
    await asyncio.sleep(0.1)
    passes.stored(replace(passes.daemonset, generation=2, version="7"))
    for _ in steps:
        pass
    await waiting
    assert passes.asked == [STATUS]
    assert b'"observedGeneration":2' in passes.acting.script.requests[0].body.replace(b" ", b"")


@virtual_time
async def test_an_answer_that_comes_while_a_list_is_half_taken_in_is_waited_for_in_the_cache() -> None:
    """The list is older than the deletion: who looks at it decides to delete the same pod again."""
    there = [pod("node-0", "v1"), pod("node-1", "v1")]
    history = (revision("v1", number=1), revision("v2", number=2))
    passes = Passes(ds(rev="v2", max_unavailable=1), nodes=2, pods=there, revisions=history)
    passes.pods_are(there, version=10)
    dying = ok(b'{"kind":"Pod","metadata":{"uid":"x","resourceVersion":"20"}}')
    await passes(Slow(ANSWER_SECONDS + 3, dying), ok())
    assert [one.partition(" ")[0] for one in passes.asked] == ["DELETE", "PATCH"]
    steps = passes.pods_become(there, version=15)
    next(steps)
    waiting = asyncio.ensure_future(passes())
    await asyncio.sleep(4)  # until the deletion is answered
    for _ in steps:
        pass
    assert await waiting == ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
    assert passes.asked == []


@virtual_time
async def test_what_is_answered_after_the_daemonset_is_gone_is_not_kept() -> None:
    passes = Passes()
    passing = asyncio.ensure_future(passes(Slow(1.0, ok()), GONE))
    await asyncio.sleep(0.5)
    passes.is_gone()
    passes.reconciler.forget(OURS)
    assert await passing == Done()
    assert len(passes.acting.dependencies.ledger) == 0


@virtual_time
async def test_a_daemonset_that_is_gone_when_its_status_is_written_is_done_once_the_cache_knows() -> None:
    """Until then a webhook or a proxy may have said so."""
    passes = Passes()
    assert isinstance(await passes(ok(), GONE), Retry)
    passes.is_gone()
    assert await passes() == Done()


@virtual_time
async def test_the_end_of_a_rollout_is_told_once_its_status_is_written() -> None:
    passes = Passes(nodes=1)
    await passes(ok(), ok())
    passes.pods_are([pod("node-0")], version=8)
    await passes(CONFLICT)
    assert ROLLOUT_COMPLETE not in passes.said
    await passes(ok())
    assert passes.said.count(ROLLOUT_COMPLETE) == 1
    await passes()
    assert passes.said.count(ROLLOUT_COMPLETE) == 1


@pytest.mark.parametrize("whose", [OURS, ""], ids=["a revision of ours", "an orphan"])
@virtual_time
async def test_what_an_older_template_held_is_not_told_either(whose: str) -> None:
    """A pod of an older revision is refused, and the webhook quotes what it refuses."""
    secret: Any = template("v0")
    secret["spec"]["containers"][0]["args"] = ["--password=hunter2"]
    passes = Passes(ds(history=0), revisions=[revision("v1"), revision("v0", of=secret, owner_uid=whose)])
    outcome = await passes(refusal(409, "Conflict", "not --password=hunter2"), ok())
    assert isinstance(outcome, Retry)
    assert "(hidden)" in str(outcome.error)
    assert "hunter2" not in str(outcome.error)


@virtual_time
async def test_a_mistake_in_what_outlasted_its_pass_is_told_by_the_next_one() -> None:
    passes = Passes(nodes=1)

    async def mistaken(request: Request) -> Response:
        if request.method == "POST":
            await asyncio.sleep(ANSWER_SECONDS + 5)
            raise KeyError("pod-1")
        return ok()

    passes.acting.script.answers = [mistaken] * 10
    taken = Taken(key=passes.daemonset.key, reasons=(), queued_seconds=0.0)
    await passes.reconciler(taken, passes)
    assert passes.woken == []
    await asyncio.sleep(10)
    assert passes.woken == ["a bug in the controller"]
    with pytest.raises(KeyError):
        await passes.reconciler(taken, passes)
