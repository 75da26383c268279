"""One pass over a DaemonSet: check that the caches are fresh, make its World, plan, carry out, write the status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.kube.errors import ApiError
from controller.planner.actions import CreatePod, DeletePod, InDoubt, Unready, UpdateInPlace
from controller.planner.plan import Plan, plan
from controller.planner.world import RESIZE_DISABLED, ClockOffset, FormerPod, Predecessor, Unpulled, World
from controller.reconcile.caches import Cached, Caches
from controller.reconcile.check_evaluation import Checks
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.execute import PlanExecution
from controller.reconcile.state import DaemonSetState, DaemonSetStates
from controller.runtime.clock import Instant, elapsed
from controller.runtime.expectations import Stale
from controller.runtime.pacing import PacedPass, Pacer
from controller.runtime.workers import AT_ONCE, STALE_RETRY_SECONDS, Done, Outcome, Requeue, RequeueAfter, outcome
from controller.runtime.workqueue import WorkItem

K = TypeVar("K")

RECHECK_SECONDS = 3.0
"""Seconds after its writes at which a pass is due without an event: a write that a webhook undid changes nothing."""


class ImagePulls:
    """What is known of images on nodes; this base class, used without ImagePullJobs, knows nothing."""

    def unpulled(self, daemonset: DaemonSet, cached: Cached) -> Mapping[str, Unpulled]:
        return {}

    def mutated_images(self, daemonset: DaemonSet) -> frozenset[str]:
        return frozenset()


class _Pass(msgspec.Struct, frozen=True):
    daemonset: DaemonSet
    state: DaemonSetState
    cached: Cached
    now: Instant
    fresh: bool
    """Whether the caches show all of the controller's writes."""


class Reconciler:
    """Runs passes over DaemonSets, with the contract of `runtime.workers`. A decision counts actions under way as
    done."""

    def __init__(
        self,
        *,
        dependencies: Dependencies,
        caches: Caches,
        states: DaemonSetStates,
        pacer: Pacer[Key],
        image_pulls: ImagePulls,
        checks: Checks,
    ) -> None:
        self._dependencies, self._observer = dependencies, dependencies.observer
        self._clock, self._expectations = dependencies.clock, dependencies.expectations
        self._caches, self._states, self._pacer = caches, states, pacer
        self._image_pulls, self._checks = image_pulls, checks

    async def __call__(self, item: WorkItem[Key], requeue: Requeue) -> Outcome:
        key = item.key
        # From here to the plan nothing is awaited: the answer to a write of an earlier pass could come in between,
        # and the plan would be made from caches that do not show that write.
        daemonset = self._caches.daemonsets.get(key)
        if daemonset is None or daemonset.terminating:
            self._pacer.forget(key)
            return Done()
        state = self._states.of(daemonset.uid)
        now = Instant(self._clock(), elapsed())
        if (rest := state.seconds_yielded(daemonset, now)) > 0:
            return RequeueAfter(rest, "another controller wrote the status")
        stale = self._stale(daemonset)
        if stale is not None and now.elapsed - stale.since < STALE_RETRY_SECONDS:
            return RequeueAfter(STALE_RETRY_SECONDS, "own writes not seen yet")
        cached = self._caches.snapshot(daemonset)
        this = _Pass(daemonset, state, cached, now, fresh=stale is None)
        with PacedPass(self._pacer, key, requeue) as paced:
            decided = self._decide(this)
            self._observer.planned(paced.end_deciding())
            return await self._act(this, decided, paced.requeue)

    def _stale(self, daemonset: DaemonSet) -> Stale | None:
        reached, is_live = self._caches.reached_for(daemonset), self._caches.aliveness(daemonset)
        stale = self._expectations.check(daemonset.uid, reached, is_live, elapsed())
        if stale is not None:
            self._observer.stale(daemonset.key, stale)
        return stale

    def _decide(self, this: _Pass) -> Plan:
        daemonset, state, cached, now = this.daemonset, this.state, this.cached, this.now
        server = ClockOffset(ahead=self._dependencies.server_clock.ahead(now.wall))
        daemonset = state.before_pass(daemonset, cached, now, server, fresh=this.fresh)
        pulls = self._image_pulls
        world = world_of(daemonset, cached, state, now, fresh=this.fresh, image_pulls=pulls, server_offset=server)
        decided = plan(world)
        state.after_plan(daemonset, decided, now, server)
        if decided.status is not None:
            self._checks.set_request(daemonset, state.check_results, decided.status.check_request, now)
        return decided

    async def _act(self, this: _Pass, decided: Plan, requeue: Requeue) -> Outcome:
        """Carries out the plan, and writes the status even after errors. The outcome has the first error."""
        daemonset = this.daemonset
        for note in decided.notes:
            self._observer.event(daemonset, note)
        warned = this.state.server_warnings.reporter(daemonset.name, partial(self._observer.event, daemonset))
        # with a permit of its own it waits for no other pass at the throttle
        client = self._dependencies.client.with_reserved_permit(warned)
        dependencies = replace(self._dependencies, client=client)
        execution = PlanExecution(decided, daemonset, this.state, dependencies, requeue)
        in_time = await execution.run()
        errors = [result.retry_error for result in execution.results if result.retry_error is not None]
        status_due: float | None = None
        earliest = 0.0
        if in_time:
            try:
                status_due = await this.state.status_writer.write_due(daemonset, decided, dependencies, requeue)
            except ApiError as error:
                errors.append(error)
                earliest = STALE_RETRY_SECONDS  # each pass may want another one at once, for a record not yet written
        if self._caches.is_gone(daemonset):
            self._states.forget(daemonset.uid)  # drops what was learnt from the answers
            self._expectations.forget(daemonset.uid)
            return Done()
        # by the wall clock, as the next pass compares: rounded otherwise, that pass might come too early
        wakes_in = None if decided.wake_at is None else max(decided.wake_at - this.now.to_wall(elapsed()), earliest)
        wrote = bool(decided.actions) and in_time and not errors
        again = not in_time or (decided.again and not errors)
        return outcome(errors, seconds_until_due(wakes_in, status_due, again=again, fresh=this.fresh, wrote=wrote))


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


