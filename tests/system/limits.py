"""What a rollout must never bring about, judged event by event from the server's objects.

Nothing here comes from the controller: eligibility, limits and revisions are worked out anew, for the plain cases
that tests use (taints and nodeSelector, no tolerations of the template's own, no affinity).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from controller.api.objects import epoch
from controller.api.revision import template_of
from tests.beds.api import DAEMONSETS, NODES, PODS, REVISIONS, Event, Object, Resource, apply
from tests.beds.controller.bed import named
from tests.beds.controller.waves import HASH
from tests.beds.objects import condition, image_of, is_ready, node_of, stays


@dataclass
class State:
    """The objects as the server has them after one event, and what that means for the DaemonSet `name`."""

    name: str
    objects: defaultdict[Resource, dict[str, Object]] = field(default_factory=lambda: defaultdict(dict))
    """By uid."""
    since: dict[str, tuple[str, float]] = field(default_factory=dict)
    """uid of a pod to the time stamp of its readiness, and the moment from which that counts."""
    last: dict[str, str] = field(default_factory=dict)
    """Node to the hash of the pod that came there last."""
    live: list[Object] = field(default_factory=list)
    """The pods that `stays` says are there."""
    now: float = 0.0

    def apply(self, resource: Resource, event: Event, now: float) -> None:
        apply(self.objects[resource], event)
        self.now = now
        if resource is PODS:
            self.live = [pod for pod in self.of(PODS) if stays(pod, self.name)]
        if resource is PODS and event.type != "DELETED":
            stamp = condition(event.object, "Ready").get("lastTransitionTime") or ""
            uid = event.object["metadata"]["uid"]
            if self.since.get(uid, ("", 0.0))[0] != stamp:  # a node's clock may be ahead: then it counts from now
                self.since[uid] = stamp, min(epoch(stamp) or now, now)

    def of(self, resource: Resource) -> list[Object]:
        return list(self.objects[resource].values())

    @property
    def spec(self) -> Object:
        spec: Object = named(self.of(DAEMONSETS), self.name).get("spec") or {}
        return spec

    @property
    def rolling(self) -> Object | None:
        """The settings of the rolling update; None for OnDelete."""
        strategy = self.spec.get("updateStrategy") or {}
        return None if strategy.get("type") == "OnDelete" else strategy.get("rollingUpdate") or {}

    @property
    def pairs(self) -> set[str]:
        """The nodes with two live pods or more."""
        nodes = [node_of(pod) for pod in self.live]
        return {node for node in nodes if nodes.count(node) > 1}

    @property
    def eligible(self) -> set[str]:
        wanted = ((self.spec.get("template") or {}).get("spec") or {}).get("nodeSelector") or {}
        return {
            node["metadata"]["name"]
            for node in self.of(NODES)
            if wanted.items() <= (node["metadata"].get("labels") or {}).items()
            and all(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints") or [])
        }

    def selected(self, node: str) -> bool:
        """Whether `rollingUpdate.selector` (of labels only) lets the node be updated."""
        wanted = ((self.rolling or {}).get("selector") or {}).get("matchLabels") or {}
        labels = named(self.of(NODES), node)["metadata"].get("labels") or {}
        return bool(wanted.items() <= labels.items())

    def hashes(self, *, current: bool) -> list[str]:
        """Of the revisions whose template is, or is not, the one of the spec; newest first."""
        stored = sorted(self.of(REVISIONS), key=lambda one: -int(one["revision"]))
        template = self.spec.get("template")
        return [
            one["metadata"]["labels"][HASH] for one in stored if (template_of(one["data"]) == template) is current
        ]

    def is_current(self, pod: Object) -> bool:
        return hash_of(pod) in self.hashes(current=True)

    def is_available(self, pod: Object) -> bool:
        """Ready for minReadySeconds, give or take the second that time stamps do not tell."""
        ready = is_ready(pod) and pod["status"]["phase"] == "Running"
        wait = float(self.spec.get("minReadySeconds") or 0)
        return bool(ready) and self.now >= self.since[pod["metadata"]["uid"]][1] + wait

    def resolved(self, field_name: str, *, up: bool) -> int:
        """maxSurge, maxUnavailable or partition, against the nodes that are eligible now."""
        value = (self.rolling or {}).get(field_name) or 0
        if field_name == "maxSurge" and (self.rolling or {}).get("rollingUpdateType") == "Surging":
            value = value or 1
        if isinstance(value, str):
            product = int(value.rstrip("%")) * len(self.eligible)
            return -(-product // 100) if up else product // 100
        return int(value)

    @property
    def moved(self) -> set[str]:
        """The eligible nodes whose pod is, or was, of the current revision."""
        current = self.hashes(current=True)
        return {node for node in self.eligible if self.last.get(node) in current}


@dataclass
class Judge:
    """Looks at each event once, in the server's order. `wrong` has a line for every broken moment."""

    scene: State
    most_unavailable: int | None = None
    """How many eligible nodes may be without an available pod; None: that is not what the test is about."""
    excused: set[str] = field(default_factory=set)
    """Nodes whose old pod was unavailable when its partner came: they need no surge."""
    idle: int = 0
    """Eligible nodes without an available pod, after the last event: only more of them are told again."""
    wrong: list[str] = field(default_factory=list)

    def see(self, resource: Resource, event: Event, now: float) -> None:
        scene, uid = self.scene, event.object["metadata"]["uid"]
        before = next((pod for pod in scene.live if pod["metadata"]["uid"] == uid), None)
        was_available = before is not None and scene.is_available(before)
        scene.apply(resource, event, now)
        if resource is PODS and event.type == "ADDED" and stays(event.object, scene.name):
            self._arrives(event.object)
        if before is not None and not any(pod["metadata"]["uid"] == uid for pod in scene.live):
            self._leaves(before, was_available=was_available)
        self.excused &= scene.pairs
        idle = scene.eligible - {node_of(pod) for pod in scene.live if scene.is_available(pod)}
        if self.most_unavailable is not None and len(idle) > max(self.most_unavailable, self.idle):
            self._tell(event, f"without an available pod: {', '.join(sorted(idle))}", idle)
        self.idle = len(idle)

    def _arrives(self, pod: Object) -> None:
        scene, node = self.scene, node_of(pod)
        before, event = scene.last.get(node), Event("ADDED", pod)
        scene.last[node] = hash_of(pod)
        others = [one for one in scene.live if node_of(one) == node and one is not pod]
        surge = scene.resolved("maxSurge", up=True)
        if others and not surge:
            self._tell(event, f"a second pod on {node} without surge", {node})
        if any(scene.is_current(one) == scene.is_current(pod) for one in others):
            self._tell(event, f"two pods of a kind on {node}", {node})
        if others and not any(map(scene.is_available, others)):
            self.excused.add(node)
        crowded = scene.pairs - self.excused
        if len(crowded) > surge > 0:
            self._tell(event, f"more than maxSurge nodes have two pods: {', '.join(sorted(crowded))}", crowded)
        if not scene.is_current(pod):
            self._is_kept(event, before)
        elif before not in scene.hashes(current=True):
            self._moves(event, before)

    def _moves(self, event: Event, before: str | None) -> None:
        """A node gets its first pod of the current revision.

        A new one does so too where more nodes have it than may, as after a revert under a partition.
        """
        scene, node = self.scene, node_of(event.object)
        rolling, older = scene.rolling, scene.hashes(current=False)
        if rolling is None or not (older or self._progressive):
            return
        if len(scene.moved) > self._places and not (before is None and len(scene.moved) - 1 > self._places):
            self._tell(event, f"{node} is one more than the {self._places} that the partition allows", scene.moved)
        if older and not scene.selected(node):
            self._tell(event, f"{node} is not selected", {node})
        left = [one for one in scene.eligible if scene.last.get(one) in older]
        if left and rolling.get("paused"):
            self._tell(event, f"{node} moves while paused", {node})

    def _is_kept(self, event: Event, before: str | None) -> None:
        """A node gets a pod of an older revision."""
        scene, node = self.scene, node_of(event.object)
        older = scene.hashes(current=False)
        if before is not None and before != hash_of(event.object) and before in (*older, *scene.hashes(current=True)):
            self._tell(event, f"{node} gets a pod of another older revision than it had", {node})
        if before is None and hash_of(event.object) not in self._most_run(older):
            self._tell(event, f"{node} gets a pod that is not of the older revision that most run", {node})
        if before is None and self._progressive and len(scene.moved) >= self._places:
            self._tell(event, f"{node} gets its first pod although the partition leaves no room", {node})

    def _most_run(self, older: list[str]) -> list[str]:
        """The newest of those that most live pods are of; nobody's pods count that came just now."""
        alive = [hash_of(pod) for pod in self.scene.live[:-1]]
        return [max(older, key=alive.count)] if older else []

    @property
    def _places(self) -> int:
        """How many nodes may hold the current revision."""
        return max(len(self.scene.eligible) - self.scene.resolved("partition", up=False), 0)

    @property
    def _progressive(self) -> bool:
        """Whether the partition also limits creation."""
        one = named(self.scene.of(DAEMONSETS), self.scene.name)
        told = (one["metadata"].get("annotations") or {}).get("daemonset.kruise.io/progressive-create-pod") == "true"
        asked = (self.scene.spec.get("scaleStrategy") or {}).get("partitionedScaling", told)
        return bool(asked) and self.scene.resolved("partition", up=False) > 0

    def _leaves(self, pod: Object, *, was_available: bool) -> None:
        """A pod is told to go: not one that serves, where its partner does not yet."""
        scene, node = self.scene, node_of(pod)
        partners = [one for one in scene.live if node_of(one) == node]
        if was_available and partners and node in scene.eligible and not any(map(scene.is_available, partners)):
            name = pod["metadata"]["name"]
            self._tell(Event("DELETED", pod), f"{node} loses {name} before another serves", {node})

    def _tell(self, event: Event, words: str, nodes: Collection[str]) -> None:
        there = [self._describe(pod) for pod in self.scene.of(PODS) if node_of(pod) in nodes]
        where = f"at version {event.object['metadata']['resourceVersion']}"
        self.wrong.append("\n  ".join([f"{where}: {words}", *sorted(there)]))

    def _describe(self, pod: Object) -> str:
        kind = "current" if self.scene.is_current(pod) else "old"
        state = "going" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", "")
        available = ", available" if pod in self.scene.live and self.scene.is_available(pod) else ""
        image = image_of(pod).rpartition(":")[2]
        return f"{node_of(pod)}: {pod['metadata']['name']} ({kind}, {image}, {state}{available})"


def hash_of(pod: Object) -> str:
    """Of the revision that the pod says it is of."""
    return str((pod["metadata"].get("labels") or {}).get(HASH, ""))
