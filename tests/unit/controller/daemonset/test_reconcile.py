"""One pass from the key to its outcome: when it may act, what it says, and when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.wellknown import ROLLOUT_COMPLETE
from controller.daemonset.caches import Caches
from controller.daemonset.reconcile import Reconciler
from controller.daemonset.state import DaemonSetStates
from controller.kube.decode import Bookmark, Seen
from controller.kube.request import Request, Response
from controller.planner.world import Accepted
from controller.runtime.freshness import PODS, STALE_WARNING
from controller.runtime.pacing import FIRST_INTERVAL, Pacer
from controller.runtime.passes import LOOK_AGAIN_SECONDS, PATIENCE
from controller.runtime.watch import Init
from controller.runtime.workers import ComeBack, Done, Outcome, Retry, Work
from controller.runtime.workqueue import Taken
from tests.beds.dependencies import Acting, refusal
from tests.beds.scripted import Answer, ok
from tests.beds.stores import open_store
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, OURS, ago, ds, node, pod, revision, template

CONFLICT = refusal(409, "Conflict")
GONE = refusal(404, "NotFound")
STATUS = "PATCH status"


class Passes:
    """One DaemonSet as the caches have it. `now` of its hands follows the loop's time."""

    def __init__(
        self,
        daemonset: DaemonSet | None = None,
        *,
        nodes: int = 1,
        pods: Iterable[Pod] = (),
        revisions: Iterable[Revision] = (revision("v1"),),
    ) -> None:
        self.daemonset = daemonset or ds()
        (self._ours, ours), (self._pods, stored_pods) = open_store(DaemonSet), open_store(Pod)
        (node_writer, stored_nodes), (history, stored_revisions) = open_store(Node), open_store(Revision)
        self.stored(self.daemonset)
        self.pods_are(pods)
        for number in range(nodes):
            listed = node(f"node-{number}")
            node_writer.feed(Seen(key=listed.key, version="1", obj=listed))
        for stored in revisions:
            history.feed(Seen(key=stored.key, version="1", obj=stored))
        self.acting = Acting(daemonset=self.daemonset)
        self.states = DaemonSetStates()
        self.states.of(OURS).verdicts.by_revision = {one.hash: Accepted() for one in revisions}
        self.woken: list[str] = []
        self.left: dict[asyncio.Task[Any] | None, Callable[[Exception | None], None]] = {}
        self.statuses, self.told = self.acting.statuses, self.acting.told
        self.reconciler = Reconciler(
            dependencies=replace(self.acting.dependencies, clock=lambda: NOW + now()),
            caches=Caches(ours, stored_pods, stored_nodes, stored_revisions),
            states=self.states,
            pacer=Pacer(),
        )

    def only_waits(self) -> None:
        """From now on the pass only waits for the server: it has asked for nothing before."""
        assert not self.acting.script.requests

    def begin(self, work: Work) -> asyncio.Task[Exception | None]:
        async def guarded() -> Exception | None:
            raised = None
            try:
                await work()
            except Exception as error:
                raised = error
            if tell := self.left.pop(asyncio.current_task(), None):
                tell(raised)
            return raised

        return asyncio.get_running_loop().create_task(guarded())

    def leave(self, task: asyncio.Task[Exception | None], tell: Callable[[Exception | None], None]) -> None:
        self.left[task] = tell

    def wake(self, reason: str) -> None:
        self.woken.append(reason)

    def stored(self, daemonset: DaemonSet) -> None:
        self._ours.feed(Seen(key=daemonset.key, version=daemonset.version, obj=daemonset))

    def is_gone(self) -> None:
        self._ours.feed(Seen(key=self.daemonset.key, version="99", obj=None))

    def pods_are(self, pods: Iterable[Pod], *, version: int = 1) -> None:
        for _ in self.pods_become(pods, version=version):
            pass

    def pods_become(self, pods: Iterable[Pod], *, version: int) -> Iterator[object]:
        """The list is complete; it is taken in while you walk through it."""
        self._pods.feed(Init())
        for one in pods:
            self._pods.feed(Seen(key=one.key, version=str(version), obj=replace(one, version=str(version))))
        return self._pods.swap(str(version))

    def pods_seen_until(self, version: int) -> None:
        self._pods.feed(Bookmark(version=str(version)))

    async def __call__(self, *answers: Answer) -> Outcome:
        script = self.acting.script
        script.answers[:] = answers
        script.requests.clear()
        outcome = await self.reconciler(Taken(key=self.daemonset.key, reasons=(), queued_seconds=0.0), self)
        assert not script.answers, f"nobody asked for {script.answers}"
        return outcome

    async def freely(self) -> Outcome:
        """Whatever is asked goes through."""
        script = self.acting.script
        script.answers[:] = [ok()] * 9
        script.requests.clear()
        return await self.reconciler(Taken(key=self.daemonset.key, reasons=(), queued_seconds=0.0), self)

    @property
    def asked(self) -> list[str]:
        return self.acting.asked

    @property
    def said(self) -> list[str]:
        return [note.reason for note in self.acting.notes]


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
async def test_a_daemonset_that_changes_while_a_pass_waits_is_looked_at_anew() -> None:
    passes = Passes(pods=[pod("node-0")])
    steps = passes.pods_become([], version=9)
    next(steps)
    waiting = asyncio.ensure_future(passes())
    await asyncio.sleep(0.1)
    passes.stored(replace(passes.daemonset, generation=2, version="7"))
    for _ in steps:
        pass
    assert isinstance(await waiting, ComeBack)
    assert passes.asked == []


@virtual_time
async def test_own_writes_that_are_not_seen_are_waited_for_and_after_a_second_looked_past_but_not_acted_on() -> None:
    passes = Passes()
    passes.acting.dependencies.ledger.wrote(OURS, PODS, "50", now())
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
        passes.acting.dependencies.ledger.wrote(OURS, PODS, str(version), now())
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


BUSY = refusal(429, retry_after=99)


@pytest.mark.parametrize("answers", [(BUSY, ok()), (ok(), BUSY), (BUSY, CONFLICT)])
@virtual_time
async def test_a_server_that_asks_for_time_gets_it(answers: tuple[Answer, ...]) -> None:
    outcome = await Passes()(*answers)
    assert isinstance(outcome, Retry)
    assert outcome.at_least == 99


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
            await asyncio.sleep(PATIENCE + 5)
            raise KeyError("pod-1")
        return ok()

    passes.acting.script.answers = [mistaken] * 10
    taken = Taken(key=passes.daemonset.key, reasons=(), queued_seconds=0.0)
    await passes.reconciler(taken, passes)
    assert passes.woken == []
    await asyncio.sleep(10)
    assert passes.woken == ["a mistake of ours"]
    with pytest.raises(KeyError):
        await passes.reconciler(taken, passes)
