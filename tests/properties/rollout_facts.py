"""Pods, nodes and the DaemonSet as the laws see them: read from the server's JSON, by nothing of the controller's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from tests.beds.api import Object
from tests.beds.objects import V3, controller_of, image_of, node_of

CANARY = {"track": "canary"}
CHOOSY = V3
"""The image whose template runs on canaries only."""
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
        held=marked or labels.get("lifecycle.apps.kruise.io/state") == "PreparingDelete",
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
    )


def share(value: Number, total: int, *, up: bool) -> int:
    """A number of nodes, or a percentage of `total`."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    hundredths = int(value.rstrip("%")) * total
    return (hundredths + 99) // 100 if up else hundredths // 100
