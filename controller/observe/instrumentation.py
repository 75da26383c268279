"""Turns what happens in the process into log lines and metrics. Nothing is decided here."""

from __future__ import annotations

import itertools
from functools import partial
from math import inf
from typing import TypeAlias, assert_never

import structlog

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.image_pull_job import ImagePullJob
from controller.api.names import LEASE_NAME
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.kube.decode import Malformed
from controller.kube.errors import ApiError, WriteVerdict, classify
from controller.kube.requests import DAEMONSETS, IMAGE_PULL_JOBS
from controller.kube.sender import Exchange
from controller.observe.daemonset_counters import OF_FALLBACKS, OF_OPERATIONS, Method
from controller.observe.log import RESULT_OF, PassLog
from controller.observe.metrics import CONTROLLER, IMAGE_QUEUE, JOB_QUEUE, Metrics
from controller.planner.actions import (
    Action,
    CreatePod,
    CreateRevision,
    DeletePod,
    DeleteReason,
    Note,
    ProbeTemplate,
    UpdateInPlace,
)
from controller.planner.world import TemplateRefused
from controller.reconcile.caches import Caches
from controller.reconcile.write_outcomes import verdict_on_template
from controller.runtime.clock import Clock
from controller.runtime.expectations import Stale
from controller.runtime.watch import Connectivity, RestartReason
from controller.runtime.workers import Pass

INSTALL_COMMAND = "kubectl apply --server-side -k manifests/crds"


NodeAction: TypeAlias = CreatePod | UpdateInPlace | DeletePod
"""The actions with which the update of a node begins or ends."""


