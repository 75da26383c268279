"""How a node treats its pods, as data; where a pod stands, and what its node does next: a function of the pod as the
API shows it. Nothing is remembered but the moment when the stage began, so stand-ins may be stopped and started at
will.

All durations are seconds of the loop's time; None means never. Variations are made with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tests.beds import objects
from tests.beds.api import Object
from tests.beds.nodes import statuses
from tests.beds.nodes.statuses import bits, is_running, is_there, lasting


@dataclass(frozen=True)
class Behaviour:
    """The default: pods run and are ready at once, and go at once when they are deleted."""

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


@dataclass(frozen=True)
class Step:
    """What comes next, `after` seconds from the beginning of the stage."""

    after: float
    status: Callable[[Object, str], Object] | None
    """Makes the new status of the pod from the pod and the time; None: the pod goes."""


def stage_of(pod: Object) -> str:
    """new, waiting, changed, crashed, running, gated, ready, ended or terminating."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return "terminating"
    if status.get("phase") in ("Failed", "Succeeded"):
        return "ended"
    states = status.get("containerStatuses") or []
    if not states:
        return "new"
    if status.get("phase") != "Running":
        return f"waiting for {_images(pod)}"
    if status.get("observedGeneration", 0) != metadata.get("generation", 0):
        return "changed"
    if not all(is_running(state) for state in states):
        return "crashed"
    if not all(state.get("ready") for state in states):
        return "running"
    return "ready" if _ready_is_right(pod) else "gated"


def next_step(pod: Object, stage: str, behaviour: Behaviour, there: frozenset[str] = frozenset()) -> Step | None:
    """What happens next without interference; `there` are the images that the node has already."""
    if behaviour.dead or stage in ("ended", "changed"):  # what has changed is for the pod's worker
        return None
    if stage == "terminating":
        return _farewell(pod, behaviour)
    if stage in ("running", "gated", "ready"):
        return _earliest(_running_steps(pod, stage, behaviour, there))
    if stage == "crashed":
        return _starting(pod, behaviour, there, behaviour.back_off)
    return _arrival(pod, stage, behaviour, there)


def _arrival(pod: Object, stage: str, behaviour: Behaviour, there: frozenset[str]) -> Step | None:
    if behaviour.reject:
        words = f"Pod was rejected: {behaviour.reject}"
        return Step(0.0, lambda pod, now: statuses.ended(pod, "Failed", behaviour.reject, words, now))
    pulling = 0.0
    for image in _images(pod):
        seconds = 0.0 if is_there(image, there) else behaviour.pull_seconds(image)
        if seconds is None:
            return None if stage.startswith("waiting") else _no_image(image, behaviour)
        pulling += seconds
    return _starting(pod, behaviour, there, pulling)


def _no_image(image: str, behaviour: Behaviour) -> Step:
    words = f'Failed to pull image "{image}": {behaviour.registry}'
    return Step(behaviour.pull, lambda pod, now: statuses.not_started(pod, "ErrImagePull", words, now))


def _starting(pod: Object, behaviour: Behaviour, there: frozenset[str], after: float) -> Step | None:
    if behaviour.start is None:
        return None
    ready = behaviour.ready == 0.0 and behaviour.gets_ready(_images(pod))
    return Step(after + behaviour.start, _running(behaviour, there, ready=ready))


def _running(behaviour: Behaviour, there: frozenset[str], *, ready: bool = True) -> Callable[[Object, str], Object]:
    return lambda pod, now: statuses.running(pod, now, ready=ready, aliases=bits(pod, behaviour.aliases, there))


def _running_steps(pod: Object, stage: str, behaviour: Behaviour, there: frozenset[str]) -> list[Step]:
    steps = []
    if stage == "running" and behaviour.ready is not None and behaviour.gets_ready(_images(pod)):
        steps.append(Step(behaviour.ready, _running(behaviour, there)))
    if stage == "gated":
        steps.append(Step(behaviour.gate, _running(behaviour, there)))
    if behaviour.crash is not None:
        steps.append(Step(behaviour.crash, statuses.crashed))
    if behaviour.fail is not None:
        steps.append(Step(behaviour.fail, lambda pod, now: statuses.ended(pod, "Failed", "", "", now)))
    return steps


def _earliest(steps: list[Step]) -> Step | None:
    return min(steps, key=lambda step: step.after) if steps else None


def _farewell(pod: Object, behaviour: Behaviour) -> Step | None:
    grace = pod["metadata"].get("deletionGracePeriodSeconds")
    if behaviour.terminate is None or grace == 0:  # with 0 the node has let it go, and finalizers hold it
        return None
    return Step(behaviour.terminate if grace is None else min(behaviour.terminate, float(grace)), None)


def _ready_is_right(pod: Object) -> bool:
    """No readiness gate has opened or closed since Ready was written."""
    return (objects.condition(pod, "Ready").get("status") == "True") == statuses.gates_open(pod)


def _images(pod: Object) -> list[str]:
    return [container["image"] for container in lasting(pod)]
