"""The facts about an installation: the machine, the cluster, the controller, our rights. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.api.names import LEASE_NAME
from kubectl_plugin.durations import short_duration

NAMESPACE: Final = "kruise-ds-system"
"""The namespace of the controller, unless it was installed in another one."""
SILENCE: Final = 60.0
"""Seconds without a renewal after which no controller can be leading: its Lease is valid for 15."""


@dataclass(frozen=True)
class NoAnswer:
    """Why a question to the server has no answer."""

    why: str


@dataclass(frozen=True)
class ControllerPod:
    name: str
    ready: bool
    version: str | NoAnswer
    host_network: bool = False


@dataclass(frozen=True)
class OurDaemonSet:
    """A DaemonSet of ours."""

    name: str
    """Namespace and name."""
    network: str
    """What makes it look like a part of the cluster network, such as `mounts /etc/cni/net.d as …`; empty for none."""


@dataclass(frozen=True)
class Right:
    """One verb on one resource, as kubectl names it."""

    verb: str
    resource: str
    allowed: bool | NoAnswer


@dataclass(frozen=True)
class Leader:
    """The holder of a Lease."""

    holder: str
    """Empty after the holder has given the Lease back."""
    renewed: float
    """Seconds since 1970, by the holder's clock."""

    def leads(self, now: float) -> bool:
        return bool(self.holder) and now - self.renewed <= SILENCE


def silence_of(leader: Leader | None, namespace: str, now: float) -> str:
    """Why no controller seems to be active in `namespace`, in words; empty if one is. `now`:
    seconds since 1970."""
    lease = f"lease {namespace}/{LEASE_NAME}"
    if leader is None:
        return f"there is no {lease}"
    if leader.leads(now):
        return ""
    last = "last renewed" if leader.holder else "given back"
    return f"{lease} was {last} {short_duration(now - leader.renewed)} ago"


@dataclass(frozen=True)
class Rival:
    """OpenKruise's own manager, which reconciles the same kind."""

    leader: Leader | None
    replicas: int | None
    """Ready replicas of its Deployment; None if there is none, or it may not be read."""


@dataclass(frozen=True)
class Machine:
    """Files on the PATH, by their purpose; empty if there is none."""

    kubectl: str | NoAnswer
    """Its version."""
    plugin: str
    completion: str
    shadow: str
    """A file that answers to `kubectl kruise ds`, which is not our name."""


@dataclass(frozen=True)
class Facts:
    now: float
    """Seconds since 1970, by the API server's clock."""
    namespace: str
    controller_namespace: str
    """The namespace where the controller is looked for."""
    machine: Machine
    client: str
    server: str | NoAnswer
    served: tuple[str, ...] | NoAnswer
    leader: Leader | NoAnswer | None
    """None if there is no Lease."""
    pods: tuple[ControllerPod, ...] | NoAnswer
    controller: str | NoAnswer
    """The version of the controller."""
    rights: tuple[Right, ...]
    rival: Rival | NoAnswer
    daemons: tuple[OurDaemonSet, ...] | NoAnswer
    """The Advanced DaemonSets of all namespaces."""
