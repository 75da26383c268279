"""Copies the caches and the state of a DaemonSet into the World of one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.pod import Pod
from controller.planner.actions import CreatePod, DeletePod, InDoubt, Unready, UpdateInPlace
from controller.planner.world import FormerPod, Predecessor, Unpulled, World
from controller.reconcile.caches import Cached, Compiled
from controller.reconcile.state import DaemonSetState

NOTHING: Mapping[str, Unpulled] = MappingProxyType({})


class ImagePulls:
    """What is known of images on nodes; this base class, used without ImagePullJobs, knows nothing."""

    def unpulled(self, daemonset: DaemonSet, cached: Cached) -> Mapping[str, Unpulled]:
        return NOTHING

    def moved(self, daemonset: DaemonSet) -> frozenset[str]:
        return frozenset()


MOST_RESTORED = 10
"""Pods of one DaemonSet on one node beyond which pods created by another controller are deleted at once."""


def world_of(
    daemonset: DaemonSet,
    compiled: Compiled,
    cached: Cached,
    state: DaemonSetState,
    now: float,
    moment: float,
    *,
    fresh: bool,
    unpulled: Mapping[str, Unpulled] = NOTHING,
    moved: frozenset[str] = frozenset(),
) -> World:
    """The World of one pass, from the newest known status. Writes with an unknown outcome count as done. `now`
    (seconds since 1970) and `moment` (`elapsed`) are the same instant: the state's times are converted in each pass,
    so that setting the wall clock changes no duration."""
    pods, orphans = _with_adopted(cached, state.adopted, daemonset.uid)
    revisions = cached.revisions
    resizable = compiled.gates.resize and not state.no_resize
    seen = World(
        daemonset=daemonset,
        rules=compiled.rules,
        nodes=cached.nodes,
        pods=pods,
        orphans=orphans,
        revisions=revisions,
        placements=compiled.placements(revisions),
        changes=compiled.changes(daemonset, revisions, resizable=resizable),
        reads_env=compiled.gates.env_from_metadata,
        resizable=resizable,
        unpulled=unpulled,
        moved=moved,
        orphan_revisions=cached.orphan_revisions,
        now=now,
        fresh=fresh,
        unreadable=cached.unreadable,
    )
    known, possible = _with_state(seen, state, moment), state.assumed_done(moment)
    return _as_if_done(known, possible) if possible else known


def _with_few_pods(nodes: frozenset[str], pods: Sequence[Pod]) -> frozenset[str]:
    """The nodes with at most `MOST_RESTORED` running pods: only their pods may wait for a deletion."""
    if not nodes:
        return nodes
    running = Counter(pod.node for pod in pods if not pod.terminating)
    return frozenset(node for node in nodes if running[node] <= MOST_RESTORED)


def _with_state(world: World, state: DaemonSetState, moment: float) -> World:
    """`world` with what earlier passes learnt and the objects do not show, or show too late."""
    now, status = world.now, world.daemonset.status
    not_before, short_lived = state.node_backoff.not_before(moment), state.node_backoff.short_lived
    in_backoff = {key: now + until - moment for key, until in state.in_backoff(moment).items()}
    return replace(
        world,
        awaited=frozenset(state.awaited),
        no_resize=state.no_resize,
        refused_resizes=state.refused_resizes.copy(),
        unmapped=state.unmapped.copy(),
        strays=frozenset(state.strays),
        unanswered_names=state.unanswered_names.copy(),
        predecessors=state.predecessors.copy(),
        ready_seen=state.ready_seen.since(now, moment),
        restarts_seen=state.restarts_seen.since(now, moment),
        verdicts=state.verdicts.known(moment),
        asked=state.verdicts.asked,
        ask_at=now + state.verdicts.ask_at - moment,
        in_backoff=in_backoff,
        due_again={key: now + since - moment for key, since in state.write_backoff.due_again(moment).items()},
        not_before={node: now + end - moment for node, end in not_before.items()},
        restored=_with_few_pods(state.node_backoff.restored, world.pods),
        short_lived={node: now + end - moment for node, end in short_lived.items()},
        write_failure=state.write_failure.message if state.write_failure is not None else "",
        reverted_externally=not state.reverted_writes.reverted_externally.isdisjoint(in_backoff),
        collisions=max(state.collisions, (status.collision_count or 0) if status is not None else 0),
    )


def _with_adopted(cached: Cached, adopted: Collection[str], owner: str) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
    """The DaemonSet's pods, including those it may have adopted, and the remaining orphans."""
    if not adopted:
        return cached.pods, cached.orphans
    ours = (replace(one, owner_uid=owner) for one in cached.orphans if one.uid in adopted)
    return (*cached.pods, *ours), tuple([one for one in cached.orphans if one.uid not in adopted])


def _as_if_done(world: World, possible: Collection[InDoubt]) -> World:
    creates, deletes, begun = list[CreatePod](), list[DeletePod](), list[Unready]()
    for action in possible:
        if isinstance(action, CreatePod):
            creates.append(action)
        elif isinstance(action, DeletePod):
            deletes.append(action)
        else:
            begun.append(action)
    pods = _going(world.pods, {action.pod.uid for action in deletes})
    return replace(
        world,
        pods=_changing(pods, begun),
        predecessors=_coming(world.predecessors, creates, world.now),
        coming={action.node: action.revision.hash for action in creates},
        leaving=frozenset(action.node for action in deletes),
    )


def _going(pods: tuple[Pod, ...], uids: Collection[str]) -> tuple[Pod, ...]:
    """`pods`, those with `uids` as terminating. Ended pods stay, because they would count as gone."""
    if not uids:
        return pods
    return tuple([replace(pod, terminating=True) if pod.uid in uids and not pod.ended else pod for pod in pods])


def _changing(pods: tuple[Pod, ...], begun: Collection[Unready]) -> tuple[Pod, ...]:
    """`pods`, those that may be updating in place or preparing their deletion as unready until they change."""
    if not begun:
        return pods
    before = {one.pod.uid for one in begun}
    done = {(one.pod.uid, one.revision.hash) for one in begun if isinstance(one, UpdateInPlace)}
    changing = [pod.uid in before and (pod.uid, pod.hash) not in done for pod in pods]
    return tuple([replace(pod, ready=False) if one else pod for pod, one in zip(pods, changing, strict=True)])


def _coming(
    known: Mapping[str, Predecessor], creates: Collection[CreatePod], now: float
) -> Mapping[str, Predecessor]:
    """`known` with a pod of the new revision on each node where a create may have succeeded."""
    none = Predecessor(uid="")
    coming = {
        one.node: replace(known.get(one.node, none), pod=FormerPod(hash=one.revision.hash, created=now))
        for one in creates
    }
    return {**known, **coming} if coming else known
