"""Which ImagePullJobs the rollout of a DaemonSet wants: one per image that nodes with an old pod lack. They depend
only on the present state, so a rollback gets its jobs too. Also the manifests of the pods that pull for a job. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from controller.api import names
from controller.api.daemonset import DaemonSet
from controller.api.formats import LONGEST_ITEM, IntOrPercent, counted, is_well_formed, scaled, truncated
from controller.api.image_pull_job import ALWAYS, CONTAINER, JOB_KIND, MANAGED, NEVER, PULLER_LABEL, ImagePullJob
from controller.api.objects import JSON, JSONObject, Value, as_json, fields_of, items_of
from controller.api.pod import Pod
from controller.api.revision import Revision, short_hash
from controller.api.selector import Requirement
from controller.planner.actions import Note
from controller.planner.limits import budget_of
from controller.planner.node_fit import Rules
from controller.planner.pod_template import aimed, child_name, owner_reference
from controller.planner.revisions import of_template, stored_current

TIMEOUT_SECONDS = 300
MAX_TIMEOUT_SECONDS = 86_400
RETRIES = 1
TTL_SECONDS = 600
"""Seconds per attempt (default and maximum), retries, and seconds that a finished job stays."""
_MAX_NAME = 253
"""Characters in an object name (RFC 1123)."""
_AMOUNT = "a whole number or a percentage up to 100%"


class WantedJob(Value):
    name: str
    image: str


class _Options(Value, gc=True):
    """The options of jobs, from annotations of the DaemonSet."""

    parallelism: IntOrPercent = 1
    timeout: int = TIMEOUT_SECONDS
    min_updated: IntOrPercent = 0
    invalid: Mapping[str, str] = {}
    """By annotation, the expected form and the value used instead."""

    def min_updated_pods(self, desired: int) -> int:
        return scaled(self.min_updated, desired, round_up=True)


class WantedImages(Value, gc=True):
    revision: Revision
    desired: int = 0
    """Nodes that should run a pod; the base of percentages."""
    jobs: tuple[WantedJob, ...] = ()
    deferred: bool = False
    """Whether jobs must wait because too few updated pods are ready."""
    options: _Options = _Options()


def wanted_images(
    daemonset: DaemonSet, rules: Rules, revisions: Collection[Revision], pods: Collection[Pod]
) -> WantedImages | None:
    """None if the current revision is not stored yet or the spec cannot be used. `rules` are the DaemonSet's."""
    current = stored_current(daemonset, revisions)
    if current is None or rules.problems:
        return None
    same = {revision.hash for revision in of_template(daemonset, revisions)}
    live = [pod for pod in pods if pod.node and not pod.terminating and not pod.ended]
    old = {pod.hash for pod in live if pod.hash not in same}
    desired = (daemonset.status.desired_number_scheduled if daemonset.status else 0) or len(live)
    if not old or _is_one_wave(daemonset, desired):
        return WantedImages(revision=current, desired=desired)
    templates = {revision.hash: revision.template for revision in revisions}
    present = [set(images_of(templates.get(hash_) or {}).values()) for hash_ in old]
    jobs: dict[str, WantedJob] = {}
    for container, image in images_of(daemonset.spec.template).items():
        if not all(image in images for images in present):
            jobs.setdefault(image, WantedJob(name=_job_name(f"{current.name}-{container}"), image=image))
    ready = sum(pod.ready and pod.hash == current.hash for pod in live)
    options = _options_of(daemonset)
    return WantedImages(
        revision=current,
        desired=desired,
        jobs=tuple(jobs.values()),
        deferred=ready < options.min_updated_pods(desired),
        options=options,
    )


def images_of(template: JSONObject) -> Mapping[str, str]:
    spec = fields_of(template.get("spec"))
    found = [*items_of(spec.get("initContainers")), *items_of(spec.get("containers"))]
    return {
        str(container.get("name")): image
        for container in found
        if isinstance(image := container.get("image"), str) and image
    }


def _is_one_wave(daemonset: DaemonSet, desired: int) -> bool:
    """Whether all nodes are updated at once: then pulling in advance gains nothing."""
    if daemonset.rolling_update is None:
        return False
    budget = budget_of(daemonset, desired)
    return budget.partition == 0 and max(budget.max_unavailable, budget.max_surge) >= desired


def _job_name(whole: str) -> str:
    """Replaces the end of a name that is too long by a hash of all of it, because revisions differ at the end."""
    if len(whole) <= _MAX_NAME:
        return whole
    tail = short_hash(whole, length=8)
    return f"{whole[: _MAX_NAME - 1 - len(tail)].rstrip('.-')}-{tail}"


