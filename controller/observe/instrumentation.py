"""Turns events in the process into log lines and metrics. No decisions are made here."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final, Literal, TypeAlias, assert_never

import msgspec
import structlog
from structlog.contextvars import bound_contextvars

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.image_pull_job import JOB_KIND, ImagePullJob
from controller.api.names import KIND, LEASE_NAME, PROGRESSING, READY
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.kube.decode import Malformed
from controller.kube.errors import ApiError, WriteVerdict, classify
from controller.kube.requests import DAEMONSETS, IMAGE_PULL_JOBS
from controller.observe.daemonset_counters import OF_FALLBACKS, OF_OPERATIONS, Method
from controller.observe.metrics import CONTROLLER, IMAGE_QUEUE, JOB_QUEUE, Metrics
from controller.planner import actions
from controller.planner.world import TemplateRefused
from controller.reconcile.caches import Caches
from controller.reconcile.dependencies import Observer
from controller.reconcile.events import Recorder
from controller.reconcile.status_writer import foreign_note
from controller.reconcile.write_outcomes import verdict_on_template
from controller.runtime.clock import Clock, elapsed
from controller.runtime.expectations import Stale
from controller.runtime.leader_election import Leadership
from controller.runtime.watch import Connectivity, RestartReason
from controller.runtime.workers import TIME_PASSED, Done, Outcome, Pass, RequeueAfter, Retry
from controller.runtime.workqueue import WorkItem

INSTALL_COMMAND = "kubectl apply --server-side -k manifests/crds"
RESULT_OF: Final[Mapping[type[Outcome], str]] = {Done: "success", RequeueAfter: "requeue_after", Retry: "error"}
"""Results for the log and the metrics, named as in controller-runtime."""

NodeAction: TypeAlias = actions.CreatePod | actions.UpdateInPlace | actions.DeletePod


LOGGED_FROM_SECONDS = 10.0
"""From here on a wait is logged: the caches show most writes within a second."""


class _Noted(msgspec.Struct):
    """What the log line of a pass adds to its outcome."""

    writes: Counter[str]
    """Answered ones, by action."""
    status: dict[str, object]
    """Reasons of conditions that changed."""


_NOTED: ContextVar[_Noted | None] = ContextVar("log line of the pass", default=None)
"""Of a pass, in its task and in those that it starts."""


class _Wait(msgspec.Struct):
    """Passes over a key that decide nothing, one after the other."""

    reason: str
    since: float
    """`elapsed`"""
    is_logged: bool = False


class PassLog:
    """The log line and metrics of each pass over a key of one queue, made inside `about`."""

    def __init__(self, metrics: Metrics, ids: Iterator[str], queue: str, subject: str) -> None:
        """`ids` are unique names of passes; `subject` is the log key of the object."""
        self._log = structlog.get_logger()
        self._metrics, self._ids, self._queue, self._subject = metrics, ids, queue, subject
        self._waits: dict[Key, _Wait] = {}

    @contextmanager
    def about(self, item: WorkItem[Key]) -> Iterator[Callable[[Pass[Key]], None]]:
        """Adds object, id and reason to the pass's log lines; yields the function that takes the finished pass."""
        about = {self._subject: str(item.key), "reconcile_id": next(self._ids), "reason": ",".join(item.reasons)}
        if self._queue != CONTROLLER:
            about["queue"] = self._queue
        token = _NOTED.set(_Noted(Counter(), {}))
        try:
            with bound_contextvars(**about):
                yield self._passed
        finally:
            _NOTED.reset(token)

    @staticmethod
    def count_write(what: str) -> None:
        if (noted := _NOTED.get()) is not None:
            noted.writes[what] += 1

    @staticmethod
    def note_status(before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        if (noted := _NOTED.get()) is not None:
            was = _reasons(before)
            noted.status |= {key: reason for key, reason in _reasons(after).items() if reason != was.get(key)}

    def _passed(self, done: Pass[Key]) -> None:
        self._count(done)
        noted, outcome = _NOTED.get() or _Noted(Counter(), {}), done.outcome
        begins, ended = self._wait_changes(done.item.key, outcome)
        say = self._log.info if noted.writes or begins or ended else self._log.debug
        fields: dict[str, object] = {**noted.writes, **noted.status, **ended}
        match outcome:
            case Retry(error=error) if done.crashed:
                say, fields = self._log.error, {"panic": True, "why": error, "exc_info": error}
            case Retry(error=error):
                is_transient = isinstance(error, ApiError) and classify(error).write.is_transient
                say, fields["why"] = self._log.info if is_transient else self._log.warning, error
            case RequeueAfter(after=after, reason=reason):
                fields |= {"requeue_after": round(after, 3), "requeue_reason": reason}
            case Done():
                pass
        say("reconciled", result=RESULT_OF[type(outcome)], seconds=round(done.work_seconds, 6), **fields)

    def _wait_changes(self, key: Key, outcome: Outcome) -> tuple[bool, dict[str, object]]:
        """Whether the line of this pass must show that a long wait began, and the fields of one that ended."""
        reason = outcome.reason if isinstance(outcome, RequeueAfter) else TIME_PASSED
        wait, ended = self._waits.get(key), dict[str, object]()
        if wait is not None and wait.reason != reason:
            del self._waits[key]
            if wait.is_logged:
                ended = {"waited_for": wait.reason, "waited_seconds": round(elapsed() - wait.since, 3)}
        if reason == TIME_PASSED or not isinstance(outcome, RequeueAfter):
            return False, ended
        wait = self._waits.setdefault(key, _Wait(reason, elapsed()))
        if wait.is_logged or elapsed() + outcome.after - wait.since < LOGGED_FROM_SECONDS:
            return False, ended
        wait.is_logged = True
        return True, ended

    def _count(self, done: Pass[Key]) -> None:
        metrics, queue, result = self._metrics, self._queue, RESULT_OF[type(done.outcome)]
        metrics.passes.labels(queue, result).inc()
        metrics.errors.labels(queue).inc(result == "error")
        metrics.panics.labels(queue).inc(done.crashed)
        metrics.pass_seconds.labels(queue).observe(done.work_seconds)
        metrics.queued_seconds.labels(queue).observe(done.item.queued_seconds)
        metrics.work_seconds.labels(queue).observe(done.work_seconds)


def _reasons(status: DaemonSetStatus | None) -> dict[str, object]:
    """The phase, and what the rollout waits for, as reasons of conditions."""
    keys = {READY: "phase", PROGRESSING: "progressing"}
    conditions = (status.conditions if status is not None else None) or ()
    return {
        keys[kind]: str(condition.get("reason"))
        for condition in conditions
        if (kind := str(condition.get("type"))) in keys
    }


class Instrumentation(Observer):
    """`caches` says which DaemonSets and nodes exist."""

    def __init__(
        self,
        metrics: Metrics,
        caches: Caches,
        recorder: Recorder,
        leadership: Leadership,
        clock: Clock,
        *,
        relist: Callable[[str], None],
        process: str = "",
    ) -> None:
        """`relist` lists a resource again. `process` makes the ids of passes unique across processes."""
        self._log = structlog.get_logger()
        self._metrics, self._caches, self._recorder = metrics, caches, recorder
        self._leadership, self._clock, self._relist = leadership, clock, relist
        self._counters = metrics.daemonset_counters
        self._connectivity: dict[str, Connectivity] = {}
        ids = (f"{process}-{number:x}" for number in itertools.count(1))
        self.passes = PassLog(metrics, ids, CONTROLLER, "daemonset")
        self.job_passes = PassLog(metrics, ids, JOB_QUEUE, "image_pull_job")
        self.image_passes = PassLog(metrics, ids, IMAGE_QUEUE, "daemonset")

    def connectivity(self, resource: str, now: Connectivity) -> None:
        """Logs the new state of a resource, but loss and return of the server once for all resources."""
        before = self._connectivity.get(resource)
        was_away = self._server_is_away()
        self._connectivity[resource] = now
        if was_away is not False and not self._server_is_away():
            self._log.info("API server reached")
        match now.state:
            case "reachable":
                if before is not None and before.state in ("missing", "forbidden"):
                    self._log.info(f"{resource} can be watched")
            case "missing" if resource.startswith((DAEMONSETS.name, IMAGE_PULL_JOBS.name)):
                self._log.error(f"the CRD of {resource.split()[0]} is not installed", install_with=INSTALL_COMMAND)
            case "missing" | "forbidden":
                self._log.error(f"cannot watch {resource}", state=now.state, why=now.error)
            case "unreachable":
                if not was_away:
                    self._log.error("API server not reached, retrying", why=now.error)

    def _server_is_away(self) -> bool | None:
        """None before the first contact. A missing or forbidden kind is an answer too."""
        if not self._connectivity:
            return None
        return any(connectivity.state == "unreachable" for connectivity in self._connectivity.values())

    def received(self, plural: str, reflector: str) -> None:
        self._metrics.last_received[plural][reflector] = self._clock()

    def watch_restarted(self, plural: str, reason: RestartReason) -> None:
        self._metrics.watch_restarts.labels(plural, reason).inc()

    def malformed(self, resource: str, malformed: Malformed) -> None:
        self._metrics.malformed.labels(resource).inc()
        self._log.error(
            "object cannot be read, its last good state is kept",
            resource=resource,
            object=str(malformed.key),
            field=malformed.field,
        )

    def stale(self, key: Key, stale: Stale) -> None:
        self._metrics.stale.inc()
        self._log.debug("own writes not seen yet", waiting_for=stale.waiting_for)
        if stale.overdue:
            self._metrics.overdue.inc()
            self._log.warning("own writes not seen for long, listing again", waiting_for=stale.waiting_for)
            self._relist(stale.resource)

    def event(self, about: DaemonSet | ImagePullJob, note: actions.Note) -> None:
        kind, subject = (KIND, "daemonset") if isinstance(about, DaemonSet) else (JOB_KIND, "image_pull_job")
        if note.warning:
            self._log.warning("Event occurred", event_reason=note.reason, **{subject: str(about.key)})
        self._recorder(about, note, kind=kind)

    def check_answered(self, key: Key, check: str, problem: str) -> None:
        if problem:
            self._log.warning("check has no answer", daemonset=str(key), check=check, why=problem)
        else:
            self._log.info("check is answered again", daemonset=str(key), check=check)

    def foreign_status(self, daemonset: DaemonSet, manager: str) -> None:
        if self._leadership.is_valid():
            self._metrics.foreign_status_writes.inc()
            self.event(daemonset, foreign_note(manager))

    def daemonset_gone(self, uid: str) -> None:
        self._recorder.forget(uid)
        self._counters.forget(uid)

    def job_gone(self, uid: str) -> None:
        self._recorder.forget(uid)

    def node_gone(self, name: str) -> None:
        self._counters.updates.forget_node(name)

    def planned(self, seconds: float) -> None:
        self._metrics.decision_seconds.observe(seconds)

    def status_answered(self, result: Literal["success", "conflict", "error"]) -> None:
        self._metrics.status_writes.labels(result).inc()

    def status_written(self, daemonset: DaemonSet, before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        self.passes.count_write("status_written")
        self.passes.note_status(before, after)
        if not self._caches.is_gone(daemonset):
            self._counters.status_written(daemonset.uid, before, after)

    def action_done(self, daemonset: DaemonSet, action: actions.Action, error: ApiError | None) -> None:
        """`error` is None on success. A deleted DaemonSet or node is not counted: its count would stay forever."""
        name, uid = type(action).__name__, daemonset.uid
        self.passes.count_write(name if error is None else f"{name}_failed")
        about = {"object": action.name, "node": getattr(action, "node", ""), "why": error}
        self._log.debug("write", action=name, **{field: value for field, value in about.items() if value})
        if self._caches.is_gone(daemonset):
            return
        if operation := action.operation:
            self._counters.count(uid, OF_OPERATIONS, operation, "success" if error is None else "error")
        verdict = None if error is None else classify(error).write
        if isinstance(action, actions.CreateRevision) and verdict is not WriteVerdict.ALREADY_EXISTS:
            self._counters.revision_created(uid, action.hash)
        if isinstance(action, actions.ProbeTemplate):
            refused = isinstance(verdict_on_template(error), TemplateRefused)
            self._metrics.dry_runs.labels("accepted" if error is None else "refused" if refused else "error").inc()
        if error is None and isinstance(action, NodeAction):
            self._node_action_done(daemonset, action, self._clock())

    def _node_action_done(self, daemonset: DaemonSet, action: NodeAction, now: float) -> None:
        uid = daemonset.uid
        match action:
            case actions.CreatePod():
                if self._surges(daemonset, action):
                    self._update_began(uid, action.node, "surge", now)
                self._pod_updated(daemonset, action, action.name, now)
            case actions.UpdateInPlace():
                self._update_began(uid, action.node, "in_place", now)
                self._pod_updated(daemonset, action, action.pod.name, now)
            case actions.DeletePod():
                if action.why is actions.DeleteReason.OUTDATED:
                    self._update_began(uid, action.node, "recreate", now)
                elif action.why in (actions.DeleteReason.VANISHED, actions.DeleteReason.UNWANTED):
                    self._counters.updates.drop(uid, action.node)
                if action.refusal is not None:
                    self._counters.count(uid, OF_FALLBACKS, action.refusal.value)
            case _:
                assert_never(action)

    def _surges(self, daemonset: DaemonSet, action: actions.CreatePod) -> bool:
        """Whether the new pod is beside one of another revision."""
        rolling = daemonset.rolling_update
        if rolling is None or (rolling.max_surge is None and rolling.rolling_update_type != "Surging"):
            return False
        beside = (pod for pod in self._caches.pods_of(daemonset) if pod.node == action.node and not pod.terminating)
        return any(pod.hash != action.revision.hash and not pod.ended for pod in beside)

    def _update_began(self, uid: str, node: str, method: Method, now: float) -> None:
        if Key("", node) in self._caches.nodes:
            self._counters.updates.began(uid, node, method, now)

    def _pod_updated(
        self, daemonset: DaemonSet, action: actions.CreatePod | actions.UpdateInPlace, pod: str, now: float
    ) -> None:
        self._counters.updates.created(daemonset.uid, action.node, pod, action.revision.hash)
        if (cached := self._caches.pods.get(Key(daemonset.namespace, pod))) is not None:
            self.pod_seen(daemonset, cached)  # the watch event came before the answer

    def pod_seen(self, daemonset: DaemonSet, pod: Pod) -> None:
        now = self._clock()
        until = now if pod.in_progress is None else pod.in_progress.until
        ready = pod.ready and not pod.terminating and not pod.ended and until < inf
        so_far = 0.0 if pod.ready_since is None else max(0.0, now - pod.ready_since)
        wait = max(0.0, daemonset.spec.min_ready_seconds - so_far, until - now)
        self._counters.updates.pod_seen(daemonset.uid, pod.node, pod.name, pod.hash, ready=ready, wait=wait, now=now)

    def review_failed(self, error: ApiError) -> None:
        self._log.warning("requests to /metrics cannot be authorized", why=error)

    def leadership_changed(self, message: str) -> None:
        self._log.info(message, lease=LEASE_NAME)
