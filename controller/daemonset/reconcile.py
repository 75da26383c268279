"""One pass over one DaemonSet: check that the caches are fresh, make the world, plan, carry out, write the status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.meta import Key
from controller.daemonset.answers import Answer, ExecutionContext
from controller.daemonset.caches import Cached, Caches
from controller.daemonset.compiled import Compiled
from controller.daemonset.dependencies import Dependencies
from controller.daemonset.execute import PlanExecution
from controller.daemonset.redaction import redacted_error
from controller.daemonset.state import DaemonSetState, DaemonSetStates
from controller.daemonset.world_of import NOTHING, world_of
from controller.kube.errors import ApiError
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.current_revision import of_template
from controller.planner.plan import Plan, plan
from controller.planner.world import Unpulled
from controller.runtime.clock import elapsed
from controller.runtime.pacing import Pacer
from controller.runtime.pass_outcome import ANSWER_SECONDS, AT_ONCE, LOOK_AGAIN_SECONDS, outcome
from controller.runtime.workers import ComeBack, Done, Outcome, PassControl
from controller.runtime.workqueue import Taken


class Reconciler:
    """Makes a pass over one DaemonSet for the workers; passes over different DaemonSets may run at once."""

    def __init__(
        self,
        *,
        dependencies: Dependencies,
        caches: Caches,
        states: DaemonSetStates,
        pacer: Pacer[Key],
        unpulled: Callable[[DaemonSet, Cached], Mapping[str, Unpulled]] = lambda daemonset, cached: NOTHING,
    ) -> None:
        """`unpulled`: the nodes whose update waits for the images of the current revision, as in `World`."""
        self._dependencies, self._clock, self._ledger = dependencies, dependencies.clock, dependencies.ledger
        self._caches, self._states, self._pacer, self._unpulled = caches, states, pacer, unpulled

    async def __call__(self, taken: Taken[Key], control: PassControl) -> Outcome:
        key = taken.key
        daemonset = self._caches.daemonsets.get(key)
        if daemonset is None or daemonset.dying:
            self._pacer.forget(key)
            return Done()
        state = self._states.of(daemonset.uid)
        state.unanswered.raise_crash()
        if (rest := state.stands_back(daemonset, self._clock(), elapsed())) > 0:
            return ComeBack(rest, "another controller wrote the status")
        reached, is_live = self._caches.reached_for(daemonset), self._caches.aliveness(daemonset)
        stale = self._ledger.check(daemonset.uid, reached, is_live, elapsed())
        if stale is not None:
            self._dependencies.on_stale(key, stale)
            if stale.overdue:
                self._dependencies.on_overdue(key, stale)
            if elapsed() - stale.since < LOOK_AGAIN_SECONDS:
                return ComeBack(LOOK_AGAIN_SECONDS, "own writes not seen yet")
        return await self._pass(daemonset, state, control, fresh=stale is None)

    def forget(self, uid: str) -> None:
        """The DaemonSet is gone."""
        self._states.forget(uid)
        self._ledger.forget(uid)

    async def _pass(
        self, daemonset: DaemonSet, state: DaemonSetState, control: PassControl, *, fresh: bool
    ) -> Outcome:
        key = daemonset.key
        cached = await self._caches.snapshot(daemonset)
        if cached is None:
            return ComeBack(AT_ONCE, "changed before anything was decided")
        now, moment = self._clock(), elapsed()
        self._pacer.began(key)
        try:
            try:
                compiled = state.compiled_for(daemonset)
                decided = self._decide(daemonset, compiled, cached, state, now, moment, fresh=fresh)
            finally:
                cost = elapsed() - moment
            self._dependencies.on_plan(cost)
            for note in decided.notes:
                self._dependencies.say(daemonset, note)
            dependencies = await self._redacting(daemonset, state, cached)
            control.only_waits()
            answers, unanswered = await self._carry_out(decided, daemonset, state, compiled, dependencies, control)
            errors = tuple(answer.left for answer in answers if answer.left is not None)
            wake_in = None if decided.wake_at is None else max(decided.wake_at - now - (elapsed() - moment), AT_ONCE)
            if unanswered or (decided.again and not errors):
                wake_in = AT_ONCE
            if not fresh:
                wake_in = min(wake_in or LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
            try:  # also after errors; the outcome reports the first error
                later = await state.status_writer.settle(daemonset, decided, dependencies, control)
            except ApiError as error:
                if meaning_of(error).write is ForWrite.ABSENT and self._caches.daemonset_of(daemonset.uid) is None:
                    return Done()
                return outcome([*errors, error], wake_in)
            return outcome(errors, min((delay for delay in (wake_in, later) if delay is not None), default=None))
        finally:
            self._pacer.passed(key, cost, elapsed())

    async def _carry_out(
        self,
        decided: Plan,
        daemonset: DaemonSet,
        state: DaemonSetState,
        compiled: Compiled,
        dependencies: Dependencies,
        control: PassControl,
    ) -> tuple[Sequence[Answer], bool]:
        """The answers before a silence of `ANSWER_SECONDS`, and whether requests are still unanswered."""
        context = ExecutionContext(
            daemonset=daemonset,
            compiled=compiled,
            failing=frozenset(state.places.failing),
            is_suspect=state.places.is_suspect,
            reverted=lambda action: state.reverted_writes.reverted(action, state.places.failing, elapsed()),
            proven=state.proven,
        )
        work = PlanExecution(decided.actions, context, dependencies)
        crash: Exception | None = None
        if decided.actions:
            task = control.begin(work.run)
            came = -1
            while not task.done() and came < len(work.answers):
                came = len(work.answers)
                await asyncio.wait((task,), timeout=ANSWER_SECONDS)
            if not task.done():
                state.unanswered.leave(work, task, control, partial(self._learn_late, daemonset))
            else:
                crash = task.result()
        answers = tuple(work.answers)
        state.learn(answers, daemonset, elapsed())
        state.concluded(decided, answers)
        if crash is not None:
            raise crash
        return answers, bool(work.underway)

    def _learn_late(self, daemonset: DaemonSet, answer: Answer) -> None:
        """Learn an answer that came after its pass. If the spec was edited meanwhile, a failure is dropped, because
        the edit may have cured it; what was done, or may have been, counts all the same."""
        uid = daemonset.uid
        if self._caches.daemonset_of(uid) is None:
            self.forget(uid)  # drops what was noted of the answer
            return
        state = self._states.of(uid)
        if state.generation != daemonset.generation and answer.means not in (None, ForWrite.UNKNOWN):
            return
        state.learn((answer,), daemonset, elapsed(), late=True)
        if answer.left is not None:
            state.concluded(Plan(), (answer,))

    async def _redacting(self, daemonset: DaemonSet, state: DaemonSetState, cached: Cached) -> Dependencies:
        """Our dependencies with a client for this pass alone, which waits for no other pass at the throttle.

        Its errors are free of the values of the templates, so that they may be repeated in log, event and status.
        That goes for every request: a webhook that judges the status is shown the template too.
        """
        revisions = (*cached.revisions, *cached.orphan_revisions)
        templates = {revision.identity: revision.template for revision in revisions}
        secrets = await state.secrets.of(templates | {daemonset.identity: daemonset.spec.template})
        client = self._dependencies.client.apart().retelling(lambda error: redacted_error(error, secrets))
        return msgspec.structs.replace(self._dependencies, client=client)

    def _decide(
        self,
        daemonset: DaemonSet,
        compiled: Compiled,
        cached: Cached,
        state: DaemonSetState,
        now: float,
        moment: float,
        *,
        fresh: bool,
    ) -> Plan:
        state.begin(daemonset.generation, cached.reach)
        current = {one.hash for one in of_template(daemonset, cached.revisions)}
        state.ready_seen.look(cached.pods, current, now, moment)
        state.restarts_seen.look(cached.pods, moment)
        _, status = state.status_writer.own.latest(daemonset)
        world = world_of(
            msgspec.structs.replace(daemonset, status=status),  # the cache may not show our last one yet
            compiled,
            cached,
            state,
            self._dependencies.failed_pods,
            now,
            moment,
            fresh=fresh,
            unpulled=self._unpulled(daemonset, cached),
        )
        decided = plan(world)
        state.decided(daemonset, decided, now)
        return decided
