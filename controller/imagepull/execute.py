"""Carries out the writes of a pass over one ImagePullJob, each with its precondition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, assert_never

from controller.api import patch
from controller.api.image_pull_job import (
    ALWAYS,
    CONTAINER,
    JOB_KIND,
    MANAGED,
    PULLER_LABEL,
    ImagePullJob,
    ImagePullJobStatus,
)
from controller.api.names import API_VERSION, FAILED_CREATE
from controller.api.objects import JSON, JSONObject, Key, Value, as_json
from controller.imagepull.plan import DeleteJob, EndPuller, JobAction, StartPuller, WriteStatus
from controller.imagepull.state import JobState
from controller.kube.client import Client
from controller.kube.errors import OBJECT_GONE, ApiError, WriteVerdict, classify
from controller.kube.requests import IMAGE_PULL_JOBS, PULLERS
from controller.observe.instrumentation import Instrumentation, PassLog
from controller.planner.actions import Note
from controller.planner.pod_template import aimed, child_name
from controller.reconcile.execute import Execution
from controller.reconcile.write_outcomes import WRITE_OUTCOMES
from controller.runtime.clock import elapsed
from controller.runtime.expectations import Expectations
from controller.runtime.workers import Requeue

DONE_BY: Final[Mapping[type[JobAction], Collection[WriteVerdict]]] = {
    EndPuller: OBJECT_GONE,
    DeleteJob: (WriteVerdict.NOT_FOUND,),
    WriteStatus: OBJECT_GONE,
}
"""Errors by which an action is done."""


class JobAnswer(Value, gc=True):
    action: JobAction
    error: ApiError | None = None
    """None: the action is done."""


class JobExecution(Execution[JobAction, JobAnswer]):
    """Carries out the actions of one pass over a job, each with its precondition."""

    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        key: Key,
        job: ImagePullJob | None,
        state: JobState,
        requeue: Requeue,
        instrumentation: Instrumentation,
    ) -> None:
        """`job` is needed for all but EndPuller."""
        super().__init__(requeue)
        self._client, self._expectations, self._key, self._job = client, expectations, str(key), job
        self._state, self._instrumentation = state, instrumentation

    async def run(self, *actions: JobAction) -> bool:
        """Returns False if answers are late: then another pass has begun."""
        return await self._run([actions])

    @property
    def errors(self) -> list[ApiError]:
        return [answer.error for answer in self.answers if answer.error is not None]

    @contextmanager
    def _under_way(self, action: JobAction) -> Iterator[None]:
        in_flight, key = self._state.in_flight, action.backoff_key
        in_flight.add(key)
        try:
            yield
        finally:
            in_flight.discard(key)

    async def _send(self, action: JobAction) -> None:
        client, expectations, state, job = self._client, self._expectations, self._state, self._job
        match action:
            case StartPuller(node=node):
                assert job is not None
                name, manifest = puller_name(job, node), puller_manifest(job, node)
                written = await client.create(PULLERS, job.namespace, manifest, name=name)
                state.create_accepted()
                state.node_of[written.uid] = node
                expectations.expect_version(self._key, PULLERS.name, written.version, elapsed())
            case EndPuller(pod=ref):
                state.deleted.add(ref.uid)
                deleted = await client.delete(PULLERS, ref)
                expectations.expect_deletion(self._key, ref.uid, elapsed(), deleted)
            case DeleteJob(job=ref):  # as it was when it was decided: not one that was edited since
                await client.delete(IMAGE_PULL_JOBS, ref, version=ref.version, propagation="Background")
            case WriteStatus(job=ref, before=before, status=wanted):
                operations = patch.guarded_by_uid(ref.uid, *_changes(before, wanted))
                written = await client.with_reserved_permit().patch(IMAGE_PULL_JOBS, ref, operations, sub="status")
                state.wrote = (written.version, wanted)
                state.pacer.wrote(elapsed())
            case _:
                assert_never(action)

    async def _after_error(self, action: JobAction, error: ApiError) -> JobAnswer:
        if classify(error).write in DONE_BY.get(type(action), ()):
            return JobAnswer(action=action)
        PassLog.count_write(f"{_counted_as(action)}_failed")
        return JobAnswer(action=action, error=error)

    def _after_success(self, action: JobAction) -> JobAnswer:
        PassLog.count_write(_counted_as(action))
        return JobAnswer(action=action)

    def _learn(self, answer: JobAnswer) -> None:
        action, error, backoff = answer.action, answer.error, self._state.write_backoff
        if error is None:
            backoff.record_success(action.backoff_key)
            return
        verdict = classify(error).write
        counts = backoff.record_error(action.backoff_key, elapsed(), counts=WRITE_OUTCOMES[verdict].counts)
        if isinstance(action, StartPuller):
            self._not_started(error, counts)

    def _not_started(self, error: ApiError, counts: bool) -> None:
        """Decides how long no puller is created anywhere. An unavailable or busy server has refused none. A taken
        name is that of our own puller not yet in the cache, unless it stays taken."""
        verdict = classify(error).write
        if counts and not verdict.undecided:
            if verdict is not WriteVerdict.NAMESPACE_TERMINATING and self._job is not None:
                self._state.create_refused(str(error), elapsed())
                note = Note(warning=True, reason=FAILED_CREATE, message=f"Error creating: {error.message}")
                self._instrumentation.job_event(self._job, note)
        elif verdict is not WriteVerdict.ALREADY_EXISTS:
            self._state.create_unanswered(elapsed())


def _counted_as(action: JobAction) -> str:
    return "status_written" if isinstance(action, WriteStatus) else type(action).__name__


def _changes(before: ImagePullJobStatus | None, wanted: ImagePullJobStatus) -> list[JSONObject]:
    """Operations that change the status. Only this controller writes it, so the uid is a sufficient guard."""
    after = _fields(wanted)
    if before is None:
        return [patch.add(after, "status")]
    old = _fields(before)
    gone = [patch.remove("status", name) for name in old if name not in after]
    return [patch.add(value, "status", name) for name, value in after.items() if old.get(name) != value] + gone


def _fields(status: ImagePullJobStatus) -> JSONObject:
    return {name: value for name, value in as_json(status).items() if value is not None}


NO_COMMAND = "/kruise-ds/only-pulls-the-image"
"""Exists in no image."""
_UNPRIVILEGED_USER = 65534
_KUBELET_DEADLINE_SECONDS = 60
"""Seconds after an attempt's timeout when the kubelet ends a puller that the controller has not deleted."""
_MAX_DEADLINE = 2**31 - 1
"""The API server's maximum."""
_LABELS: JSONObject = {**MANAGED, "sidecar.istio.io/inject": "false"}
_ANNOTATIONS: JSONObject = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
    "linkerd.io/inject": "disabled",
}

