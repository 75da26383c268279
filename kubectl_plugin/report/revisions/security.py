"""Which fields of a DaemonSet matter for security: what a pod may do on its node and as whom, and where code comes
from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from controller.api import containers
from controller.api.objects import JSON


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
"""Fields, with all that is in them, and annotations, up to the `/`: what the Pod Security Standards restrict, the
identities of a pod, and CSI volumes. A name that has another meaning elsewhere stands behind that of its object."""

_IMAGES: Final = words_of("containers.image initContainers.image ephemeralContainers.image image.reference")


def is_image(fields: Sequence[str]) -> bool:
    """Whether the field at the end of the path names an image: of a container, or of a volume."""
    return ".".join(fields[-2:]) in _IMAGES


def is_marked(fields: Sequence[str]) -> bool:
    """Whether what the path leads to matters for security. An image does so by itself."""
    names = [field.partition("/")[0] for field in fields]
    return not MARKED.isdisjoint((*names, *map(".".join, pairwise(names))))


def origin_of(reference: JSON) -> str:
    """Registry and owner: those who may publish the image."""
    return containers.canonical(str(reference)).partition("@")[0].rpartition("/")[0]
