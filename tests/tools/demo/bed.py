"""What the story needs of a cluster, whichever it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controller.kube.request import Transport


@dataclass(frozen=True)
class DemoCluster:
    title: str
    transport: Transport
    """May do everything."""
    folder: Path
    """For logs; gone with the bed."""
    controller_kubeconfig: Path
    """What the controller is given."""
    has_scheduler: bool
    controller_writes: Callable[[], Writes]


@dataclass(frozen=True)
class Writes:
    """The controller's writes as the server saw them. Dry runs are none."""

    done: Counter[str]
    """By verb and resource, such as `create pods`."""
    refused: int

    def __str__(self) -> str:
        known = [name for name in WORDS if name in self.done]
        names = known + sorted(self.done.keys() - WORDS.keys())
        return ", ".join(f"{self.done[name]} {WORDS.get(name, name)}" for name in names)


WORDS = {
    "create pods": "pods created",
    "delete pods": "deleted",
    "create controllerrevisions.apps": "revisions",
    "patch daemonsets.apps.kruise.io/status": "statuses",
    "create events": "events",
    "patch events": "events repeated",
}
"""In the order in which they are told."""
