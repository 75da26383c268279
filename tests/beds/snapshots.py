"""Snapshots in one line, from the worlds of `tests.beds.worlds`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controller.api.containers import KIND_OF, PodProblem
from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.pod import Pod
from controller.planner.world import World
from kubectl_plugin.rollout.nodes import failure_of
from kubectl_plugin.rollout.snapshot import Container, PodDetail, RevisionDetail, Snapshot
from tests.beds.worlds import NOW, ago, world


def container(name: str = "main", **fields: Any) -> Container:
    """One that runs and is ready."""
    return Container(
        name=name,
        ready=fields.pop("ready", True),
        restarts=fields.pop("restarts", 0),
        waiting=fields.pop("waiting", ""),
        message=fields.pop("message", ""),
        exit_code=fields.pop("exit_code", None),
        ended=fields.pop("ended", ""),
        **fields,
    )


def crashing() -> Container:
    return container(ready=False, waiting="CrashLoopBackOff", restarts=3, exit_code=1, ended="Error")


def detail(pod: Pod, *containers: Container, **fields: Any) -> PodDetail:
    """What ails it is in its containers, and by the pod itself as the controller reads it."""
    made = PodDetail(pod=pod, containers=containers or (container(ready=pod.ready),), **fields)
    failure = failure_of(made)
    if failure is None or pod.ready or pod.problem is not None:
        return made
    return msgspec.structs.replace(
        made, pod=msgspec.structs.replace(pod, problem=KIND_OF.get(failure.reason, PodProblem.OTHER))
    )


def observed(daemonset: DaemonSet, **fields: Any) -> DaemonSet:
    """With a status that has seen this generation."""
    return msgspec.structs.replace(
        daemonset, status=DaemonSetStatus(observed_generation=daemonset.generation, **fields)
    )


def of_world(
    around: World, details: Mapping[str, PodDetail] | None = None, *, nodes_readable: bool = True
) -> Snapshot:
    """What would be read of this world; `details` by node name in place of plain running containers."""
    return Snapshot(
        daemonset=around.daemonset,
        document={"metadata": {"name": around.daemonset.name, "namespace": around.daemonset.namespace}},
        owners=(),
        revisions=tuple(
            RevisionDetail(revision=one, created=ago(600 * place), change_cause="")
            for place, one in enumerate(sorted(around.revisions, key=lambda one: -one.number), start=1)
        ),
        pods=tuple((details or {}).get(pod.node) or detail(pod) for pod in around.pods),
        nodes=around.nodes if nodes_readable else None,
        now=NOW,
    )


def snapshot(
    daemonset: DaemonSet,
    *,
    pods: Iterable[Pod] = (),
    details: Mapping[str, PodDetail] | None = None,
    unasked: Iterable[str] = (),
    **fields: Any,
) -> Snapshot:
    found = of_world(world(observed(daemonset), pods=pods, **fields), details)
    return msgspec.structs.replace(found, unasked=frozenset(unasked))
