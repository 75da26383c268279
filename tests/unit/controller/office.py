"""An assembled process with its instrumentation, whose passes a test reports by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import Key, Ref
from controller.api.pod import Pod
from controller.kube.client import Client
from controller.kube.decode import Seen
from controller.kube.sender import Sender
from controller.observe.instrumentation import Instrumentation
from controller.observe.metrics import Metrics
from controller.planner.actions import DeletePod, DeleteReason
from controller.reconcile.caches import Caches
from controller.reconcile.events import Recorder
from controller.runtime.leader_election import Leadership
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.scripted import Script
from tests.beds.stores import fill
from tests.beds.worlds import NOW, ago, pod

DELETE = DeletePod(
    pod=Ref(namespace="default", name="node-0-v1", uid="uid-node-0-v1"), node="node-0", why=DeleteReason.OUTDATED
)


def instrumentation_of(
    metrics: Metrics, caches: Caches, relist: Callable[[str], None] = lambda resource: None
) -> Instrumentation:
    """As in a process with these caches whose events go nowhere."""
    recorder = Recorder(Client(Sender(Script())), lambda: NOW, "test")
    return Instrumentation(metrics, caches, recorder, Leadership(), lambda: NOW, relist=relist)


class Office:
    """An assembled process, whose caches a test fills by hand."""

    def __init__(self, *daemonsets: DaemonSet, nodes: tuple[Node, ...] = (), pods: tuple[Pod, ...] = ()) -> None:
        self.now = NOW
        self.parts: Parts = Parts(Settings(), Script(), server="", refresh=None, clock=lambda: self.now)
        self.parts.leadership.deadline = float("inf")
        informers = self.parts.informers
        self.daemonsets, self.nodes = informers.caches.daemonsets.writers[""], informers.caches.nodes.writers[""]
        fill(informers.caches.daemonsets, daemonsets)
        fill(informers.caches.nodes, nodes)
        fill(informers.caches.pods, pods)

    def pod_seen(self, daemonset: DaemonSet, seen: Pod, now: float) -> None:
        self.now = now
        self.parts.instrumentation.pod_seen(daemonset, seen)

    def acted(self, daemonset: DaemonSet, *actions: Any) -> None:
        for action in actions:
            self.parts.instrumentation.action_done(daemonset, action, None)

    def lose(self, machine: Node) -> None:
        for change in self.nodes.apply(Seen(key=Key("", machine.name), version="9", obj=None)):
            self.parts.triggers.on_node(change)

    def lose_daemonset(self, daemonset: DaemonSet) -> None:
        for change in self.daemonsets.apply(Seen(key=daemonset.key, version="9", obj=None)):
            self.parts.triggers.on_daemonset(change)

    def put_back(self, daemonset: DaemonSet) -> None:
        self.daemonsets.apply(Seen(key=daemonset.key, version="10", obj=daemonset))

    def count(self, name: str, **labels: str) -> float:
        """The sum over all children that have these labels."""
        samples = (one for family in self.parts.metrics.families() for one in family.samples)
        return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())

    def updated(self, daemonset: DaemonSet) -> float:
        """How many updates of nodes were timed once a new, available pod was seen on node-0."""
        self.pod_seen(daemonset, pod("node-0", "v2", ready=ago(1)), NOW)
        return self.count("kruise_ds_node_update_duration_seconds_count")
