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
        words = [f"{count} {_words(name)}" for name, count in self.done.most_common()]
        return f"{self.done.total()} writes ({', '.join(words)}), {self.refused} refused"


PAST = {"create": "created", "delete": "deleted", "patch": "patched", "update": "updated"}


def _words(name: str) -> str:
    verb, resource = name.split(" ")
    noun = {"daemonsets.apps.kruise.io/status": "status", "controllerrevisions.apps": "revisions"}.get(resource, resource)
    return f"{noun} {PAST.get(verb, verb)}"
