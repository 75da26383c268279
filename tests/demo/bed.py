"""What the story needs of a cluster, whichever it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controller.kube.request import Transport


@dataclass(frozen=True)
class Bed:
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
        return ", ".join(f"{count} {WORDS.get(name, name)}" for name, count in self.done.most_common())


WORDS = {
    "create pods": "pods created",
    "delete pods": "pods deleted",
    "patch daemonsets.apps.kruise.io/status": "statuses",
    "create events": "events",
    "patch events": "events again",
    "create controllerrevisions.apps": "revisions",
}
