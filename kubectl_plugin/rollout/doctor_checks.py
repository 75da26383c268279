"""The facts about an installation, and the checks of `doctor`. FAIL means that rollouts stop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from controller.api.names import LEASE_NAME, SYSTEM_NAMESPACE
from controller.api.objects import JSONObject, fields_of, items_of, value_at
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.wording import command, short_duration

_PROXY: Final = "kube-proxy"


def network_sign(document: JSONObject) -> str:
    """`mounts /etc/cni/net.d as a network plugin does` or `looks like kube-proxy`; empty for other objects."""
    template = fields_of(value_at(document, "spec", "template"))
    pod, meta = fields_of(template.get("spec")), fields_of(document.get("metadata"))
    mounted = (str(value_at(volume, "hostPath", "path") or "") for volume in items_of(pod.get("volumes")))
    if folder := next((path for path in mounted if "cni" in path.split("/")), ""):
        return f"mounts {folder} as a network plugin does"
    labels = (fields_of(one.get("labels")) for one in (meta, fields_of(template.get("metadata"))))
    named = meta.get("name") == _PROXY or any(label.get("k8s-app") == _PROXY for label in labels)
    is_proxy = named and meta.get("namespace") == "kube-system" and pod.get("hostNetwork") is True
    return f"looks like {_PROXY}" if is_proxy else ""


LEASE_SECONDS: Final = 60.0
"""Seconds without renewal after which no controller can be leading; its Lease is valid for 15 seconds."""


@dataclass(frozen=True)
class ControllerPod:
    name: str
    ready: bool
    version: str | NoAnswer
    host_network: bool = False


@dataclass(frozen=True)
class OurDaemonSet:
    name: str
    """Namespace and name."""
    network: str
    """Result of `network_sign`."""


@dataclass(frozen=True)
class Right:
    verb: str
    resource: str
    allowed: bool | NoAnswer


@dataclass(frozen=True)
class Leader:
    holder: str
    """Empty once the holder has released the Lease."""
    renewed: float
    """Seconds since 1970 by the holder's clock."""

    def leads(self, now: float) -> bool:
        return bool(self.holder) and now - self.renewed <= LEASE_SECONDS


def silence_of(leader: Leader | None, namespace: str, now: float) -> str:
    """Why no controller seems active in `namespace`; empty if one is. `now`: seconds since 1970."""
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
    """Ready replicas of its Deployment; None if it does not exist or is unreadable."""


@dataclass(frozen=True)
class Machine:
    """Files on the PATH, empty if missing."""

    kubectl: str | NoAnswer
    """Its version."""
    plugin: str
    completion: str
    shadow: str
    """A file that would answer to `kubectl kruise ds`, a name the plugin does not use."""


@dataclass(frozen=True)
class Facts:
    now: float
    """Seconds since 1970 by the API server's clock."""
    namespace: str
    controller_namespace: str
    machine: Machine
    client: str
    server: str | NoAnswer
    served: tuple[str, ...] | NoAnswer
    leader: Leader | NoAnswer | None
    """None if there is no Lease."""
    pods: tuple[ControllerPod, ...] | NoAnswer
    controller: str | NoAnswer
    rights: tuple[Right, ...]
    rival: Rival | NoAnswer
    daemons: tuple[OurDaemonSet, ...] | NoAnswer


OLDEST_CLUSTER: Final = (1, 30)
DAEMONSETS: Final = "daemonsets.apps.kruise.io"
"""The plugin is of no use without the right to get these."""
TELLING_DRAIN: Final = (1, 34)
"""First kubectl whose drain distinguishes the Advanced DaemonSet from a native one of the same name."""
MAINTENANCE: Final = "docs/node-maintenance.md"
APPLY: Final = "kubectl apply --server-side -k manifests/overlays/default"


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True)
class DoctorCheck:
    """One line of output; `about` is its one-word name in JSON."""

    level: Level
    about: str
    message: str
    hints: tuple[str, ...] = ()


def checkup(facts: Facts) -> tuple[DoctorCheck, ...]:
    return tuple(check for examine in _EXAMINATIONS for check in examine(facts))


def problems(checks: tuple[DoctorCheck, ...]) -> int:
    return sum(check.level is Level.FAIL for check in checks)


