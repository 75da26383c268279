"""Where a pod stands, and what its node does next: a function of the pod as the API shows it.

Nothing is remembered but the moment when the stage began, so stand-ins may be stopped and started at will.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.beds import pods
from tests.beds.nodes import statuses
from tests.beds.nodes.behaviour import Behaviour
from tests.beds.nodes.containers import bits, is_running, is_there, lasting

Object: TypeAlias = dict[str, Any]


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
    """What happens next if nobody interferes; `there` are the images that the node has already."""
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
    if behaviour.succeed is not None:
        steps.append(Step(behaviour.succeed, lambda pod, now: statuses.ended(pod, "Succeeded", "", "", now)))
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
    return (pods.condition(pod, "Ready").get("status") == "True") == statuses.gates_open(pod)


def _images(pod: Object) -> list[str]:
    return [container["image"] for container in lasting(pod)]
