"""One state of the world, and the arithmetic of the specification over it: who is served, who may be updated.

Nothing here is taken from `controller`; it is worked out anew from the promises of docs/concepts.md. What depends on
things that a controller may have forgotten (which pod was on a node before) has three answers: yes, no and None,
"perhaps".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from tests.beds.api import Object
from tests.beds.objects import V3, controller_of, image_of, node_of

CANARY = {"track": "canary"}
CHOOSY = V3
"""The image whose template runs on canaries only."""
ZONE = "topology.kubernetes.io/zone"
GUARD = {"hold": "yes"}
"""The label that the preDelete hook looks for; every template has it."""
UNREACHABLE = "node.kubernetes.io/unreachable"

Number: TypeAlias = int | str | None


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True)
class Pod:
    """One state of a daemon pod."""

    name: str
    uid: str
    node: str
    image: str
    bound: bool
    terminating: bool
    phase: str
    ready: bool
    since: float
    """The transition time of Ready, in seconds since 1970, as the kubelet wrote it."""
    told: float
    """When the server heard of that."""
    guarded: bool = False
    """Whether it has the label of the preDelete hook."""
    held: bool = False
    """Whether it is prepared for its deletion, or was made not ready for that."""
    drained: bool = False
    """Whether it is held, and all its containers are ready."""

    @property
    def live(self) -> bool:
        return not self.terminating and not self.ended

    @property
    def ended(self) -> bool:
        return self.phase in ("Failed", "Succeeded")

    def __str__(self) -> str:
        words = [self.name, self.image.rpartition(":")[2], self.phase.lower()]
        words += ["ready"] if self.ready else []
        words += ["held"] if self.held else []
        words += ["terminating"] if self.terminating else []
        return " ".join(words + ([] if self.bound else ["unbound"]))


def pod_of(found: Object, before: Pod | None, now: float) -> Pod:
    """`before`: the state that this one follows."""
    conditions = (found.get("status") or {}).get("conditions") or []
    ready: Object = next((one for one in conditions if one["type"] == "Ready" and one["status"] == "True"), {})
    since = moment(ready["lastTransitionTime"]) if ready else 0.0
    same = before is not None and before.ready and before.since == since
    metadata, labels = found["metadata"], found["metadata"].get("labels") or {}
    marked = any("preDeleteHook" in one.get("message", "") for one in conditions if one["status"] == "False")
    held = marked or labels.get("lifecycle.apps.kruise.io/state") == "PreparingDelete"
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        node=node_of(found),
        image=image_of(found),
        bound=bool(found["spec"].get("nodeName")),
        terminating=bool(metadata.get("deletionTimestamp")),
        phase=(found.get("status") or {}).get("phase", ""),
        ready=bool(ready),
        since=since,
        told=before.told if same and before is not None else now,
        guarded=labels.items() >= GUARD.items(),
        held=held,
        drained=held and any(one["type"] == "ContainersReady" and one["status"] == "True" for one in conditions),
    )


def is_ours(found: Object) -> bool:
    return bool(controller_of(found).get("name") == "agent")


@dataclass(frozen=True)
class Node:
    name: str
    uid: str
    canary: bool
    effects: frozenset[str]
    """Of the taints that a daemon pod does not tolerate."""
    unreachable: bool
    zone: str = ""

    def __str__(self) -> str:
        words = [self.name, "canary" if self.canary else "", *sorted(self.effects)]
        return " ".join(filter(None, [*words, "unreachable" if self.unreachable else ""]))


def node_from(found: Object) -> Node:
    taints = found["spec"].get("taints") or []
    silent = [one for one in taints if one["key"] == UNREACHABLE]
    return Node(
        name=found["metadata"]["name"],
        uid=found["metadata"]["uid"],
        canary=(found["metadata"].get("labels") or {}).get("track") == "canary",
        effects=frozenset(one["effect"] for one in taints if one not in silent or one["effect"] == "NoSchedule"),
        unreachable=bool(silent),
        zone=(found["metadata"].get("labels") or {}).get(ZONE, ""),
    )


@dataclass(frozen=True)
class Spec:
    """What the user wants."""

    generation: int
    image: str
    rolling: bool
    """RollingUpdate, and not OnDelete."""
    partition: Number
    canaries_only: bool
    paused: bool
    max_unavailable: Number
    max_surge: Number
    min_ready: int
    burst: Number
    partitioned_scaling: bool
    hook: bool
    steps: tuple[Object, ...] = ()
    topology: Object | None = None
    ordered: bool = False
    leave_out: Number = None
    action: str = ""
    """Of onFailure; empty: nothing is a failure."""
    checks: bool = False
    record: Object = field(default_factory=dict)
    """`status.rollout`."""
    revision: str = ""
    """`status.updateRevision`."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """The annotations."""

    @property
    def progressive(self) -> bool:
        """Whether it has fields of progressive rollouts; `progress` has the laws of these."""
        return bool(self.steps or self.topology or self.ordered or self.leave_out is not None or self.action)

    @property
    def edited(self) -> tuple[Any, ...]:
        """What users write."""
        return (self.generation, self.notes)

    def __str__(self) -> str:
        kind = "RollingUpdate" if self.rolling else "OnDelete"
        words = [f"generation {self.generation}", self.image.rpartition(":")[2], kind]
        words += [f"partition {self.partition}", f"maxUnavailable {self.max_unavailable}", f"surge {self.max_surge}"]
        words += ["paused"] if self.paused else []
        words += ["canaries only"] if self.canaries_only else []
        words += [f"minReadySeconds {self.min_ready}"] if self.min_ready else []
        words += ["hook"] if self.hook else []
        words += ["partitionedScaling"] if self.partitioned_scaling else []
        return ", ".join(words)


def spec_of(found: Object) -> Spec:
    spec: dict[str, Any] = found["spec"]
    status: Object = found.get("status") or {}
    strategy = spec["updateStrategy"]
    rolling: dict[str, Any] = strategy.get("rollingUpdate") or {}
    surge: Number = rolling.get("maxSurge")
    if rolling.get("rollingUpdateType") == "Surging" and surge is None:
        surge = 1
    on = strategy["type"] == "RollingUpdate"
    return Spec(
        generation=found["metadata"]["generation"],
        image=spec["template"]["spec"]["containers"][0]["image"],
        rolling=on,
        partition=rolling.get("partition") if on else None,
        canaries_only=on and rolling.get("selector") is not None,
        paused=on and bool(rolling.get("paused")),
        max_unavailable=rolling.get("maxUnavailable"),
        max_surge=surge if on else None,
        min_ready=spec.get("minReadySeconds") or 0,
        burst=spec.get("burstReplicas"),
        hook=bool((spec.get("lifecycle") or {}).get("preDelete")),
        partitioned_scaling=bool((spec.get("scaleStrategy") or {}).get("partitionedScaling")),
        steps=tuple(rolling.get("steps") or ()) if on else (),
        topology=rolling.get("topology") if on else None,
        ordered=on and bool(rolling.get("order")),
        leave_out=(rolling.get("unreachableNodes") or {}).get("leaveOut") if on else None,
        action=(rolling.get("onFailure") or {}).get("action", "") if on else "",
        checks=on and bool(rolling.get("checks")),
        record=status.get("rollout") or {},
        revision=status.get("updateRevision") or "",
        notes=found["metadata"].get("annotations") or {},
    )


def share(value: Number, total: int, *, up: bool) -> int:
    """A number of nodes, or a percentage of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    hundredths = int(value.rstrip("%")) * total
    return (hundredths + 99) // 100 if up else hundredths // 100


