"""Enqueues the DaemonSets that need a pass after a change in a store. A change is urgent if it leaves a node without
its pod, lets a pod serve again, or changes what should run; others change only counts and are batched
(`runtime/pacing.py`). That a pod or node is gone is recorded before a pass can find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from controller.api.daemonset import DaemonSet
from controller.api.names import MALFORMED_OBJECT
from controller.api.node import Node
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.selector import Labels
from controller.kube.decode import Malformed
from controller.kube.requests import DAEMONSETS, PODS, REVISIONS, Resource
from controller.planner.actions import Note
from controller.planner.failure import effective_daemonset
from controller.planner.node_fit import Fit, Rules
from controller.reconcile.caches import Caches
from controller.reconcile.dependencies import Dependencies
from controller.reconcile.state import DaemonSetStates
from controller.runtime.clock import elapsed
from controller.runtime.pacing import PacedQueue, Urgency
from controller.runtime.store import Change, Move


class Triggers:
    def __init__(
        self,
        caches: Caches,
        states: DaemonSetStates,
        queue: PacedQueue[Key],
        dependencies: Dependencies,
        moment: Callable[[], float] = elapsed,
    ) -> None:
        self._caches, self._states, self._queue, self._moment = caches, states, queue, moment
        self._expectations, self._observer = dependencies.expectations, dependencies.observer
        caches.pods.follow(self._pods_lost, _is_lost)
        caches.nodes.follow(self._nodes_gone, _is_gone)

    def on_daemonset(self, change: Change[DaemonSet]) -> None:
        old, new = change.old, change.new
        if old is None or new is None:
            if old is not None:
                self._states.forget(old.uid)
                self._expectations.forget(old.uid)
                self._observer.daemonset_gone(old.uid)
            self._queue.enqueue(change.key, "urgent", "daemonset changed")
            return
        state = self._states.of(new.uid)
        if manager := new.status_writers.other_controller_since(old.status_writers):
            state.other_controller.wrote(self._moment())
            self._observer.foreign_status(new, manager)
        before = (old.generation, old.terminating, old.annotations)
        if before != (new.generation, new.terminating, new.annotations):
            self._queue.enqueue(change.key, "urgent", "daemonset changed")
        elif new.version != str(state.status_writer.own.version):  # else our own status write
            self._queue.enqueue(change.key, "lazy", "daemonset changed")

    def on_pod(self, change: Change[Pod]) -> None:
        """Enqueues the pod's owner and former owner, all DaemonSets that match an adoptable pod, and for an
        unreadable pod the DaemonSet of its name."""
        old, new = change.old, change.new
        if old is new:
            for daemonset in self._named_in(change.key):
                self._queue.enqueue(daemonset.key, "urgent", f"malformed pod {change.key.name}")
            return
        if old is not None and old.owner_uid and (new is None or new.owner_uid != old.owner_uid):
            owner = self._caches.daemonset_of(old)
            if owner is not None:
                self._queue.enqueue(owner.key, "urgent", f"pod {old.name} gone")
        if old is not None and old.adoptable and not (new is not None and new.adoptable):
            taken_by = None if new is None else self._caches.daemonset_of(new)
            self._wake_matching(old.namespace, (old.labels,), f"orphan pod {old.name} gone", but=taken_by)
        if new is None:
            return
        if new.owner_uid:
            owner = self._caches.daemonset_of(new)
            if owner is not None:
                self._observer.pod_seen(owner, new)
                if new.ended:
                    self._states.of(owner.uid).node_backoff.ended(new, self._moment())
                self._queue.enqueue(owner.key, self._urgency(old, new, owner), f"pod {new.name} changed")
        elif new.adoptable and (old is None or old.owner_uid or old.labels != new.labels):
            before = () if old is None or old.owner_uid else (old.labels,)
            self._wake_matching(new.namespace, (*before, new.labels), f"orphan pod {new.name}")

    def on_node(self, change: Change[Node]) -> None:
        """Enqueues the DaemonSets whose current or older revisions fit the node differently now, or that update it in
        another turn or domain, but not those that neither want nor have a pod there."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.same_placement(new):
            return
        has_pod = self._caches.has_pod_on(change.key.name)
        for found in self._caches.daemonsets.values():
            daemonset = effective_daemonset(found, self._caches.revisions_of(found))
            compiled = self._states.of(daemonset.uid).compiled_for(daemonset)
            if compiled.rules.problems:
                continue  # reported by its own pass
            older = compiled.known_placements if _may_use_older_revision(daemonset) else {}
            before, after = _verdict(compiled.rules, older, old), _verdict(compiled.rules, older, new)
            if before == after:
                continue
            if {before, after} <= UNWANTED and not has_pod(daemonset):
                continue
            self._queue.enqueue(daemonset.key, "urgent", f"node {change.key.name} changed")
        if new is None:
            self._observer.node_gone(change.key.name)

    def on_revision(self, change: Change[Revision]) -> None:
        """Enqueues the owner: a missing revision may have to be created again, a new one adopted."""
        for revision in {
            revision.uid: revision for revision in (change.old, change.new) if revision is not None
        }.values():
            if revision.owner_uid:
                owner = self._caches.daemonset_of(revision)
                if owner is not None:
                    self._queue.enqueue(owner.key, "urgent", f"revision {revision.name} changed")
            elif change.new is not None:
                self._wake_matching(revision.namespace, (revision.labels,), f"orphan revision {revision.name}")

    def _pods_lost(self, lost: Sequence[Move[Pod]]) -> None:
        """Records that pods are gone: a pass that finds a node empty needs to know what ran there."""
        for _, pod, _ in lost:
            owner = None if pod is None else self._caches.daemonset_of(pod)
            if pod is not None and owner is not None and Key("", pod.node) in self._caches.nodes:
                self._states.of(owner.uid).lost(pod, self._moment())  # for a node that is gone, it would stay forever

    def _nodes_gone(self, gone: Sequence[Move[Node]]) -> None:
        self._states.forget_nodes({key.name for key, _, _ in gone})

    def on_malformed(self, plural: str, malformed: Malformed) -> None:
        self._observer.malformed(plural, malformed)
        for daemonset in self._suspects(plural, malformed.key):
            text = f"{plural} {malformed.key} cannot be read: {malformed.reason}"
            self._observer.event(daemonset, Note(warning=True, reason=MALFORMED_OBJECT, message=text))

    def on_server_back(self) -> None:
        """Wakes all DaemonSets, so that failures from the server's absence do not wait for a long back-off."""
        for daemonset in self._caches.daemonsets.values():
            self._queue.enqueue(daemonset.key, "urgent", "server back")

    def on_server_restored(self, listed: Resource[Any, Any], namespace: str = "") -> None:
        """Holds all plans until all pods and revisions are listed again, because the caches may show objects that the
        restored server does not have. `listed`: the resource whose new list is complete, in `namespace` or in all."""
        for daemonset in self._caches.daemonsets.values():
            has_list = namespace in ("", daemonset.namespace)
            resources = [kind.name for kind in (PODS, REVISIONS) if kind is not listed or not has_list]
            self._expectations.expect_lists(daemonset.uid, resources, self._moment())

    def _suspects(self, plural: str, key: Key) -> list[DaemonSet]:
        """The likely DaemonSet of an unreadable object: by its last good state, else by its name."""
        caches = self._caches
        pod = caches.pods.get(key) if plural == PODS.plural else None
        owner = caches.daemonset_of(pod) if pod is not None else None
        if owner is not None:
            return [owner]
        if plural == DAEMONSETS.plural:
            found = caches.daemonsets.get(key)
            return [] if found is None else [found]
        return self._named_in(key)

    def _named_in(self, key: Key) -> list[DaemonSet]:
        """The DaemonSet from whose name that of the pod or revision derives."""
        found = self._caches.daemonsets.get(Key(key.namespace, key.name.rpartition("-")[0]))
        return [] if found is None else [found]

    def _urgency(self, old: Pod | None, new: Pod, owner: DaemonSet) -> Urgency:
        """How soon a changed pod needs a pass. The first event of a new pod matters only if work was left."""
        if new.terminating:
            return "lazy"
        if old is not None and (new.ended or new.labels != old.labels or _waits_for_us(old, new)):
            return "urgent"
        return "soon" if self._states.of(owner.uid).eager else "lazy"

    def _wake_matching(
        self, namespace: str, labels: Iterable[Labels], reason: str, *, but: DaemonSet | None = None
    ) -> None:
        for daemonset in self._caches.daemonsets_in(namespace):
            owns = self._states.of(daemonset.uid).compiled_for(daemonset).rules.owns
            if daemonset is not but and any(owns(candidate) for candidate in labels):
                self._queue.enqueue(daemonset.key, "urgent", reason)


