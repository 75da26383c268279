"""Which fields of a DaemonSet matter for security, and which values cannot be secret and are shown."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias

from controller.api import containers
from controller.api.formats import counted
from controller.api.objects import JSON, JSONObject, as_bytes


def words_of(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


MARKED: Final = words_of(
    """
    securityContext ephemeralContainers
    hostIPC hostNetwork hostPID hostUsers shareProcessNamespace runtimeClassName
    hostPort httpGet.host tcpSocket.host
    serviceAccount serviceAccountName automountServiceAccountToken serviceAccountToken podCertificate
    mountPropagation volumeDevices hostPath csi
    awsElasticBlockStore azureDisk azureFile cephfs cinder fc flexVolume flocker gcePersistentDisk gitRepo glusterfs
    iscsi nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume
    container.apparmor.security.beta.kubernetes.io
    container.seccomp.security.alpha.kubernetes.io seccomp.security.alpha.kubernetes.io
    """
)
"""Fields, with their contents, and annotation prefixes (up to `/`) restricted by the Pod Security Standards; pod
identities; CSI volumes. A name with several meanings is written `object.field`."""

_IMAGES: Final = words_of("containers.image initContainers.image ephemeralContainers.image image.reference")


def is_image(fields: Sequence[str]) -> bool:
    """Whether the path leads to the image of a container or of a volume."""
    return ".".join(fields[-2:]) in _IMAGES


def is_marked(fields: Sequence[str]) -> bool:
    """Whether the path matters for security; images are marked separately (`is_image`)."""
    names = [field.partition("/")[0] for field in fields]
    return not MARKED.isdisjoint((*names, *map(".".join, pairwise(names))))


def origin_of(reference: JSON) -> str:
    return containers.canonical(str(reference)).partition("@")[0].rpartition("/")[0]


_DIGITS: Final = 4
"""Digits of a digest shown: enough to distinguish values, too few to test guesses against."""
_HIDDEN: Final = "<hidden, "
_Hide: TypeAlias = Callable[[JSON], JSON]


_MAPS: Final = words_of("labels matchLabels nodeSelector labelsHandler limits requests overhead")
"""Objects with user-defined keys whose values are shown."""
_ANNOTATIONS: Final = "annotations"
_OURS: Final = words_of("kruise-ds apps.kruise.io daemonset.kruise.io")
"""Prefixes (up to `/`) of annotations whose values are shown, in addition to `MARKED`."""

_OBJECTS: Final = words_of(
    """
    metadata annotations ownerReferences spec template selector matchExpressions updateStrategy rollingUpdate
    order steps topology unreachableNodes onFailure
    scaleStrategy lifecycle preDelete inPlaceUpdate preNormal inPlaceUpdateStrategy containers
    initContainers ephemeralContainers ports resources claims resizePolicy env valueFrom fieldRef
    resourceFieldRef configMapKeyRef secretKeyRef fileKeyRef envFrom configMapRef secretRef livenessProbe
    readinessProbe startupProbe postStart preStop sleep httpGet httpHeaders tcpSocket grpc exec volumeMounts
    volumeDevices volumes hostPath emptyDir configMap secret items projected sources downwardAPI
    serviceAccountToken persistentVolumeClaim nfs csi nodePublishSecretRef ephemeral volumeClaimTemplate
    image securityContext appArmorProfile capabilities seLinuxOptions seccompProfile sysctls windowsOptions
    affinity nodeAffinity podAffinity podAntiAffinity requiredDuringSchedulingIgnoredDuringExecution
    preferredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchFields preference podAffinityTerm
    labelSelector namespaceSelector tolerations topologySpreadConstraints hostAliases imagePullSecrets
    readinessGates resourceClaims schedulingGates os dnsConfig
    """
)
"""Objects, and lists of objects, whose values may be shown; those of all others are hidden."""

_SHOWN: Final = words_of(
    # the object and its rollout
    """
    apiVersion kind name namespace generateName finalizers uid controller blockOwnerDeletion type
    groupBy steps.nodes soak approval topology.key maxDomains leaveOut unavailableNodes onFailure.after
    onFailure.restarts onFailure.action rollingUpdateType partition maxUnavailable maxSurge paused
    minReadySeconds revisionHistoryLimit burstReplicas partitionedScaling finalizersHandler
    markPodNotReady gracePeriodSeconds
    """,
    # pods, and where they run
    """
    activeDeadlineSeconds automountServiceAccountToken conditionType dnsPolicy nameservers searches
    enableServiceLinks hostIPC hostNetwork hostPID hostUsers hostname hostnames ip nodeName preemptionPolicy
    priority priorityClassName resourceClaimName resourceClaimTemplateName restartPolicy runtimeClassName
    schedulerName serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
    terminationGracePeriodSeconds matchExpressions.key matchExpressions.operator matchExpressions.values
    matchFields.key matchFields.operator matchFields.values tolerations.key tolerations.operator
    tolerations.value effect tolerationSeconds weight namespaces topologyKey matchLabelKeys
    mismatchLabelKeys maxSkew minDomains whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy
    """,
    # containers: of a variable its name, and the names of what it refers to
    """
    image imagePullPolicy containerPort hostPort protocol claims.request resourceName stdin stdinOnce tty
    terminationMessagePolicy fieldPath containerName resource divisor configMapKeyRef.key secretKeyRef.key
    fileKeyRef.key fileKeyRef.path volumeName optional prefix stopSignal port scheme service seconds
    failureThreshold initialDelaySeconds periodSeconds successThreshold timeoutSeconds
    """,
    # mounts and volumes
    """
    mountPath mountPropagation readOnly recursiveReadOnly subPath subPathExpr devicePath hostPath.path medium
    sizeLimit secretName defaultMode items.key items.path mode audience expirationSeconds
    serviceAccountToken.path claimName nfs.server nfs.path driver fsType accessModes storageClassName
    volumeMode reference pullPolicy
    """,
    # security
    """
    allowPrivilegeEscalation localhostProfile add drop privileged procMount readOnlyRootFilesystem runAsGroup
    runAsNonRoot runAsUser level role user seLinuxChangePolicy fsGroup fsGroupChangePolicy supplementalGroups
    supplementalGroupsPolicy sysctls.value gmsaCredentialSpecName hostProcess runAsUserName
    """,
)
"""Fields whose values are shown. A name with several meanings is written `object.field`."""


def without_secrets(*documents: JSONObject) -> tuple[JSONObject, ...]:
    """Copies with each possible secret replaced by its length and a short digest, which is longer if another value
    shares it. Field names and structure are kept."""
    digests = defaultdict[str, set[str]](set)

    def collect(value: JSON) -> JSON:
        digest = _digest(value)
        digests[digest[:_DIGITS]].add(digest)
        return None

    for document in documents:
        _object(document, "", collect, is_open=True)
    hide = partial(_placeholder, digests)
    return tuple(_object(document, "", hide, is_open=True) for document in documents)


def is_hidden(value: JSON) -> bool:
    return isinstance(value, str) and value.startswith(_HIDDEN)


def _object(fields: JSONObject, holder: str, hide: _Hide, *, is_open: bool) -> JSONObject:
    return {key: _value(one, key, holder, hide, is_open=is_open) for key, one in fields.items()}


def _value(value: JSON, field: str, holder: str, hide: _Hide, *, is_open: bool) -> JSON:
    """`is_open`: whether the values in `holder`, and in all its parents, may be shown."""
    if isinstance(value, dict):
        is_open = is_open and holder not in (_ANNOTATIONS, *_MAPS) and (field in _OBJECTS or field in _MAPS)
        return _object(value, field, hide, is_open=is_open)
    if isinstance(value, list):
        return [_value(one, field, holder, hide, is_open=is_open) for one in value]
    return value if (is_open and _is_shown(field, holder)) or value in (None, "") else hide(value)


def _is_shown(field: str, holder: str) -> bool:
    if holder == _ANNOTATIONS:
        return field.partition("/")[0] in _OURS | MARKED
    return holder in _MAPS or field in _SHOWN or f"{holder}.{field}" in _SHOWN


def _placeholder(digests: dict[str, set[str]], value: JSON) -> str:
    """`<hidden, 6 characters, digest 2bd8>`, which needs no quotes in YAML."""
    length = len(value) if isinstance(value, str) else len(as_bytes(value))
    digest = _digest(value)
    alike = digests[digest[:_DIGITS]] - {digest}
    digits = next(count for count in range(_DIGITS, 65) if not any(one.startswith(digest[:count]) for one in alike))
    return f"{_HIDDEN}{counted(length, 'character')}, digest {digest[:digits]}>"


def _digest(value: JSON) -> str:
    return hashlib.sha256(as_bytes(value)).hexdigest()