def _cluster(facts: Facts) -> Iterator[DoctorCheck]:
    kubectl = facts.machine.kubectl
    named = f"kubectl {kubectl.removeprefix('v')}" if isinstance(kubectl, str) else "no kubectl"
    needs = ".".join(map(str, OLDEST_CLUSTER))
    if isinstance(facts.server, NoAnswer):
        yield DoctorCheck(Level.WARN, "cluster", f"{named}, cluster of unknown version: {facts.server.why}")
        return
    text = f"{named}, cluster {facts.server} (needs {needs}+)"
    minor = minor_of(facts.server)
    if minor is not None and minor < OLDEST_CLUSTER:
        hint = f"what is installed has kinds that do not exist before {needs}; upgrade"
        yield DoctorCheck(Level.FAIL, "cluster", text, (hint,))
    elif isinstance(kubectl, NoAnswer):
        yield DoctorCheck(Level.WARN, "cluster", f"{text}: {kubectl.why}")
    else:
        yield DoctorCheck(Level.OK, "cluster", text)


def _versions(facts: Facts) -> Iterator[DoctorCheck]:
    client, controller = facts.client, facts.controller
    if isinstance(controller, NoAnswer):
        text = f"kruise-ds {client} client, controller of unknown version: {controller.why}"
        yield DoctorCheck(Level.WARN, "versions", text)
    elif client == controller:
        yield DoctorCheck(Level.OK, "versions", f"kruise-ds {client} client = controller")
    elif too_far_apart(client, controller):
        text = f"kruise-ds {client} client, {controller} controller: more than one minor version apart"
        yield DoctorCheck(Level.WARN, "versions", text, ("use the plugin of the controller's version",))
    else:
        yield DoctorCheck(Level.OK, "versions", f"kruise-ds {client} client, {controller} controller")


def _crd(facts: Facts) -> Iterator[DoctorCheck]:
    kind = f"CRD {DAEMONSETS}"
    if isinstance(facts.served, NoAnswer):
        yield DoctorCheck(Level.WARN, "crd", f"{kind}: {facts.served.why}")
    elif not facts.served:
        yield DoctorCheck(Level.FAIL, "crd", f"{kind} is not installed", (APPLY,))
    elif "v1beta1" not in facts.served:
        text = f"{kind} {', '.join(facts.served)}: v1beta1 is not served"
        hint = "OpenKruise's CRD before 1.8 has only v1alpha1: kubectl apply --server-side -k manifests/crds"
        yield DoctorCheck(Level.FAIL, "crd", text, (hint,))
    else:
        yield DoctorCheck(Level.OK, "crd", f"{kind} {', '.join(facts.served)}")


def _leader(facts: Facts) -> Iterator[DoctorCheck]:
    about, found, leader = "controller", _pods(facts), facts.leader
    if isinstance(leader, NoAnswer):
        yield DoctorCheck(Level.WARN, about, f"{found}leader unknown: {leader.why}")
    elif silence := silence_of(leader, facts.controller_namespace, facts.now):
        look = f"kubectl -n {facts.controller_namespace} get pods"
        where = f"{APPLY}; {look}" if facts.controller_namespace == SYSTEM_NAMESPACE else look
        elsewhere = "or it is installed in another namespace: --controller-namespace"
        behind = ("or the leader's clock is behind the API server's",) if leader is not None and leader.holder else ()
        hints = (where, elsewhere, *behind)
        yield DoctorCheck(Level.FAIL, about, f"{found}no controller is active: {silence}", hints)
    elif leader is not None:
        yield DoctorCheck(Level.OK, about, f"{found}leader renewed {short_duration(facts.now - leader.renewed)} ago")


def _pods(facts: Facts) -> str:
    if isinstance(facts.pods, NoAnswer) or not facts.pods:
        return ""
    count, ready = len(facts.pods), sum(pod.ready for pod in facts.pods)
    pods = f"{count} controller {'pod' if count == 1 else 'pods'}"
    return f"{pods}, " if ready == count else f"{pods}, {ready} ready, "


def _rights(facts: Facts) -> Iterator[DoctorCheck]:
    have = [right for right in facts.rights if right.allowed is True]
    lack = [right for right in facts.rights if right.allowed is False]
    unknown = [right for right in facts.rights if isinstance(right.allowed, NoAnswer)]
    if have:
        yield DoctorCheck(Level.OK, "rights", f"you may: {_listed(have)}")
    if lack:
        text = f"you may not, in namespace {facts.namespace}: {_listed(lack)}"
        blind = any(right.verb == "get" and right.resource == DAEMONSETS for right in lack)
        yield DoctorCheck(Level.FAIL if blind else Level.WARN, "rights", text, _ways(lack))
    if unknown and isinstance(why := unknown[0].allowed, NoAnswer):
        yield DoctorCheck(Level.WARN, "rights", f"your rights are unknown: {why.why}")


