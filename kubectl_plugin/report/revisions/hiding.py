"""Which values of a DaemonSet are shown: those of fields that cannot hold a secret. All others are hidden."""

from __future__ import annotations

import hashlib
from typing import Final

from controller.api.base import JSON, JSONObject, as_bytes
from kubectl_plugin.report.counts_in_words import counted

_DIGITS: Final = 4
"""Of the digest: enough to tell values apart, too few to try guesses against."""
_HIDDEN: Final = "<hidden, "


def _names(*topics: str) -> frozenset[str]:
    return frozenset(name for topic in topics for name in topic.split())


_MAPS: Final = _names("labels matchLabels nodeSelector labelsHandler limits requests overhead")
"""Objects whose keys are chosen by users, and whose values are shown."""

_OBJECTS: Final = _names(
    """
    metadata ownerReferences spec template selector matchExpressions updateStrategy rollingUpdate
    scaleStrategy lifecycle preDelete inPlaceUpdate preNormal inPlaceUpdateStrategy containers
    initContainers ephemeralContainers ports resources claims resizePolicy env valueFrom fieldRef
    resourceFieldRef configMapKeyRef secretKeyRef envFrom configMapRef secretRef livenessProbe
    readinessProbe startupProbe postStart preStop sleep httpGet httpHeaders tcpSocket grpc exec volumeMounts
    volumeDevices volumes hostPath emptyDir configMap secret items projected sources downwardAPI
    serviceAccountToken persistentVolumeClaim nfs csi nodePublishSecretRef ephemeral volumeClaimTemplate
    image securityContext appArmorProfile capabilities seLinuxOptions seccompProfile sysctls windowsOptions
    affinity nodeAffinity podAffinity podAntiAffinity requiredDuringSchedulingIgnoredDuringExecution
    preferredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchFields preference podAffinityTerm
    labelSelector namespaceSelector tolerations topologySpreadConstraints hostAliases imagePullSecrets
    readinessGates resourceClaims schedulingGates os
    """
)
"""Objects, and lists of objects, whose values may be shown. Those of any other are hidden."""

_SHOWN: Final = _names(
    # the object and its rollout
    """
    apiVersion kind name namespace generateName finalizers uid controller blockOwnerDeletion type
    rollingUpdateType partition maxUnavailable maxSurge paused minReadySeconds revisionHistoryLimit
    burstReplicas partitionedScaling finalizersHandler markPodNotReady gracePeriodSeconds
    """,
    # pods, and where they run
    """
    activeDeadlineSeconds automountServiceAccountToken conditionType dnsPolicy enableServiceLinks hostIPC
    hostNetwork hostPID hostUsers hostname hostnames ip nodeName preemptionPolicy priority priorityClassName
    resourceClaimName resourceClaimTemplateName restartPolicy runtimeClassName schedulerName serviceAccount
    serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds
    matchExpressions.key matchExpressions.operator matchExpressions.values matchFields.key
    matchFields.operator matchFields.values tolerations.key tolerations.operator tolerations.value effect
    tolerationSeconds weight namespaces topologyKey matchLabelKeys mismatchLabelKeys maxSkew minDomains
    whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy
    """,
    # containers: of a variable its name, and the names of what it refers to
    """
    image imagePullPolicy containerPort hostPort protocol claims.request resourceName stdin stdinOnce tty
    terminationMessagePolicy fieldPath containerName resource divisor configMapKeyRef.key secretKeyRef.key
    optional prefix stopSignal port scheme service seconds failureThreshold initialDelaySeconds periodSeconds
    successThreshold timeoutSeconds
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
"""Images, numbers, switches, quantities, choices, names, ports, mounts, selectors and tolerations. A name that has
another meaning elsewhere stands behind that of its object."""


def without_secrets(document: JSONObject) -> JSONObject:
    """A copy of an object, or of a template, in which every value that may be a secret is replaced by its length and
    a short digest. Names of fields, and the form of lists and objects, remain.

    Trap: two values may look the same afterwards. Compare before, show after.
    """
    return _object(document, "", is_open=True)


def is_hidden(value: JSON) -> bool:
    """Whether the value stands for a hidden one."""
    return isinstance(value, str) and value.startswith(_HIDDEN)


def _object(fields: JSONObject, holder: str, *, is_open: bool) -> JSONObject:
    return {key: _value(one, key, holder, is_open=is_open) for key, one in fields.items()}


def _value(value: JSON, field: str, holder: str, *, is_open: bool) -> JSON:
    """`is_open`: whether `holder`, and all that hold it, may be shown."""
    if isinstance(value, dict):
        is_open = is_open and holder not in _MAPS and (field in _OBJECTS or field in _MAPS)
        return _object(value, field, is_open=is_open)
    if isinstance(value, list):
        return [_value(one, field, holder, is_open=is_open) for one in value]
    shown = is_open and (holder in _MAPS or field in _SHOWN or f"{holder}.{field}" in _SHOWN)
    return value if shown or value in (None, "") else _placeholder(value)


def _placeholder(value: JSON) -> str:
    """Such as `<hidden, 6 characters, digest 2bd8>`, which YAML shows without quotes."""
    written = as_bytes(value)
    length = len(value) if isinstance(value, str) else len(written)
    digest = hashlib.sha256(written).hexdigest()[:_DIGITS]
    return f"{_HIDDEN}{counted(length, 'character')}, digest {digest}>"