MOST_RECREATED = 10
"""Pods of one DaemonSet on one node beyond which pods created by another controller are deleted at once."""


def world_of(
    daemonset: DaemonSet,
    cached: Cached,
    state: DaemonSetState,
    now: Instant,
    *,
    fresh: bool,
    image_pulls: ImagePulls,
    server_offset: ClockOffset,
) -> World:
    """The World of one pass: the caches, and what is remembered. `daemonset` has the newest known status."""
    compiled, status = state.compiled_for(daemonset), daemonset.status
    no_resize = state.no_resize or ("" if state.gates.resize else RESIZE_DISABLED)
    pods, orphans = _with_adopted(cached, state.adopted, daemonset.uid)
    world = World(
        daemonset=daemonset,
        rules=compiled.rules,
        nodes=cached.nodes,
        pods=pods,
        orphans=orphans,
        revisions=cached.revisions,
        orphan_revisions=cached.orphan_revisions,
        placements=compiled.placements(cached.revisions),
        changes=compiled.changes(daemonset, cached.revisions, resizable=not no_resize),
        reads_env=state.gates.env_from_metadata,
        no_resize=no_resize,
        unpulled=image_pulls.unpulled(daemonset, cached),
        mutated_images=image_pulls.mutated_images(daemonset),
        unreadable=cached.unreadable,
        now=now.wall,
        server_offset=server_offset,
        fresh=fresh,
        collisions=max(state.collisions, (status.collision_count or 0) if status is not None else 0),
    )
    return _with_outcomes(_with_memory(world, state, now), state, now)


