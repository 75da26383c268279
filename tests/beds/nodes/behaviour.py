"""How a node treats its pods, as data. All durations are seconds of the loop's time; None means never.

Variations are made with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Behaviour:
    """The default: pods run and are ready at once, and go at once when they are told to."""

    pull: float = 0.0
    """For the first pod of an image on a node; the image then stays there."""
    pulls: Mapping[str, float] = field(default_factory=dict)
    """Other times for images that match a pattern (`*:v2`)."""
    missing_images: tuple[str, ...] = ()
    """Patterns of images that cannot be pulled: the container waits with ErrImagePull."""
    registry: str = "not found"
    """What the registry says of a missing image."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Images that have the bits of another one: it is that one which the status names."""
    start: float | None = 0.0
    """From all images there to Running. None: by hand only, and no change of a pod is acted upon."""
    ready: float | None = 0.0
    """From Running to ready: of each new pod, and of each new container that has a readiness probe."""
    never_ready: tuple[str, ...] = ()
    """Patterns of images of which that is never so."""
    terminate: float | None = 0.0
    """From the deletion until the pod is gone, at most its grace period. None hangs beyond that.

    A container that is restarted takes as long to end, preStop included, and with None all of its grace period.
    """
    notice: float = 0.0
    """From a change of a pod's spec until its kubelet acts: 0.03 to 2 on a real node."""
    gate: float = 0.0
    """From a change of a readiness gate's condition until Ready follows: 0.05 to 1.5 on a real node."""
    probe: float = 0.5
    """From the end of a container until its readiness probe has found it out, unless the next one runs by then."""
    report: float = 0.0
    """By how much a pod's status comes late after a change of its spec: what happens meanwhile comes with it."""
    resize: float = 0.0
    """From the reservation of other resources until the container has them."""
    resizes: str = ""
    """Why resources are not changed: Deferred, which is tried again when this changes, or Infeasible."""
    memory_in_use: str = ""
    """No memory limit can be set below that: reason Error."""
    reject: str = ""
    """The kubelet does not admit the pods: phase Failed with this reason (`OutOfcpu`, `NodeAffinity` …)."""
    crash: float | None = None
    """From Running until the container exits with 1; it is started again after `back_off`."""
    crashing_images: tuple[str, ...] = ()
    """Patterns of images whose containers exit with 1 after `crash_after`, again and again, each time later."""
    crash_after: float = 0.2
    back_off: float = 10.0
    """Until the next start, at first; for `crashing_images`, and for what was restarted before, doubled each time."""
    fail: float | None = None
    """From Running until the whole pod is Failed."""
    succeed: float | None = None
    """From Running until the whole pod is Succeeded."""
    dead: bool = False
    """The node does nothing at all, and its heart does not beat."""

    def pull_seconds(self, image: str) -> float | None:
        """How long it takes to pull `image`; None: it cannot be pulled."""
        if _is_one_of(image, self.missing_images):
            return None
        return next((time for pattern, time in self.pulls.items() if fnmatchcase(image, pattern)), self.pull)

    def crashes(self, image: str) -> bool:
        return _is_one_of(image, self.crashing_images)

    def gets_ready(self, images: Iterable[str]) -> bool:
        return self.ready is not None and not any(_is_one_of(image, self.never_ready) for image in images)


def _is_one_of(image: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(image, pattern) for pattern in patterns)


INSTANT = Behaviour()
MANUAL = Behaviour(start=None, ready=None, terminate=None)
"""Nothing happens by itself: a test moves each pod (`nodes.ready(pod)` and so on)."""
DEAD = Behaviour(dead=True)
LIFELIKE = Behaviour(pull=1.0, start=0.5, ready=1.5, terminate=1.0)
"""Slow enough for a person to see what happens."""