_CONTAINER_ANNOTATIONS = "container.apparmor.security.beta.kubernetes.io/"
"""Annotations with this prefix name a container; the server rejects them if the pod does not have it."""


def puller_name(job: ImagePullJob, node: str) -> str:
    return child_name(job.name, job.uid, node)


def puller_manifest(job: ImagePullJob, node: str) -> JSONObject:
    """A pod that makes one node's kubelet pull one image.

    It meets the Pod Security Standard "restricted", tolerates all taints (node affinity binds it), does not block the
    cluster autoscaler, and gets no sidecars. A grace period of 0 lets it disappear at once, even from an unresponsive
    node. The API server adds its ServiceAccount's pull secrets if it names none; it gets no token.
    """
    config = job.spec.sandbox_config
    annotations = {
        key: one for key, one in (config.annotations or {}).items() if not key.startswith(_CONTAINER_ANNOTATIONS)
    }
    owner: JSONObject = {"apiVersion": API_VERSION, "kind": JOB_KIND, "name": job.name, "uid": job.uid}
    owner["controller"] = True
    secrets: list[JSON] = [{"name": name} for name in job.spec.pull_secrets or ()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": puller_name(job, node),
            "namespace": job.namespace,
            "labels": {**(config.labels or {}), **_LABELS, PULLER_LABEL: job.uid},
            "annotations": {**annotations, **_ANNOTATIONS},
            "ownerReferences": [owner],
        },
        "spec": {
            "affinity": aimed({}, node),
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": min(job.spec.timeout + _KUBELET_DEADLINE_SECONDS, _MAX_DEADLINE),
            **({"serviceAccountName": job.service_account} if job.service_account else {}),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _UNPRIVILEGED_USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **({"imagePullSecrets": secrets} if secrets else {}),
            "containers": [_container(job)],
        },
    }


def _container(job: ImagePullJob) -> JSONObject:
    return {
        "name": CONTAINER,
        "image": job.spec.image,
        "imagePullPolicy": ALWAYS if job.spec.always_pulls else "IfNotPresent",
        "command": [NO_COMMAND],
        "resources": {
            "requests": {"cpu": "1m", "memory": "1Mi"},
            "limits": {"cpu": "100m", "memory": "32Mi"},  # some namespaces refuse pods without limits
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