def _with_memory(world: World, state: DaemonSetState, now: Instant) -> World:
    """The World with what earlier passes and triggers have seen."""
    since, failing = state.unavailable_since, state.node_backoff
    return replace(
        world,
        strays=frozenset(state.strays),
        ready_seen=state.ready_seen.since(now),
        restarts_seen=state.restarts_seen.since(now),
        step_reached=state.soak.since(now),
        check_results=state.check_results.dated(now),
        unavailable_before=state.unavailable_before,
        unavailable_since=None if since is None else _dated(since, now),
        not_before=_dated(failing.not_before(now.elapsed), now),
        recreated_externally=_with_few_pods(failing.recreated_externally, world.pods),
        short_lived=_dated(failing.short_lived, now),
    )


def _with_outcomes(world: World, state: DaemonSetState, now: Instant) -> World:
    """The World with the outcomes of writes. Those with an unknown outcome count as done."""
    in_backoff, done = state.in_backoff(now.elapsed), state.pending_actions(now.elapsed)
    creates = [action for action in done if isinstance(action, CreatePod)]
    return replace(
        world,
        pods=_as_if_done(world.pods, done),
        predecessors={**state.predecessors, **_pending_predecessors(state.predecessors, creates, now.wall)},
        pending_creates={action.node: action.revision.hash for action in creates},
        pending_deletes=frozenset([action.node for action in done if isinstance(action, DeletePod)]),
        in_flight=frozenset(state.in_flight),
        pending_names=state.pending_names.copy(),
        in_backoff=_dated(in_backoff, now),
        due_again=_dated(state.write_backoff.due_again(now.elapsed), now),
        write_failure=state.write_failure.message if state.write_failure is not None else "",
        reverted_externally=not state.reverted_writes.reverted_externally.isdisjoint(in_backoff),
        refused_resizes=state.refused_resizes.copy(),
        unmapped=state.unmapped.copy(),
        verdicts=state.verdicts.known(now.elapsed),
        failed_dry_runs=state.verdicts.failed_dry_runs,
        retry_dry_run_at=now.to_wall(state.verdicts.retry_dry_run_at),
    )


def _dated(times: Mapping[K, float], now: Instant) -> dict[K, float]:
    """`elapsed` times in seconds since 1970."""
    return {key: now.to_wall(time) for key, time in times.items()}


def _with_few_pods(nodes: frozenset[str], pods: Sequence[Pod]) -> frozenset[str]:
    """The nodes with at most `MOST_RECREATED` running pods: only their pods may wait for a deletion."""
    if not nodes:
        return nodes
    running = Counter(pod.node for pod in pods if not pod.terminating)
    return frozenset(node for node in nodes if running[node] <= MOST_RECREATED)


def _with_adopted(cached: Cached, adopted: Collection[str], owner: str) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """The DaemonSet's pods, including those it may have adopted, and the remaining orphans."""
    if not adopted:
        return cached.pods, cached.orphans
    ours = (replace(pod, owner_uid=owner) for pod in cached.orphans if pod.uid in adopted)
    return (*cached.pods, *ours), tuple([pod for pod in cached.orphans if pod.uid not in adopted])


def _as_if_done(pods: tuple[Pod, ...], done: Collection[InDoubt]) -> tuple[Pod, ...]:
    """`pods`, those that may have been deleted as terminating, and those that may be updating in place or preparing
    their deletion as unready until they change. Ended pods stay, because they would count as gone."""
    deleted = {action.pod.uid for action in done if isinstance(action, DeletePod)}
    begun = {action.pod.uid for action in done if isinstance(action, Unready)}
    updated = {(action.pod.uid, action.revision.hash) for action in done if isinstance(action, UpdateInPlace)}

    def changed(pod: Pod) -> Pod:
        if pod.uid in deleted and not pod.ended:
            return replace(pod, terminating=True)
        return replace(pod, ready=False) if pod.uid in begun and (pod.uid, pod.hash) not in updated else pod

    return tuple([changed(pod) for pod in pods]) if deleted or begun else pods


def _pending_predecessors(
    known: Mapping[str, Predecessor], creates: Collection[CreatePod], now: float
) -> Mapping[str, Predecessor]:
    """A pod of the new revision on each node where a create may have succeeded."""
    return {
        action.node: replace(
            known.get(action.node, Predecessor(uid="")), pod=FormerPod(hash=action.revision.hash, created=now)
        )
        for action in creates
    }
