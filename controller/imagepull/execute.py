"""Carries out the writes of a pass over one ImagePullJob, each with its precondition."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Sequence
from typing import TypeAlias, assert_never

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
from controller.api.objects import JSON, JSONObject, Key, Ref, as_json
from controller.imagepull.plan import DeleteJob, EndPuller, JobAction, StartPuller
from controller.imagepull.state import STATUS, JobState
from controller.kube.client import Client
from controller.kube.errors import OBJECT_GONE, ApiError, WriteVerdict, classify
from controller.kube.requests import IMAGE_PULL_JOBS, PULLERS
from controller.observe.instrumentation import Instrumentation, PassLog
from controller.planner.actions import Note
from controller.planner.pod_template import aimed, child_name
from controller.reconcile.write_outcomes import WRITE_OUTCOMES
from controller.runtime.clock import elapsed
from controller.runtime.expectations import Expectations
from controller.runtime.workers import AnswerTimer, Requeue

Write: TypeAlias = Coroutine[None, None, object]


class JobExecution:
    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        key: Key,
        state: JobState,
        requeue: Requeue,
        instrumentation: Instrumentation,
    ) -> None:
        self._client, self._expectations, self._key, self._state = client, expectations, key, state
        self._requeue, self._instrumentation = requeue, instrumentation
        self.errors: list[ApiError] = []

    async def carry_out(self, actions: Sequence[JobAction], job: ImagePullJob | None = None) -> bool:
        """Returns False if answers are late: then another pass has begun. `job` is needed for StartPuller."""
        return await self._answered([self._carry_out(action, job) for action in actions])

    async def write_status(
        self, job: ImagePullJob, before: ImagePullJobStatus | None, wanted: ImagePullJobStatus
    ) -> None:
        async def write() -> None:
            operations = patch.guarded_by_uid(job.uid, *_changes(before, wanted))
            client = self._client.with_reserved_permit()
            written = await client.patch(IMAGE_PULL_JOBS, job.ref, operations, sub="status")
            self._state.wrote = (written.version, wanted)
            self._state.pacer.wrote(elapsed())

        await self._answered([self._write(STATUS, "status_written", write(), OBJECT_GONE)])

    async def _answered(self, writes: Iterable[Write]) -> bool:
        async def one(write: Write) -> None:
            await write
            answers.came()

        with AnswerTimer(self._requeue) as answers:
            async with asyncio.TaskGroup() as group:
                for write in writes:
                    group.create_task(one(write))
        return not answers.is_late

    async def _carry_out(self, action: JobAction, job: ImagePullJob | None) -> None:
        name = type(action).__name__
        match action:
            case StartPuller(node=node):
                assert job is not None
                failure = await self._write(node, name, self._start(job, node))
                if failure is not None:
                    self._not_started(job, *failure)
            case EndPuller(pod=ref):
                self._state.deleted.add(ref.uid)
                await self._write(ref.uid, name, self._end(ref), OBJECT_GONE)
            case DeleteJob(job=ref):  # as it was when it was decided: not one that was edited since
                write = self._client.delete(IMAGE_PULL_JOBS, ref, version=ref.version, propagation="Background")
                await self._write(ref.uid, name, write, (WriteVerdict.NOT_FOUND,))
            case _:
                assert_never(action)

    async def _write(
        self, key: str, name: str, write: Write, done_by: Collection[WriteVerdict] = ()
    ) -> tuple[ApiError, bool] | None:
        """Returns an error that is not in `done_by`, and whether it counts as a failure of the backoff key."""
        state = self._state
        state.in_flight.add(key)
        try:
            await write
        except ApiError as error:
            verdict = classify(error).write
            if verdict not in done_by:
                self.errors.append(error)
                PassLog.count_write(f"{name}_failed")
                return error, state.write_backoff.record_error(key, elapsed(), counts=WRITE_OUTCOMES[verdict].counts)
        else:
            PassLog.count_write(name)
        finally:
            state.in_flight.discard(key)
        state.write_backoff.record_success(key)
        return None

    async def _start(self, job: ImagePullJob, node: str) -> None:
        name, manifest = puller_name(job, node), puller_manifest(job, node)
        written = await self._client.create(PULLERS, job.namespace, manifest, name=name)
        self._state.create_accepted()
        self._state.node_of[written.uid] = node
        self._expectations.expect_version(str(self._key), PULLERS.name, written.version, elapsed())

    def _not_started(self, job: ImagePullJob, error: ApiError, counts: bool) -> None:
        """Decides how long no puller is created anywhere. An unavailable or busy server has refused none. A taken
        name is that of our own puller not yet in the cache, unless it stays taken."""
        verdict = classify(error).write
        if counts and not verdict.undecided:
            if verdict is not WriteVerdict.NAMESPACE_TERMINATING:
                self._state.create_refused(str(error), elapsed())
                note = Note(warning=True, reason=FAILED_CREATE, message=f"Error creating: {error.message}")
                self._instrumentation.job_event(job, note)
        elif verdict is not WriteVerdict.ALREADY_EXISTS:
            self._state.create_unanswered(elapsed())

    async def _end(self, ref: Ref) -> None:
        deleted = await self._client.delete(PULLERS, ref)
        self._expectations.expect_deletion(str(self._key), ref.uid, elapsed(), deleted)


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