class Instrumentation:
    """Log and metrics of one process. Its caches say which DaemonSets and nodes exist."""

    def __init__(self, metrics: Metrics, caches: Caches, clock: Clock, process: str = "") -> None:
        """`process` is in the id of each pass, so that no other process has the same ids."""
        self._log = structlog.get_logger()
        self._metrics, self._caches, self._clock = metrics, caches, clock
        self._contacts: dict[str, Connectivity] = {}
        ids = (f"{process}-{number:x}" for number in itertools.count(1))
        self.passes = PassLog(ids, "daemonset", partial(self._passed, CONTROLLER))
        self.job_passes = PassLog(ids, "image_pull_job", partial(self._passed, JOB_QUEUE), queue=JOB_QUEUE)
        self.image_passes = PassLog(ids, "daemonset", partial(self._passed, IMAGE_QUEUE), queue=IMAGE_QUEUE)
        """Passes over the ImagePullJobs that DaemonSets want."""

    def answered(self, answer: Exchange) -> None:
        requests, seconds = self._metrics.of_request(answer.call.verb, answer.status)
        requests.inc()
        seconds.observe(answer.seconds)

    def contact(self, resource: str, contact: Connectivity) -> None:
        """Note whether a reflector reaches the server. A problem with one resource is logged for that resource. That
        the server cannot be reached, or can be reached again, is logged once for all of them."""
        before = self._contacts.get(resource)
        was_away = self._server_is_away()
        self._contacts[resource] = contact
        if before is not None and before.state == contact.state:
            return
        if was_away is not False and not self._server_is_away():
            self._log.info("API server reached")
        match contact.state:
            case "reachable":
                if before is not None and before.state in ("missing", "forbidden"):
                    self._log.info(f"{resource} can be watched")
            case "missing" if resource.startswith((DAEMONSETS.name, IMAGE_PULL_JOBS.name)):
                self._log.error(f"the CRD of {resource.split()[0]} is not installed", install_with=INSTALL_COMMAND)
            case "missing" | "forbidden":
                self._log.error(f"cannot watch {resource}", state=contact.state, why=contact.error)
            case "unreachable":
                if not was_away:
                    self._log.error("API server not reached, retrying", why=contact.error)

    def _server_is_away(self) -> bool | None:
        """Whether any reflector cannot reach the server; None before the first contact. A kind that is missing or
        forbidden is an answer too."""
        if not self._contacts:
            return None
        return any(contact.state == "unreachable" for contact in self._contacts.values())

    def heard(self, plural: str, reflector: str) -> None:
        self._metrics.heard[plural][reflector] = self._clock()

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

    def overdue(self, key: Key, stale: Stale) -> None:
        self._metrics.overdue.inc()
        self._log.warning("own writes not seen for long, listing again", waiting_for=stale.waiting_for)

    def _passed(self, queue: str, done: Pass[Key]) -> None:
        """Count a pass over a key of this queue."""
        metrics, result = self._metrics, RESULT_OF[type(done.outcome)]
        metrics.passes.labels(queue, result).inc()
        if result == "error":
            metrics.errors.labels(queue).inc()
        if done.crashed:
            metrics.panics.labels(queue).inc()
        metrics.pass_seconds.labels(queue).observe(done.work_seconds)
        metrics.queued_seconds.labels(queue).observe(done.taken.queued_seconds)
        metrics.work_seconds.labels(queue).observe(done.work_seconds)

    def noted(self, daemonset: DaemonSet, note: Note) -> None:
        if note.warning:
            self._log.warning("Event occurred", daemonset=str(daemonset.key), event_reason=note.reason)

    def job_noted(self, job: ImagePullJob, note: Note) -> None:
        if note.warning:
            self._log.warning("Event occurred", image_pull_job=str(job.key), event_reason=note.reason)

    def job_stale(self, key: Key, stale: Stale) -> None:
        self._log.debug("own writes not seen yet", image_pull_job=str(key), waiting_for=stale.waiting_for)

    def status_changed(self, daemonset: DaemonSet, before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        self.passes.did(daemonset.key, "status_written")
        if not self._caches.is_gone(daemonset):
            self._metrics.tally.wrote_status(daemonset.uid, before, after)

    def acted(self, daemonset: DaemonSet, action: Action, error: ApiError | None) -> None:
        """Note the answer to one action; `error` None: it is done.

        Nothing is counted for a DaemonSet or node that is gone, because nothing would remove the count again.
        """
        self.passes.did(daemonset.key, type(action).__name__ if error is None else f"{type(action).__name__}_failed")
        about = {"object": action.name, "node": getattr(action, "node", ""), "why": error}
        self._log.debug("write", action=type(action).__name__, **{name: said for name, said in about.items() if said})
        tally, uid = self._metrics.tally, daemonset.uid
        if self._caches.is_gone(daemonset):
            return
        if operation := action.operation:
            tally.count(uid, OF_OPERATIONS, operation, "success" if error is None else "error")
        means = None if error is None else classify(error).write
        if isinstance(action, CreateRevision) and means is not WriteVerdict.ALREADY_EXISTS:
            tally.made_revision(uid, action.hash)
        if isinstance(action, ProbeTemplate):
            refused = isinstance(verdict_on_template(error), TemplateRefused)
            verdict = "accepted" if error is None else "refused" if refused else "error"
            self._metrics.dry_runs.labels(verdict).inc()
        if error is None and isinstance(action, NodeAction):
            self._did_to_a_node(daemonset, action, self._clock())

    def _did_to_a_node(self, daemonset: DaemonSet, action: NodeAction, now: float) -> None:
        tally, uid = self._metrics.tally, daemonset.uid
        match action:
            case CreatePod():
                if self._surges(daemonset, action):
                    self._began(uid, action.node, "surge", now)
                self._made(daemonset, action, action.name, now)
            case UpdateInPlace():
                self._began(uid, action.node, "in_place", now)
                self._made(daemonset, action, action.pod.name, now)
            case DeletePod():
                if action.why is DeleteReason.OUTDATED:
                    self._began(uid, action.node, "recreate", now)
                elif action.why in (DeleteReason.VANISHED, DeleteReason.UNWANTED):
                    tally.updates.drop(uid, action.node)
                if action.refusal is not None:
                    tally.count(uid, OF_FALLBACKS, action.refusal.value)
            case _:
                assert_never(action)

    def _surges(self, daemonset: DaemonSet, action: CreatePod) -> bool:
        """Whether the new pod is beside one of another revision."""
        rolling = daemonset.rolling_update
        if rolling is None or (rolling.max_surge is None and rolling.rolling_update_type != "Surging"):
            return False
        beside = (pod for pod in self._caches.pods_of(daemonset) if pod.node == action.node and not pod.dying)
        return any(pod.hash != action.revision.hash and not pod.ended for pod in beside)

    def _began(self, uid: str, node: str, method: Method, now: float) -> None:
        if Key("", node) in self._caches.nodes:
            self._metrics.tally.updates.began(uid, node, method, now)

    def _made(self, daemonset: DaemonSet, action: CreatePod | UpdateInPlace, pod: str, now: float) -> None:
        self._metrics.tally.updates.created(daemonset.uid, action.node, pod, action.revision.hash)
        if (made := self._caches.pods.get(Key(daemonset.namespace, pod))) is not None:
            self.saw(daemonset, made, now)  # the cache was quicker than the answer

    def saw(self, daemonset: DaemonSet, pod: Pod, now: float) -> None:
        """Note a pod of the DaemonSet that the cache shows."""
        until = now if pod.underway is None else pod.underway.until
        ready = pod.ready and not pod.dying and not pod.ended and until < inf
        so_far = 0.0 if pod.ready_since is None else max(0.0, now - pod.ready_since)
        wait = max(0.0, daemonset.spec.min_ready_seconds - so_far, until - now)
        self._metrics.tally.updates.seen(daemonset.uid, pod.node, pod.name, pod.hash, ready=ready, wait=wait, now=now)

    def unreviewed(self, error: ApiError) -> None:
        """Log that the API server could not be asked whether somebody may read /metrics."""
        self._log.warning("requests to /metrics cannot be authorized", why=error)

    def leading(self, sentence: str) -> None:
        self._log.info(sentence, lease=LEASE_NAME)