def _is_lost(old: Pod | None, new: Pod | None) -> bool:
    """Whether its DaemonSet loses a pod."""
    if old is None or not old.owner_uid:
        return False
    return new is None or (new.uid, new.owner_uid) != (old.uid, old.owner_uid)


def _is_gone(old: Node | None, new: Node | None) -> bool:
    return old is not None and (new is None or new.uid != old.uid)


def _waits_for_us(old: Pod, new: Pod) -> bool:
    """Whether the kubelet has done its part of an update in place. The pod gets no traffic until the controller's
    next write, and the kubelet looks at it again a second later."""
    return new.in_progress != old.in_progress and (new.in_progress is None or new.in_progress.has_next_batch)


NodeVerdict: TypeAlias = tuple[Fit | None, bool, bool, frozenset[str], tuple[str | None, ...]]
"""Fit, whether updates are allowed, whether the node is unreachable, the uids of older revisions that fit, and
`Rules.place`."""

NONE: frozenset[str] = frozenset()
GONE: NodeVerdict = (None, False, False, NONE, ())
LEFT: NodeVerdict = (Fit.LEAVE, False, False, NONE, ())
UNWANTED: frozenset[NodeVerdict] = frozenset({GONE, LEFT})


def _verdict(rules: Rules, older: Mapping[str, Rules | None], node: Node | None) -> NodeVerdict:
    """`older`: the placements of the revisions that `Fallback` may choose, or empty."""
    if node is None:
        return GONE
    fit = rules.fit(node)
    if fit is Fit.LEAVE:
        return LEFT
    runs = frozenset(
        [uid for uid, revision in older.items() if revision is not None and revision.fit(node) is Fit.RUN]
    )
    return fit, rules.selects(node), node.unreachable, runs, rules.place(node)


def _may_use_older_revision(daemonset: DaemonSet) -> bool:
    """Whether an empty node may get an older revision, whose own placement then counts."""
    rolling = daemonset.rolling_update
    if rolling is None:
        return False
    kept = rolling.partition or rolling.selector is not None or rolling.paused
    return bool(kept or rolling.steps or rolling.on_failure is not None)
