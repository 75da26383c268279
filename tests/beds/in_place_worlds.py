"""Pods and DaemonSets of worlds in which pods are updated in place."""

from __future__ import annotations

from math import inf
from typing import Any

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.in_place import Resize, UpdateInProgress
from controller.api.names import IN_PLACE_GRACE_ANNOTATION, IN_PLACE_IF_POSSIBLE, IN_PLACE_UPDATE_READY
from controller.api.pod import Pod
from controller.api.readiness_gates import ReadinessGate
from controller.inplace.change import InPlaceChange
from controller.planner.world import World
from tests.beds.worlds import ds, world

BY_IMAGE = InPlaceChange(images={"main": "demo:v2"})
BY_LABEL = InPlaceChange(labels={"team": "x"})
BY_RESIZE = InPlaceChange(resources={"main": {"requests": {"cpu": "1"}}})

RESTARTING = UpdateInProgress(until=inf, restarting=("main",), not_started=True)
CONTINUES = UpdateInProgress(until=inf, has_next_batch=True)
REVERTED = UpdateInProgress(until=inf, reverted_to="v1")
WANTED = UpdateInProgress(until=inf, resize=Resize.PROPOSED)
RESIZING = UpdateInProgress(until=inf, resize=Resize.IN_PROGRESS)
DEFERRED = UpdateInProgress(until=inf, resize=Resize.DEFERRED)
REFUSED = UpdateInProgress(until=inf, resize=Resize.INFEASIBLE, problem="no room")


def in_place(rev: str = "v2", *, grace: int = 0, annotations: dict[str, str] | None = None, **spec: Any) -> DaemonSet:
    told = {**(annotations or {}), **({IN_PLACE_GRACE_ANNOTATION: str(grace)} if grace else {})}
    return ds(rev, rolling_update_type=IN_PLACE_IF_POSSIBLE, annotations=told, **spec)


def gate(
    *, open_: bool = True, draining: bool = False, since: float | None = None, present: bool = True
) -> ReadinessGate:
    return ReadinessGate(
        type=IN_PLACE_UPDATE_READY,
        open=open_ and not draining,
        present=present,
        index=0,
        since=since,
        draining=draining,
    )


def gated(one: Pod, *, in_progress: UpdateInProgress | None = None, **how: Any) -> Pod:
    """With our readiness gate, of which it depends whether it is ready."""
    own = gate(**how)
    ready = one.ready and own.open and not (in_progress is not None and in_progress.not_started)
    since = one.ready_since if ready else None
    drained = own.draining and one.ready and in_progress is None
    return replace(
        one, gates=(own,), in_progress=in_progress, ready=ready, ready_since=since, drained_for_update=drained
    )


def changing(daemonset: DaemonSet | None = None, *, change: Any = BY_IMAGE, **fields: Any) -> World:
    """A world in which v1 becomes v2 by `change`."""
    return world(daemonset or in_place(), changes={"v1": change}, **fields)
