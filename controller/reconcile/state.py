"""What passes and triggers remember about one DaemonSet. It is empty after a restart: the cluster shows everything
else except the revision of a missing pod (`predecessors`), and no limit of a rollout depends on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from math import inf

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.kube.errors import MutatedByWebhook, WriteVerdict, classify
from controller.planner import actions
from controller.planner.failure import effective_daemonset
from controller.planner.plan import Plan
from controller.planner.revisions import of_template
from controller.planner.summary import Summary
from controller.planner.world import POD_QUOTA, BackoffKey, ClockOffset, Predecessor, predecessor
from controller.reconcile.backoff import NodeBackoff, WriteBackoff, forget_keys
from controller.reconcile.caches import Cached, Compiled
from controller.reconcile.check_evaluation import CheckResults
from controller.reconcile.events import ServerWarnings
from controller.reconcile.first_seen import ReadyTimes, SeenTimes, SoakClock
from controller.reconcile.in_place_writes import UndoesAdmission
from controller.reconcile.status_writer import FIRST_YIELD, OtherController, StatusWriter
from controller.reconcile.write_outcomes import (
    LONGEST_QUOTA_DELAY,
    ActionResult,
    RevertedWrites,
    TemplateVerdicts,
    WriteFailure,
    failure_after,
)
from controller.runtime.clock import Instant
from controller.runtime.expectations import CacheProgress
from controller.settings import DEFAULT_GATES, FeatureGates

SLOW_START_CREATES = 2
"""Accepted creates of a revision after which its other pods are created all at once."""
SHORT_LIVED_REASONS = (
    actions.DeleteReason.FAILED,
    actions.DeleteReason.SUCCEEDED,
    actions.DeleteReason.STRAY,
    actions.DeleteReason.VANISHED,
)
"""Reasons for deleting pods that did not last; other deletions are not a failure of the node."""
NO_RESIZE = "this server has no pods/resize, which takes Kubernetes 1.33, so new pods are made instead"


class PendingWrite(Value):
    """A write that may be done, or may still be."""

    action: actions.Action
    until: float = inf
    """Until when (`elapsed`); `inf` while the request is under way."""


class DaemonSetState(msgspec.Struct):
    gates: FeatureGates = DEFAULT_GATES
    generation: int = -1
    compiled: Compiled | None = None
    rolled_back: Compiled | None = None
    """As `compiled`, of the effective DaemonSet while an aborted revision is rolled back."""
    pending_writes: dict[BackoffKey, PendingWrite] = msgspec.field(default_factory=dict)
    """Writes under way, and those to pods whose answer was lost."""
    status_writer: StatusWriter = msgspec.field(default_factory=StatusWriter)
    predecessors: dict[str, Predecessor] = msgspec.field(default_factory=dict)
    """The last pod seen on a node that is gone since, by node."""
    pending_names: dict[str, str] = msgspec.field(default_factory=dict)
    """Names of unanswered creates, by node, to use again: the first request may still be carried out."""
    strays: set[str] = msgspec.field(default_factory=set)
    """uids of pods that the selector does not match since a write, because a webhook changed their labels."""
    ready_seen: ReadyTimes = msgspec.field(default_factory=ReadyTimes)
    soak: SoakClock = msgspec.field(default_factory=SoakClock)
    check_results: CheckResults = msgspec.field(default_factory=CheckResults)
    restarts_seen: SeenTimes = msgspec.field(default_factory=SeenTimes)
    verdicts: TemplateVerdicts = msgspec.field(default_factory=TemplateVerdicts)
    write_backoff: WriteBackoff[BackoffKey] = msgspec.field(default_factory=WriteBackoff)
    reverted_writes: RevertedWrites = msgspec.field(default_factory=RevertedWrites)
    server_warnings: ServerWarnings = msgspec.field(default_factory=ServerWarnings)
    node_backoff: NodeBackoff = msgspec.field(default_factory=NodeBackoff)
    accepted: int = 0
    """Creates of revision `accepted_of` accepted since a pass whose creates were all refused."""
    accepted_of: str = ""
    refused_resizes: dict[str, str] = msgspec.field(default_factory=dict)
    """The server's messages for refused resizes, by pod uid, until it accepts or the pod is gone."""
    unmapped: dict[str, str] = msgspec.field(default_factory=dict)
    """Why an in-place update of this generation would undo what admission did to a pod, by uid."""
    no_resize: str = ""
    """Why the server cannot resize, or empty. Each new generation tries again: the server may be upgraded."""
    collisions: int = 0
    eager: bool = False
    """Whether the last pass left work, for now or for when pods are available. Changes of pods then wake it soon."""
    write_failure: WriteFailure | None = None
    """The failed write that the status reports. A new generation starts without one."""
    other_controller: OtherController = msgspec.field(default_factory=OtherController)
    summary: Summary | None = None
    unavailable_before: frozenset[str] = frozenset()
    """As in `World`."""
    unavailable_since: dict[str, float] | None = None
    """As in `World`, but `elapsed`."""
    paused_since: float = 0.0
    """When the rollout was first found paused (seconds since 1970); 0 if it is not."""

    def compiled_for(self, daemonset: DaemonSet) -> Compiled:
        if daemonset.rolled_back:
            back = self.rolled_back
            if back is None or not back.is_of(daemonset):
                back = self.rolled_back = Compiled(daemonset, {} if back is None else back.known_placements)
            return back
        known = self.compiled
        if known is None or not known.is_of(daemonset):
            placements = {} if known is None else known.known_placements  # they belong to revisions
            known = self.compiled = Compiled(daemonset, placements)
        return known

    def begin(self, daemonset: DaemonSet, reach: CacheProgress) -> None:
        """Prepares for a pass. A new generation forgets all failures: the edit may have cured them."""
        known = self.compiled
        self.compiled_for(daemonset)
        self.status_writer.own.observe(reach)
        if daemonset.generation != self.generation or known not in (None, self.compiled):
            self.generation = daemonset.generation
            self.node_backoff.clear()
            self.verdicts.reset()
            self.write_backoff.clear()
            self.reverted_writes.forget()
            self.refused_resizes.clear()
            self.unmapped.clear()
            self.no_resize = ""
            self.write_failure = None

    def before_pass(
        self, daemonset: DaemonSet, cached: Cached, now: Instant, server: ClockOffset, *, fresh: bool
    ) -> DaemonSet:
        """Records what the caches show. Returns the DaemonSet to plan for, with its newest known status."""
        self.begin(daemonset, cached.reach)
        self.forget_gone(cached, now.elapsed, fresh=fresh)
        _, status = self.status_writer.own.latest(daemonset.version, daemonset.status)
        daemonset = effective_daemonset(replace(daemonset, status=status), cached.revisions)
        current = {revision.hash for revision in of_template(daemonset, cached.revisions)}
        self.ready_seen.observe(cached.pods, current, now)
        self.restarts_seen.observe(cached.pods, now.elapsed)
        self.soak.observe(status, now, server)
        self.check_results.observe(status, now)
        return daemonset

    def after_plan(self, daemonset: DaemonSet, decided: Plan, now: Instant, server: ClockOffset) -> None:
        """Remembers what later passes need of the plan."""
        if decided.status is not None:
            self.soak.record(decided.status.revision_hash, decided.status.rollout, now, server)
        rolling = daemonset.rolling_update
        self.summary, self.eager = decided.summary, decided.more
        before = decided.status.rollout.unavailable_before if decided.status is not None else None
        self.unavailable_before = frozenset(before or ())
        since = decided.unavailable_since
        self.unavailable_since = None if since is None else {name: now.to_elapsed(at) for name, at in since.items()}
        self.paused_since = (self.paused_since or now.wall) if rolling is not None and rolling.paused else 0.0

    @property
    def past_slow_start(self) -> str:
        """Hash of the revision that needs no slow start, because the server has accepted several of its pods."""
        return self.accepted_of if self.accepted >= SLOW_START_CREATES else ""

    @contextmanager
    def under_way(self, action: actions.Action) -> Iterator[None]:
        """Counts the outcome of an action as unknown while the block sends its request."""
        key = action.backoff_key
        before = self.pending_writes.get(key)
        self.pending_writes[key] = PendingWrite(action=action)
        try:
            yield
        finally:
            self.pending_writes.pop(key, None)
            if before is not None and before.until < inf:
                self.pending_writes[key] = before

    @property
    def in_flight(self) -> dict[BackoffKey, actions.Action]:
        return {key: write.action for key, write in self.pending_writes.items() if write.until == inf}

    @property
    def adopted(self) -> frozenset[str]:
        return frozenset(write.pod.uid for write in self.in_flight.values() if isinstance(write, actions.AdoptPod))

    def in_backoff(self, moment: float) -> dict[BackoffKey, float]:
        """Keys in back-off, including those of writes that may still be done, and until when (`elapsed`)."""
        found = self.write_backoff.in_backoff(moment)
        return found | {key: max(found.get(key, 0.0), write.until) for key, write in self._pending(moment).items()}

    def pending_actions(self, moment: float) -> list[actions.InDoubt]:
        """Writes that count as done because they may be by the next pass."""
        return [write.action for write in self._pending(moment).values() if isinstance(write.action, actions.InDoubt)]

    def _pending(self, moment: float) -> dict[BackoffKey, PendingWrite]:
        """Writes under way, and those with a lost answer whose key has failed; the next pass repeats all others."""
        return {
            key: write
            for key, write in self.pending_writes.items()
            if write.until == inf or (write.until > moment and key in self.write_backoff.failing)
        }

    def learn(self, result: ActionResult, daemonset: DaemonSet, moment: float, *, known_full: bool = False) -> None:
        """Records the result of an action. If the spec was edited since, a failure is dropped, because the edit may
        have cured it. `known_full`: whether the same pass has already found the quota full."""
        action = result.action
        if self.generation > daemonset.generation and result.error is not None and not result.outcome.pending:
            return
        failing = self.write_backoff.failing
        if isinstance(action, actions.CreatePod) and result.error is None and result.backoff_key not in failing:
            self.verdicts.created(action.revision.hash, moment)
            same = action.revision.hash == self.accepted_of
            self.accepted, self.accepted_of = (self.accepted + 1 if same else 1), action.revision.hash
        self.reverted_writes.learn(result, failing, moment)
        if not result.is_full_quota:
            self._learn_backoff(result, moment)
        else:
            self.accepted = 0
            if not known_full:  # once, however many creates it refused
                self.write_backoff.record_failure(POD_QUOTA, moment, at_most=LONGEST_QUOTA_DELAY)
        self._learn_names(result, daemonset)
        self._learn_action(result, moment)

    def update_write_failure(self, decided: Plan, results: Sequence[ActionResult]) -> None:
        self.write_failure = failure_after(self.write_failure, decided, results, self.write_backoff.failing)

    def lost(self, pod: Pod, moment: float) -> None:
        """Records that a pod is gone from its node. A full quota then has room for one more pod."""
        stray = pod.uid in self.strays
        if not stray:  # its create counts as failed
            self.node_backoff.ended(pod, moment)
        self.predecessors[pod.node] = Predecessor(uid=pod.uid) if stray else predecessor(pod)
        self.write_backoff.record_success(POD_QUOTA)

    def forget_gone(self, cached: Cached, moment: float, *, fresh: bool = True) -> None:
        """Drops the state of nodes, pods and revisions that are gone. `fresh`: whether the caches show all own
        writes."""
        self.node_backoff.forget_lasting(moment)
        if self.pending_names or self.strays:
            self._find_strays(cached, fresh=fresh)
            for pod in cached.pods:
                if self.pending_names.get(pod.node) == pod.name:
                    del self.pending_names[pod.node]
        keys = self.write_backoff.failing or self.write_backoff.inconclusive or self.pending_writes
        by_name = self.pending_names or len(self.predecessors) > len(cached.nodes)
        many = len(self.reverted_writes.accepted) > 2 * len(cached.pods)
        if not (keys or by_name or self.refused_resizes or self.unmapped or many):
            return
        nodes = {node.name for node in cached.nodes}
        objects = (*cached.pods, *cached.orphans, *cached.revisions, *cached.orphan_revisions)
        uids = {found.uid for found in objects}
        self.write_backoff.keep(lambda key: key.is_among(nodes, uids))
        self.pending_writes = {
            key: write
            for key, write in self.pending_writes.items()
            if write.until == inf or (write.until > moment and key.is_among(nodes, uids))
        }
        self.refused_resizes = {uid: why for uid, why in self.refused_resizes.items() if uid in uids}
        self.unmapped = {uid: why for uid, why in self.unmapped.items() if uid in uids}
        self.reverted_writes.keep_keys(lambda key: key.is_among(nodes, uids))
        self.pending_names = {node: name for node, name in self.pending_names.items() if node in nodes}
        self.predecessors = {node: last for node, last in self.predecessors.items() if node in nodes}

    def _find_strays(self, cached: Cached, *, fresh: bool) -> None:
        """Finds strays among the pods of unanswered creates; forgets those that are gone or match the selector."""
        names, known = self.pending_names, self.strays
        rules = None if self.compiled is None else self.compiled.rules
        suspects = [pod for pod in cached.pods if names.get(pod.node) == pod.name or pod.uid in known]
        strays = {pod.uid for pod in suspects if rules is not None and not rules.owns(pod.labels)}
        self.strays = strays if fresh else known | strays

    def forget_nodes(self, names: Set[str]) -> None:
        """Forgets nodes. A new node of such a name may get pods with the old names."""
        for known in (self.predecessors, self.pending_names):
            forget_keys(known, names)
        self.node_backoff.forget_nodes(names)
        self.write_backoff.keep(lambda key: key.kind != "node" or key.name not in names)

    def seconds_yielded(self, daemonset: DaemonSet, now: Instant) -> float:
        """Seconds for which the DaemonSet is still left to another controller. One that wrote before this process
        started is known from the object, in seconds since 1970, and counts until this process writes."""
        other, ago = self.other_controller, now.wall - daemonset.status_writers.other_controller_wrote
        if other.until == -inf and not self.status_writer.own.version and ago < FIRST_YIELD:
            other.wrote(now.elapsed - max(ago, 0.0))
        return max(other.until - now.elapsed, 0.0)

    def _learn_action(self, result: ActionResult, moment: float) -> None:
        error = result.error
        match result.action:
            case actions.CreatePod(node=node, name=name) if error is None or result.outcome.pending:
                self.node_backoff.created(node, name, moment)
            case actions.DeletePod(node=node, why=why) if error is None and why not in SHORT_LIVED_REASONS:
                self.node_backoff.deleted(node, result.action.name)
            case actions.ProbeTemplate(revision=revision):
                self.verdicts.learn(revision.hash, error, moment)
            case actions.CreatePod(revision=revision) if result.verdict is WriteVerdict.UNKNOWN_FIELDS:
                self.verdicts.learn(revision.hash, error, moment)
            case actions.UpdateInPlace(pod=pod) if isinstance(error, UndoesAdmission):
                self.unmapped[pod.uid] = error.message
            case actions.ResizePod(pod=pod):
                self._learn_resize(pod.uid, result)
            case _:
                pass
        if isinstance(error, MutatedByWebhook) and error.stray:
            self.strays.add(error.stray)

    def _learn_backoff(self, result: ActionResult, moment: float) -> None:
        key, outcome = result.backoff_key, result.outcome
        self.pending_writes.pop(key, None)
        if outcome.pending and isinstance(result.action, actions.InDoubt):
            self.pending_writes[key] = PendingWrite(action=result.action, until=moment + outcome.pending)
        if result.error is None:
            self.write_backoff.record_success(key)
            if isinstance(result.action, actions.CreatePod):
                self.write_backoff.record_success(POD_QUOTA)
            return
        self.write_backoff.record_error(
            key, moment, counts=outcome.counts, hold=outcome.hold, is_failure=result.counts
        )

    def _learn_names(self, result: ActionResult, daemonset: DaemonSet) -> None:
        """Avoids the name of a foreign object, and reuses that of a create that may still be carried out."""
        match result.action:
            case actions.CreatePod(node=node, name=name):
                if result.outcome.reuse_name:
                    self.pending_names[node] = name
                elif result.outcome.reuse_name is not None:
                    self.pending_names.pop(node, None)
                if result.name_taken:
                    before = self.predecessors.get(node, Predecessor(uid=""))
                    self.predecessors[node] = replace(before, uid=f"not {name}")
            case actions.CreateRevision() if result.name_taken:
                known = (daemonset.status.collision_count or 0) if daemonset.status is not None else 0
                self.collisions = max(self.collisions, known) + 1
            case _:
                pass

    def _learn_resize(self, uid: str, result: ActionResult) -> None:
        if result.error is None:
            self.refused_resizes.pop(uid, None)
        if result.retry_error is None:
            return
        verdict = classify(result.retry_error).write
        if verdict is WriteVerdict.NOT_FOUND:
            self.no_resize = self.refused_resizes[uid] = f"{NO_RESIZE}: {result.retry_error.message}"
        elif verdict.refused:
            self.refused_resizes[uid] = result.retry_error.message


class DaemonSetStates:
    """The state of every DaemonSet by uid, so that a recreated one starts empty."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._by_uid: defaultdict[str, DaemonSetState] = defaultdict(lambda: DaemonSetState(gates=gates))

    def of(self, uid: str) -> DaemonSetState:
        return self._by_uid[uid]

    def forget_nodes(self, names: Set[str]) -> None:
        for state in self._by_uid.values():
            state.forget_nodes(names)

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
