"""How a node treats its pods, as data. All durations are seconds of the loop's time; None means never.

Variations are made with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    start: float | None = 0.0
    """From all images there to Running."""
    ready: float | None = 0.0
    """From Running to ready."""
    terminate: float | None = 0.0
    """From the deletion until the pod is gone, at most its grace period. None hangs beyond that."""
    reject: str = ""
    """The kubelet does not admit the pods: phase Failed with this reason (`OutOfcpu`, `NodeAffinity` …)."""
    crash: float | None = None
    """From Running until the container exits with 1; it is started again after `back_off`."""
    back_off: float = 10.0
    fail: float | None = None
    """From Running until the whole pod is Failed."""
    succeed: float | None = None
    """From Running until the whole pod is Succeeded."""
    dead: bool = False
    """The node does nothing at all, and its heart does not beat."""

    def pull_seconds(self, image: str) -> float | None:
        """How long it takes to pull `image`; None: it cannot be pulled."""
        if any(fnmatchcase(image, pattern) for pattern in self.missing_images):
            return None
        return next((time for pattern, time in self.pulls.items() if fnmatchcase(image, pattern)), self.pull)


INSTANT = Behaviour()
MANUAL = Behaviour(start=None, ready=None, terminate=None)
"""Nothing happens by itself: a test moves each pod (`nodes.ready(pod)` and so on)."""
DEAD = Behaviour(dead=True)
LIFELIKE = Behaviour(pull=1.0, start=0.5, ready=1.5, terminate=1.0)
"""Slow enough for a person to see what happens."""
