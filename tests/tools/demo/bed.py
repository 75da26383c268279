"""What the story needs of a cluster, whichever it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from controller.kube.requests import Transport


@dataclass(frozen=True)
class DemoCluster:
    title: str
    transport: Transport
    """May do everything."""
    folder: Path
    """For logs; gone with the bed."""
    controller_kubeconfig: Path
    """What the controller is given."""
    kubeconfig: Path
    """What a person has."""
    has_scheduler: bool
    controller_writes: Callable[[], Writes]


@dataclass(frozen=True)
class Writes:
    """The controller's writes as the server saw them. Dry runs are none."""

    done: Counter[str]
    """By verb and resource, such as `create pods`."""
    overtaken: int
    """Guarded writes that another client's came before, a kubelet's or a user's: they are looked at again."""
    refused: Counter[str]
    """By verb, resource and the answer's code."""

    @classmethod
    def of(cls, answers: Iterable[tuple[str, int]]) -> Writes:
        """Each write by verb and resource, and the code that it was answered with."""
        counted = Counter(answers)
        done = Counter({what: 0 for what, _ in counted})
        overtaken, refused = 0, Counter[str]()
        for (what, code), number in counted.items():
            if 200 <= code < 300:
                done[what] += number
            elif code == 409 and not what.startswith("create "):
                overtaken += number
            else:
                refused[f"{what}: {code}"] += number
        return cls(+done, overtaken, refused)

    def __str__(self) -> str:
        known = [name for name in WORDS if name in self.done]
        names = known + sorted(self.done.keys() - WORDS.keys())
        return ", ".join(f"{self.done[name]} {WORDS.get(name, name)}" for name in names)


WORDS = {
    "create pods": "pods created",
    "delete pods": "deleted",
    "patch pods": "changes of pods",
    "patch pods/status": "readiness gates",
    "create controllerrevisions.apps": "revisions",
    "patch controllerrevisions.apps": "changes of revisions",
    "patch daemonsets.apps.kruise.io/status": "statuses",
    "create events": "events",
    "patch events": "events repeated",
}
"""In the order in which they are shown."""