def manifest(daemonset: DaemonSet, wanted: WantedImages, job: WantedJob) -> JSONObject:
    """A percentage becomes a number of nodes: the job would apply it to the remaining, ever fewer nodes. If nodes
    wait, even those that get an old pod later, the job lasts as long as the rollout; deleting it ends the wait."""
    revision = wanted.revision
    spec, options = fields_of(daemonset.spec.template.get("spec")), wanted.options
    others = Requirement(key=names.HASH_LABEL, operator="NotIn", values=(revision.hash,))
    expressions = (*(daemonset.spec.selector.match_expressions or ()), others)
    annotations = fields_of(fields_of(daemonset.spec.template.get("metadata")).get("annotations"))
    secrets: list[JSON] = [reference.get("name") for reference in items_of(spec.get("imagePullSecrets"))]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")  # the deprecated name
    completes: JSONObject = {"type": ALWAYS, "ttlSecondsAfterFinished": TTL_SECONDS}
    return {
        "apiVersion": names.API_VERSION,
        "kind": JOB_KIND,
        "metadata": {
            "name": job.name,
            "namespace": daemonset.namespace,
            "labels": {names.HASH_LABEL: revision.hash},
            **({"annotations": {names.SERVICE_ACCOUNT_ANNOTATION: account}} if account else {}),
            "ownerReferences": [owner_reference(daemonset)],
        },
        "spec": {
            "image": job.image,
            "podSelector": as_json(replace(daemonset.spec.selector, match_expressions=expressions)),
            "parallelism": scaled(options.parallelism, wanted.desired, round_up=True),
            "pullPolicy": {"timeoutSeconds": options.timeout, "backoffLimit": RETRIES},
            "completionPolicy": {"type": NEVER} if daemonset.waits_for_images else completes,
            **({"pullSecrets": secrets} if secrets else {}),
            **({"sandboxConfig": {"annotations": annotations}} if annotations else {}),
        },
    }


def annotation_notes(daemonset: DaemonSet) -> tuple[Note, ...]:
    return tuple(
        Note(
            warning=True,
            reason=names.INVALID_ANNOTATION,
            message=f"annotation {name}: {truncated(daemonset.annotations[name], LONGEST_ITEM)!r} is not {what}",
        )
        for name, what in _options_of(daemonset).invalid.items()
    )


def deferral_notes(daemonset: DaemonSet, wanted: WantedImages) -> tuple[Note, ...]:
    """A note if an annotation allows updates in place before images were pulled in advance."""
    if not (daemonset.in_place and daemonset.waits_for_images):
        return ()
    pods = counted(wanted.options.min_updated_pods(wanted.desired), "updated pod", "is")
    message = (
        f"images are pulled ahead once {pods} ready, as annotation {names.MIN_UPDATED_ANNOTATION} says: "
        "the first nodes pull them during the update, while no container runs there"
    )
    return (Note(warning=False, once=True, reason=names.PRE_DOWNLOAD_DEFERRED, message=message),)


def _options_of(daemonset: DaemonSet) -> _Options:
    invalid: dict[str, str] = {}

    def read(name: str, default: IntOrPercent, is_valid: Callable[[IntOrPercent], bool], what: str) -> IntOrPercent:
        text = daemonset.annotations.get(name)
        if text is None:
            return default
        value: IntOrPercent = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
        if is_valid(value):
            return value
        invalid[name] = f"{what}, so {default} is used"
        return default

    if daemonset.invalid(names.PREDOWNLOAD_WAIT_ANNOTATION) is not None:
        used = "true" if daemonset.waits_for_images else "false"
        invalid[names.PREDOWNLOAD_WAIT_ANNOTATION] = f"true or false, so {used} is used"
    seconds = read(
        names.TIMEOUT_ANNOTATION,
        TIMEOUT_SECONDS,
        lambda number: isinstance(number, int) and 1 <= number <= MAX_TIMEOUT_SECONDS,
        f"a number of seconds from 1 to {MAX_TIMEOUT_SECONDS}",
    )
    return _Options(
        parallelism=read(names.PARALLELISM_ANNOTATION, 1, _is_amount, _AMOUNT),
        timeout=int(seconds),
        min_updated=read(names.MIN_UPDATED_ANNOTATION, 0, _is_amount, _AMOUNT),
        invalid=invalid,
    )


def _is_amount(value: IntOrPercent) -> bool:
    return is_well_formed(value) and scaled(value, 100, round_up=True) <= (100 if isinstance(value, str) else value)


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
    owner: JSONObject = {"apiVersion": names.API_VERSION, "kind": JOB_KIND, "name": job.name, "uid": job.uid}
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
