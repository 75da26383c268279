"""Worlds in each of the nine phases once the controller has written its status there, and what that says."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, Phase
from controller.api.objects import rfc3339
from controller.planner.plan import plan
from controller.planner.world import World
from controller.reconcile.status_writer import OwnStatus, due_status
from tests.beds.api import Object
from tests.beds.kstatus import DEGRADED, SUSPENDED, UNKNOWN
from tests.beds.manifests import MANIFESTS
from tests.beds.worlds import NOW, ds, everywhere, pod, world

BETWEEN = (*everywhere(3)[:2], pod("node-2", "v2", ready=None))
"""Three nodes in the middle of an update."""


def looked_at(found: World) -> World:
    """The same world once the controller has written the status that it wants there."""
    decided = plan(found)
    assert decided.status is not None
    change = due_status(found.daemonset, decided.status, OwnStatus().latest(found.daemonset), found.now)
    if change is None:
        return found
    return replace(found, daemonset=replace(found.daemonset, status=change.result))


def shown(daemonset: DaemonSet) -> Object:
    """As the API server shows it, as far as anybody looks here."""
    metadata: Object = {"generation": daemonset.generation}
    if daemonset.terminating:
        metadata["deletionTimestamp"] = rfc3339(NOW)
    status: Object = {}
    if daemonset.status is not None:
        conditions = msgspec.to_builtins(daemonset.status.conditions)
        status = {"observedGeneration": daemonset.status.observed_generation, "conditions": conditions}
    return {"metadata": metadata, "status": status}


def late(found: World) -> World:
    return looked_at(replace(looked_at(found), now=NOW + 601))


def sick(found: World) -> World:
    """A pod gets unready after all were well."""
    done = looked_at(found)
    return looked_at(replace(done, pods=(*done.pods[:-1], replace(done.pods[-1], ready=False))))


PAGE = (MANIFESTS.parent / "docs" / "conditions.md").read_text()
SECTION = PAGE[PAGE.index("## Argo CD") :]
TOLD = {
    phase: (theirs, ours) for phase, theirs, ours in re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", SECTION, re.M)
}
(SCRIPT,) = re.findall(r"_DaemonSet: \|\n(.*?)```", SECTION, re.DOTALL)

IN_PHASE = {
    Phase.PENDING: looked_at(world(ds(generation=2), nodes=3)),
    Phase.PROGRESSING: looked_at(world(ds("v2"), nodes=3, pods=BETWEEN)),
    Phase.HELD: looked_at(world(ds("v2", partition=3), nodes=3, pods=everywhere(3))),
    Phase.PAUSED: looked_at(world(ds("v2", paused=True), nodes=3, pods=everywhere(3))),
    Phase.STALLED: late(world(ds("v2"), nodes=3, pods=BETWEEN)),
    Phase.MANUAL: looked_at(world(ds("v2", on_delete=True), nodes=3, pods=everywhere(3))),
    Phase.DEGRADED: sick(world(nodes=3, pods=everywhere(3))),
    Phase.HEALTHY: looked_at(world(nodes=3, pods=everywhere(3))),
    Phase.TERMINATING: replace(
        looked_at(world(nodes=3, pods=everywhere(3))),
        daemonset=replace(looked_at(world(nodes=3, pods=everywhere(3))).daemonset, terminating=True),
    ),
}


def conditions(of: World) -> dict[str, Object]:
    status = of.daemonset.status
    assert status is not None
    assert status.conditions is not None
    return {str(one["type"]): dict(one) for one in status.conditions}


def words(of: World, kind: str) -> tuple[str, str, str]:
    one = conditions(of)[kind]
    return one["status"], one["reason"], one["message"]


def as_read(of: World) -> Object:
    """With counts, and the strategy as the CRD completes it; edited once before, since the script that Argo CD ships
    takes the first generation for a case of its own."""
    found, status = shown(of.daemonset), of.daemonset.status
    counts = msgspec.to_builtins(status)
    conditions = [{**one, "observedGeneration": one["observedGeneration"] + 1} for one in counts["conditions"]]
    counts |= {"conditions": conditions, "observedGeneration": counts["observedGeneration"] + 1}
    metadata = {**found["metadata"], "generation": found["metadata"]["generation"] + 1}
    strategy = msgspec.to_builtins(of.daemonset.spec.update_strategy)
    strategy["rollingUpdate"] = strategy["rollingUpdate"] or {}
    return {"metadata": metadata, "spec": {"updateStrategy": strategy}, "status": counts}


BRANCHES = {
    "healthy, a partition stays": (world(ds(partition=3), nodes=3, pods=everywhere(3)), SUSPENDED),
    "the same in percent": (world(ds(partition="50%"), nodes=3, pods=everywhere(3)), UNKNOWN),
    "none in percent": (world(ds(partition="0%"), nodes=3, pods=everywhere(3)), UNKNOWN),
    "no pod is available": (world(nodes=2, pods=[pod(f"node-{n}", ready=None) for n in range(2)]), DEGRADED),
}
"""Those of the script that Argo CD ships to which no phase alone leads, and what it says there."""
