"""What users may wish."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tests.beds.api import Object
from tests.beds.objects import V1, daemonset
from tests.simulation.scene import CANARY, CHOOSY, GUARD, ZONE, Number

LIMITS: tuple[dict[str, Number], ...] = (
    {"maxUnavailable": 1},
    {"maxUnavailable": 2},
    {"maxUnavailable": "50%"},
    {},
    {"maxSurge": 1, "maxUnavailable": 0},
    {"maxSurge": "50%", "maxUnavailable": 0},
)


STEPS: tuple[list[Object] | None, ...] = (
    None,
    [{"nodes": 1, "soak": "5s"}, {"nodes": 1, "soak": "20s"}, {"nodes": "50%"}, {"nodes": "100%"}],
    [{"nodes": 1, "soak": "30s", "approval": "Required"}, {"nodes": "100%"}],
    [{"nodes": 2}, {"nodes": "100%", "soak": "10s"}],
)
CHECKS: list[Object] = [{"name": "errors", "query": 'errors{revision="$revision"}'}]
ORDERS: tuple[list[Object] | None, ...] = (None, [{"matchLabels": CANARY}], [{"groupBy": ZONE}])
TOPOLOGIES: tuple[Object | None, ...] = (
    None,
    {"key": ZONE, "maxDomains": 1},
    {"key": ZONE, "maxUnavailable": 1},
    {"key": ZONE, "maxDomains": 1, "maxUnavailable": "50%"},
)


@dataclass(frozen=True)
class Wish:
    """The part of the spec that users edit; always one that the CRD's rules accept."""

    image: str = V1
    rolling: bool = True
    kind: str = "Standard"
    limits: int = 0
    partition: Number = None
    canaries_only: bool = False
    paused: bool = False
    min_ready: int = 0
    burst: Number = 250
    history: int = 10
    partitioned_scaling: bool | None = None
    hook: str = ""
    """`plain`, or `marks` where it makes pods not ready too; empty is none."""
    steps: int = 0
    order: int = 0
    topology: int = 0
    leave_out: Number = None
    action: str = ""
    """Of onFailure; empty: nothing is a failure."""
    checks: bool = False
    """Whether steps wait for Prometheus."""

    def strategy(self) -> Object:
        limits = dict(LIMITS[self.limits])
        if self.kind == "Surging":
            limits.pop("maxUnavailable", None)
        if self.kind == "InPlaceIfPossible" and "maxSurge" in limits:
            limits = {"maxUnavailable": 1}
        rolling: dict[str, Any] = {"maxUnavailable": None, "maxSurge": None, **limits}
        rolling |= {"rollingUpdateType": self.kind, "partition": self.partition, "paused": self.paused or None}
        rolling["selector"] = {"matchLabels": CANARY} if self.canaries_only else None
        rolling |= {"steps": STEPS[self.steps], "order": ORDERS[self.order], "topology": TOPOLOGIES[self.topology]}
        rolling["unreachableNodes"] = None if self.leave_out is None else {"leaveOut": self.leave_out}
        failure = {"unavailableNodes": 1, "after": "20s", "restarts": 3, "action": self.action}
        rolling["onFailure"] = failure if self.action else None
        rolling["checks"] = CHECKS if self.checks and STEPS[self.steps] else None
        return {"type": "RollingUpdate" if self.rolling else "OnDelete", "rollingUpdate": rolling}

    def spec(self) -> Object:
        """As a merge patch."""
        new: Object = daemonset(image=self.image)["spec"]
        new["template"]["spec"]["nodeSelector"] = CANARY if self.image == CHOOSY else None
        scale = {"partitionedScaling": self.partitioned_scaling}
        more: Object = {
            "revisionHistoryLimit": self.history,
            "minReadySeconds": self.min_ready,
            "burstReplicas": self.burst,
            "scaleStrategy": scale,
        }
        new["template"]["metadata"] = {"labels": {**new["selector"]["matchLabels"], **GUARD}}
        asked = {"labelsHandler": GUARD, "markPodNotReady": self.hook == "marks"}
        more["lifecycle"] = {"preDelete": asked} if self.hook else None
        return {"template": new["template"], "updateStrategy": self.strategy(), **more}


def without_none(found: Object) -> Object:
    rolling = {key: value for key, value in found["rollingUpdate"].items() if value is not None}
    return {**found, "rollingUpdate": rolling}


def changed(before: Wish, after: Wish) -> str:
    """For the story."""
    old = asdict(before)
    return ", ".join(f"{key} = {value}" for key, value in asdict(after).items() if value != old[key]) or "nothing"