@dataclass(frozen=True)
class Gone:
    """The pod that was there last, on a node that has none."""

    image: str
    surely_known: bool
    """Whether the controller must remember it: it has seen the pod, and the pod go, without a restart since."""
    earlier: frozenset[str] = frozenset()
    """Images of those before: it may remember one of these where it did not see the last one."""


@dataclass(frozen=True)
class State:
    at: float
    """Seconds since 1970."""
    spec: Spec
    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    """By uid."""
    older: tuple[str, ...]
    """Images of the revisions other than the current one that are stored and were rolled out, newest first."""
    gone: Mapping[str, Gone]
    """By node."""
    life_began: float
    """When the controller process was started."""
    slack: float
    """Seconds by which the news of a pod may have been late."""
    sure: bool = True
    """Whether the controller has been told of all these pods: no write of its own went unanswered and unheard."""
    stored: bool | None = True
    """Whether the controller knows the current revision to be stored."""
    unstored: bool = False
    """Whether there were pods of a first deployment before any revision could be stored: their
    revision is unknown."""
    perhaps_older: frozenset[str] = frozenset()
    """Images of stored revisions of which the controller may or may not know that a pod had them."""
    clock_set: bool = False
    """Whether the controller's clock was ever set back: by that every pod becomes ready in the future."""

    # nodes

    @property
    def eligible(self) -> list[str]:
        """By name."""
        return sorted(name for name in self.nodes if self.runs(self.spec.image, name))

    @property
    def desired(self) -> int:
        return len(self.eligible)

    def selected(self, node: str) -> bool:
        return not self.spec.canaries_only or self.nodes[node].canary

    def leaves(self, node: str) -> bool:
        """Whether no daemon pod may be there."""
        return "NoExecute" in self.nodes[node].effects or not self.placed(self.spec.image, node)

    def placed(self, image: str, node: str) -> bool:
        """Whether the template with that image chooses the node."""
        return image != CHOOSY or self.nodes[node].canary

    def runs(self, image: str, node: str) -> bool:
        return self.placed(image, node) and not self.nodes[node].effects

    # pods

    def on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def live(self, node: str) -> list[Pod]:
        return [pod for pod in self.on(node) if pod.live]

    def is_current(self, pod: Pod) -> bool:
        return pod.image == self.spec.image

    def current(self, node: str) -> list[Pod]:
        return [pod for pod in self.live(node) if self.is_current(pod)]

    def old(self, node: str) -> list[Pod]:
        return [pod for pod in self.live(node) if not self.is_current(pod)]

    def available(self, pod: Pod) -> bool | None:
        """None: the node's clock is ahead of the controller's, and what counts is when the controller saw the pod
        ready, some time after the whole second that it says."""
        if not pod.live or not pod.ready or pod.held:
            return False
        if not self.spec.min_ready:
            return True
        wait = self.spec.min_ready
        if pod.since <= pod.told and not self.clock_set:
            return pod.since + wait < self.at
        if (least := min(pod.since, pod.told) + wait) >= self.at:  # a pod's creation is told by the second
            return None if pod.told < self.life_began or least < self.at + 1.0 else False
        return True if max(pod.told, self.life_began) + self.slack + wait < self.at else None

    def served(self, node: str) -> bool | None:
        """Whether an available pod is there."""
        answers = [self.available(pod) for pod in self.live(node)]
        return True if True in answers else None if None in answers else False

    def down(self) -> set[str]:
        """Eligible nodes that surely count against maxUnavailable: no pod serves, or it is unreachable."""
        silent_or_idle = {
            node for node in self.eligible if self.nodes[node].unreachable or self.served(node) is False
        }
        return {node for node in silent_or_idle - self.left_out() if not self.may_stay_empty(node)}

    def left_out(self) -> set[str]:
        """Unreachable nodes that are not waited for."""
        silent = {node for node in self.eligible if self.nodes[node].unreachable}
        return silent if len(silent) <= share(self.spec.leave_out, self.desired, up=False) else set()

    # limits

    @property
    def max_surge(self) -> int:
        return share(self.spec.max_surge, max(self.desired, 1), up=True)

    @property
    def max_unavailable(self) -> int:
        most = share(self.spec.max_unavailable, self.desired, up=True)
        return most or (0 if self.max_surge else 1)

    @property
    def partition(self) -> int:
        return share(self.spec.partition, self.desired, up=False)

    @property
    def quota(self) -> int:
        """How many nodes may hold the current revision."""
        return max(self.desired - self.partition, 0)

    @property
    def burst(self) -> int:
        return max(share(self.spec.burst, self.desired, up=False), 1)

    @property
    def progressive(self) -> bool:
        return self.spec.partitioned_scaling and self.spec.rolling and self.partition > 0

    # who may hold the current revision

    def holders(self) -> set[str]:
        return {node for node in self.eligible if self.current(node)}

    def had_current(self, node: str) -> bool | None:
        """Whether it had a current pod before, which is on its way out, has ended, or is gone.

        Perhaps, where an old one lives beside it: the template went back to what was just replaced.
        """
        there = self.on(node)
        images = {pod.image for pod in there if not pod.live}
        if self.spec.image in images:
            return None if self.old(node) or len(images) > 1 or node in self.gone else True
        gone = self.gone.get(node)
        if gone is None or gone.image != self.spec.image:
            return False
        return True if gone.surely_known and not there else None

    def had_one(self, node: str) -> bool | None:
        """Whether a daemon pod is there or was there before."""
        gone = self.gone.get(node)
        if self.on(node) or (gone is not None and gone.surely_known):
            return True
        return False if gone is None else None

    def incomplete(self) -> bool | None:
        """Whether some node still has, or last had, a pod of an older revision."""
        answer: bool | None = False
        for node in self.eligible:
            if self.current(node):
                continue
            there = self.on(node)
            if any(not self.is_current(pod) for pod in there):
                return True
            gone = self.gone.get(node)
            if gone is not None and gone.image != self.spec.image and not there:
                if gone.surely_known:
                    return True
                answer = None
        return answer

    def may_hold_current(self, node: str) -> bool | None:
        """Nodes that have it, then nodes that had it, then selected ones, each by name descending, up to the quota.

        While an incomplete rollout is paused only the first two; whether the quota cuts these then, is left open.
        """
        if not self.spec.rolling or not self.older:
            return True
        if self.spec.progressive:
            return None
        if node in self.holders():
            return None if len(self.holders()) > self.quota else True
        had = self.had_current(node)
        frozen = self.incomplete() if self.spec.paused else False
        least, most = len(self.holders()), len(self.holders())
        for other in self.eligible:
            if other != node and other not in self.holders():
                surely, perhaps = self._before(other, node)
                least += surely
                most += perhaps
        if had is False and (frozen or not self.selected(node)):
            return False
        if least >= self.quota:
            return None if frozen is not False else False
        in_line = had or (frozen is False and self.selected(node))
        return True if in_line and most < self.quota else None

    def may_get_current(self, node: str) -> bool | None:
        """The same of an empty node: while only older revisions are stored, it gets one of those."""
        may_hold = self.may_hold_current(node)
        if self.stored or not self.older or may_hold is False:
            return may_hold
        return self.stored

    def _before(self, other: str, node: str) -> tuple[bool, bool]:
        """Whether `other` surely, and whether it perhaps comes before `node`; neither has the current revision."""
        answers = set()
        for mine in self._answers(node):
            for theirs in self._answers(other):
                waits = theirs or self.selected(other)
                answers.add(waits and (not theirs, _descending(other)) < (not mine, _descending(node)))
        return all(answers), any(answers)

    def _answers(self, node: str) -> Iterator[bool]:
        had = self.had_current(node)
        yield from (True, False) if had is None else (had,)

    # what a node gets that may not hold the current revision

    def promised(self, node: str) -> set[str]:
        """Images of which one is right: that of the last pod where it is known and stored, else the usual one."""
        answers: set[str] = {*self.older, self.spec.image} if self.spec.progressive else set()
        for image in self._last(node):
            answers |= {image} if image in self.older or (image == self.spec.image and self.stored) else self._usual()
        return answers

    def may_stay_empty(self, node: str) -> bool:
        """Whether it has no pod, and perhaps the older revision that it would get does not run there."""
        if self.on(node) or not self.older or self.may_hold_current(node):
            return False
        return not all(self.runs(image, node) for image in self.promised(node))

    def _last(self, node: str) -> set[str | None]:
        """Images that the last pod may have had, as far as the controller may know; None: it does not know."""
        gone = self.gone.get(node)
        found: set[str | None] = {pod.image for pod in self.on(node) if not pod.live}
        if gone is not None:
            found.add(gone.image)
            found |= set() if gone.surely_known else {None, *gone.earlier}
        return found or {None}

    def _usual(self) -> set[str]:
        if not self.older:
            return {self.spec.image}
        if not self.sure or self.stored is None:
            return {*self.older, self.spec.image}
        if len(self.holders()) > self.quota and self.stored:
            return {self.spec.image}
        alive = [pod.image for pod in self.pods.values() if pod.live]
        return {max(self.older, key=alive.count)}

    def table(self) -> str:
        """For a person: one line a node."""
        names = sorted({*self.nodes, *(pod.node for pod in self.pods.values())})
        lines = [f"    {self.spec}"]
        for name in names:
            pods = "; ".join(map(str, self.on(name))) or "no pod"
            lines.append(f"    {self.nodes.get(name) or f'{name} (gone)'}: {pods}")
        return "\n".join(lines)


def _descending(name: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in name)
