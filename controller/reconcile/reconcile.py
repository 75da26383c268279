"""One pass over a DaemonSet: check that the caches are fresh, plan, carry out, write the status."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.objects import Key
from controller.kube.errors import ApiError
from controller.planner.plan import Plan, plan
from controller.planner.revisions import of_template
from controller.reconcile.caches import Cached, Caches
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.execute import PlanExecution
from controller.reconcile.inputs import ImagePulls, world_of
from controller.reconcile.state import DaemonSetState, DaemonSetStates
from controller.reconcile.write_outcomes import Answer
from controller.runtime.clock import elapsed
from controller.runtime.expectations import Stale
from controller.runtime.pacing import PacedPass, Pacer
from controller.runtime.workers import (
    AT_ONCE,
    STALE_RETRY_SECONDS,
    Answers,
    Done,
    Outcome,
    Requeue,
    RequeueAfter,
    outcome,
)
from controller.runtime.workqueue import WorkItem

RECHECK_SECONDS = 3.0
"""Seconds after its writes at which a pass is due without an event: a write that a webhook undid changes nothing."""


class _Pass(msgspec.Struct, frozen=True):
    daemonset: DaemonSet
    state: DaemonSetState
    cached: Cached
    now: float
    """Seconds since 1970."""
    moment: float
    """The same instant by `elapsed`."""
    fresh: bool
    """Whether the caches show all of the controller's writes."""


class Reconciler:
    """Runs passes over DaemonSets. Several may run at once, even over one DaemonSet while the server is slow: each
    decides in one step, and counts actions under way as done."""

    def __init__(
        self,
        *,
        dependencies: Dependencies,
        caches: Caches,
        states: DaemonSetStates,
        pacer: Pacer[Key],
        image_pulls: ImagePulls,
    ) -> None:
        self._dependencies, self._observer = dependencies, dependencies.observer
        self._clock, self._expectations = dependencies.clock, dependencies.expectations
        self._caches, self._states, self._pacer = caches, states, pacer
        self._image_pulls = image_pulls

    async def __call__(self, taken: WorkItem[Key], requeue: Requeue) -> Outcome:
        key = taken.key
        # From here to the plan nothing is awaited: otherwise a late answer to an own write could come in between, and
        # the plan would be made from caches that do not show that write.
        daemonset = self._caches.daemonsets.get(key)
        if daemonset is None or daemonset.terminating:
            self._pacer.forget(key)
            return Done()
        state = self._states.of(daemonset.uid)
        if (rest := state.seconds_yielded(daemonset, self._clock(), elapsed())) > 0:
            return RequeueAfter(rest, "another controller wrote the status")
        stale = self._stale(daemonset)
        if stale is not None and elapsed() - stale.since < STALE_RETRY_SECONDS:
            return RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
        cached = self._caches.snapshot(daemonset)
        this = _Pass(daemonset, state, cached, now=self._clock(), moment=elapsed(), fresh=stale is None)
        with PacedPass(self._pacer, key, requeue) as paced:
            decided = self._decide(this)
            self._observer.planned(paced.decided())
            return await self._act(this, decided, paced.requeue)

    def _stale(self, daemonset: DaemonSet) -> Stale | None:
        reached, is_live = self._caches.reached_for(daemonset), self._caches.aliveness(daemonset)
        stale = self._expectations.check(daemonset.uid, reached, is_live, elapsed())
        if stale is not None:
            self._observer.stale(daemonset.key, stale)
        return stale

    def _decide(self, this: _Pass) -> Plan:
        daemonset, state, cached = this.daemonset, this.state, this.cached
        compiled = state.compiled_for(daemonset)
        state.begin(daemonset.generation, cached.reach)
        state.forget_gone(cached, this.moment, fresh=this.fresh)
        current = {one.hash for one in of_template(daemonset, cached.revisions)}
        state.ready_seen.look(cached.pods, current, this.now, this.moment)
        state.restarts_seen.look(cached.pods, this.moment)
        _, status = state.status_writer.own.latest(daemonset)
        world = world_of(
            msgspec.structs.replace(daemonset, status=status),  # the cache may not show our last one yet
            compiled,
            cached,
            state,
            this.now,
            this.moment,
            fresh=this.fresh,
            unpulled=self._image_pulls.unpulled(daemonset, cached),
            moved=self._image_pulls.moved(daemonset),
        )
        decided = plan(world)
        state.decided(daemonset, decided, this.now)
        return decided

    async def _act(self, this: _Pass, decided: Plan, requeue: Requeue) -> Outcome:
        """Carries out the plan, and writes the status even after errors. The outcome has the first error."""
        daemonset = this.daemonset
        for note in decided.notes:
            self._observer.event(daemonset, note)

        def warned(text: str) -> None:
            note = this.state.server_warnings.note(daemonset.name, text, elapsed())
            if note is not None:
                self._observer.event(daemonset, note)

        # with a permit of its own it waits for no other pass at the throttle
        client = self._dependencies.client.with_reserved_permit(warned)
        dependencies = msgspec.structs.replace(self._dependencies, client=client)
        answers, in_time = await self._carry_out(this, decided, dependencies, requeue)
        errors = [answer.left for answer in answers if answer.left is not None]
        status_due: float | None = None
        if in_time:
            try:
                status_due = await this.state.status_writer.settle(daemonset, decided, dependencies, requeue)
            except ApiError as error:
                errors.append(error)
        if self._caches.is_gone(daemonset):
            self._states.forget(daemonset.uid)  # drops what was learnt from the answers
            self._expectations.forget(daemonset.uid)
            return Done()
        now = this.now + elapsed() - this.moment
        wakes_in = None if decided.wake_at is None else decided.wake_at - now
        wrote = bool(decided.actions) and in_time and not errors
        again = not in_time or (decided.again and not errors)
        return outcome(errors, seconds_until_due(wakes_in, status_due, again=again, fresh=this.fresh, wrote=wrote))

    async def _carry_out(
        self, this: _Pass, decided: Plan, dependencies: Dependencies, requeue: Requeue
    ) -> tuple[Sequence[Answer], bool]:
        """The answers, and whether they came in time; if not, another pass has begun meanwhile."""
        daemonset, state = this.daemonset, this.state

        def late(reason: str) -> None:
            if not execution.is_stopped:
                execution.stop()
                state.update_write_failure(decided, execution.answers)
            requeue(reason)

        def answered(answer: Answer) -> None:
            if answers.is_late and answer.left is not None:
                state.update_write_failure(Plan(), (answer,))
            answers.came()

        execution = PlanExecution(decided.actions, daemonset, state, dependencies, answered)
        with Answers(late) as answers:
            await execution.run()
        if not answers.is_late:
            state.update_write_failure(decided, execution.answers)
        return execution.answers, not answers.is_late


def seconds_until_due(
    wakes_in: float | None, status_due: float | None, *, again: bool, fresh: bool, wrote: bool
) -> float | None:
    """Seconds until the next pass is due even without an event, or None. `wakes_in`: when the plan wants it;
    `status_due`: when the rest of the status may be written; `again`: work is left or unanswered; `wrote`: all
    actions were accepted."""
    delays = [wakes_in, status_due, AT_ONCE if again else None, None if fresh else STALE_RETRY_SECONDS]
    delays.append(RECHECK_SECONDS if wrote else None)
    # a timer may fire a rounding error too early, and then again at once
    return min((max(delay, AT_ONCE) for delay in delays if delay is not None), default=None)
