"""Makes the manifest of a puller: a pod that makes the kubelet of one node pull one image, and nothing else.

It satisfies the Pod Security Standard "restricted". It tolerates every taint, because it is bound to one node by
affinity; it does not keep the cluster autoscaler from removing the node, and nothing is injected into it. With a
grace period of 0 it is gone as soon as it is deleted, even from a node that does not answer: nothing of it has run.
From its ServiceAccount it gets the pull secrets, which the API server adds if it names none, but no token. The server
says whether that account exists.
"""

from __future__ import annotations

from controller.api.image_pull_job import ALWAYS, CONTAINER, JOB_KIND, MANAGED, PULLER_LABEL, ImagePullJob
from controller.api.names import API_VERSION
from controller.api.objects import JSON, JSONObject
from controller.planner.pod_template import aimed, child_name

NO_COMMAND = "/kruise-ds/only-pulls-the-image"
"""A command that exists in no image."""
_NOBODY = 65534
"""The user `nobody`."""
_LEFT_ALONE_SECONDS = 60
"""Seconds after the timeout of its attempt. By then the controller should have deleted the puller; if not, the
kubelet ends it."""
_LONGEST_DEADLINE = 2**31 - 1
"""The largest number that the API server accepts."""
_LABELS: JSONObject = {**MANAGED, "sidecar.istio.io/inject": "false"}
_ANNOTATIONS: JSONObject = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
    "linkerd.io/inject": "disabled",
}

_OF_CONTAINERS = "container.apparmor.security.beta.kubernetes.io/"
"""The start of annotations that name a container; the server refuses them if the pod has no such container."""


def pod_name(job: ImagePullJob, node: str) -> str:
    return child_name(job.name, job.uid, node)


def body(job: ImagePullJob, node: str) -> JSONObject:
    config = job.spec.sandbox_config
    annotations = {key: one for key, one in (config.annotations or {}).items() if not key.startswith(_OF_CONTAINERS)}
    secrets: list[JSON] = [{"name": name} for name in job.spec.pull_secrets or ()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(job, node),
            "namespace": job.namespace,
            "labels": {**(config.labels or {}), **_LABELS, PULLER_LABEL: job.uid},
            "annotations": {**annotations, **_ANNOTATIONS},
            "ownerReferences": [_owner(job)],
        },
        "spec": {
            "affinity": aimed({}, node),
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": min(job.spec.timeout + _LEFT_ALONE_SECONDS, _LONGEST_DEADLINE),
            **({"serviceAccountName": job.service_account} if job.service_account else {}),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _NOBODY,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **({"imagePullSecrets": secrets} if secrets else {}),
            "containers": [_container(job)],
        },
    }


def _owner(job: ImagePullJob) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": JOB_KIND, "name": job.name, "uid": job.uid, "controller": True}


def _container(job: ImagePullJob) -> JSONObject:
    return {
        "name": CONTAINER,
        "image": job.spec.image,
        "imagePullPolicy": ALWAYS if job.spec.asks_registry else "IfNotPresent",
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