def _ways(lack: list[Right]) -> tuple[str, ...]:
    hints = []
    if any(right.verb != "create" for right in lack):
        hints.append("ask for ClusterRole kruise-ds-operator")
    if any(right.verb == "create" for right in lack):
        hints.append("without `create pods` nothing can try out a template before it is rolled out")
    return tuple(hints)


def _listed(rights: list[Right]) -> str:
    """`get list watch patch daemonsets, list pods nodes, create pods (dry run)`."""
    by_resource = [
        (" ".join(right.verb for right in group), resource.partition(".")[0])
        for (resource, _), group in groupby(rights, key=lambda right: (right.resource, right.verb == "create"))
    ]
    return ", ".join(
        f"{verbs} {' '.join(resource for _, resource in group)}{' (dry run)' if verbs == 'create' else ''}"
        for verbs, group in groupby(by_resource, key=lambda pair: pair[0])
    )


def _rival(facts: Facts) -> Iterator[DoctorCheck]:
    rival = facts.rival
    if isinstance(rival, NoAnswer):
        text = f"cannot see whether OpenKruise's kruise-controller-manager also runs here: {rival.why}"
        yield DoctorCheck(Level.WARN, "rival", text)
        return
    if rival.replicas or (rival.leader is not None and rival.leader.leads(facts.now)):
        text = (
            "OpenKruise's kruise-controller-manager also runs here (kruise-system): "
            "two controllers would fight over the same objects"
        )
        yield DoctorCheck(Level.FAIL, "rival", text, ("run only one of them: each undoes what the other one does",))
    else:
        yield DoctorCheck(Level.OK, "rival", "no other controller of the kind")


def _nodes(facts: Facts) -> Iterator[DoctorCheck]:
    """Checks for node drains and restarts; none if the user may not list Advanced DaemonSets."""
    daemons = () if isinstance(facts.daemons, NoAnswer) else facts.daemons
    kubectl = facts.machine.kubectl
    minor = minor_of(kubectl) if isinstance(kubectl, str) else None
    if daemons and minor is not None and minor < TELLING_DRAIN:
        text = "kubectl drain before 1.34 fails on nodes with pods of our DaemonSets"
        yield DoctorCheck(Level.WARN, "drain", text, (f"{MAINTENANCE} has the options with which it works",))
    network = next((daemon for daemon in daemons if daemon.network), None)
    pods = () if isinstance(facts.pods, NoAnswer) else facts.pods
    if network is not None and not all(pod.host_network for pod in pods):
        text = (
            f"{network.name} {network.network}, and the controller's pods need the pod "
            "network: if it is one, neither starts without the other"
        )
        yield DoctorCheck(Level.WARN, "network", text, (f"add components/host-network: {MAINTENANCE}",))


def _files(facts: Facts) -> Iterator[DoctorCheck]:
    machine = facts.machine
    if machine.plugin and machine.completion:
        yield DoctorCheck(Level.OK, "completion", "kubectl kruise-ds <TAB> works where kubectl's own completion does")
    elif not machine.plugin:
        text = "kubectl-kruise_ds is not on the PATH: kubectl does not find it"
        yield DoctorCheck(Level.WARN, "completion", text, ("pipx ensurepath, or put it into a folder of the PATH",))
    else:
        text = "kubectl_complete-kruise_ds is not on the PATH: no completion"
        yield DoctorCheck(Level.WARN, "completion", text, (command("completion install"),))
    if machine.shadow:
        text = f"{machine.shadow} answers `kubectl kruise ds` and hides a plugin `kubectl kruise`"
        yield DoctorCheck(
            Level.WARN, "shadow", text, ("remove it, unless it is yours: our file is kubectl-kruise_ds",)
        )


_EXAMINATIONS: tuple[Callable[[Facts], Iterator[DoctorCheck]], ...] = (
    _cluster,
    _versions,
    _crd,
    _leader,
    _rights,
    _rival,
    _nodes,
    _files,
)


_NUMBERS = re.compile(r"v?(\d+)\.(\d+)")


def minor_of(version: str) -> tuple[int, int] | None:
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2])) if found else None


def too_far_apart(one: str, other: str) -> bool:
    """Whether the versions differ by more than one minor version; False if either is unknown."""
    first, second = minor_of(one), minor_of(other)
    if first is None or second is None:
        return False
    return first[0] != second[0] or abs(first[1] - second[1]) > 1
