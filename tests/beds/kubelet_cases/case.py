"""What a case is, and what its plays ask of a pod."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.beds.api import Object
from tests.beds.objects import condition, is_ready
from tests.beds.watched_pod import WatchedPod, state_of

REPOSITORY = "registry.test/kubelet"
PORT = 8080
PROBE = {"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 1, "timeoutSeconds": 10}
MISSING, CRASHING, ALIAS, SAME, SLOW = "missing", "crashing", "alias", "v2", "slow"
"""Tags: nobody has it; its program ends with 1; it is the same image as `v2`; it takes some seconds to pull."""


def image(tag: str) -> str:
    return f"{REPOSITORY}:{tag}"


@dataclass(frozen=True)
class Case:
    """A pod with image v1, and what a test does to it."""

    play: Callable[[WatchedPod], Awaitable[None]]
    container: Object = field(default_factory=dict)
    spec: Object = field(default_factory=dict)
    stops: float | None = 0.0
    """Seconds that its program takes to end; None: for ever, unless it is killed."""
    own_cpus: bool = False
    """Its kubelet gives some pods processors of their own: the CPU manager's policy is static."""

    def pod(self, node: str) -> Object:
        agent = {"name": "agent", "image": image("v1"), **self.container}
        stops = {"IGNORES_SIGTERM": "1"} if self.stops is None else {"STOP_SECONDS": f"{self.stops:.0f}"}
        if self.stops != 0.0:
            agent["env"] = [{"name": name, "value": value} for name, value in stops.items()]
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [agent], **self.spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": spec}


Holds: TypeAlias = Callable[[Object], bool]


def another(before: Object, name: str = "agent") -> Holds:
    """A new container runs and is ready."""
    return lambda found: (
        "running" in state_of(found, name)["state"]
        and state_of(found, name)["containerID"] != state_of(before, name)["containerID"]
        and is_ready(found)
    )


def observed(found: Object) -> bool:
    return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])


def waits_with(*reasons: str) -> Holds:
    return lambda found: state_of(found)["state"].get("waiting", {}).get("reason") in reasons


def since(found: Object) -> str:
    return str(condition(found, "Ready")["lastTransitionTime"])
