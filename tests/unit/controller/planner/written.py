"""Worlds in each of the phases once the controller has written its status there, and what that says."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, OnFailure, Phase, RolloutStep
from controller.api.objects import rfc3339
from controller.planner.plan import plan
from controller.planner.world import World
from controller.reconcile.status_writer import due_status
from tests.beds.api import Object
from tests.beds.kstatus import DEGRADED, SUSPENDED, UNKNOWN
from tests.beds.manifests import MANIFESTS
from tests.beds.worlds import NOW, at


def looked_at(found: World) -> World:
    """The same world once the controller has written the status that it wants there."""
    decided = plan(found)
    assert decided.status is not None
    daemonset = found.daemonset
    change = due_status(daemonset, decided.status, (daemonset.version, daemonset.status), found.now)
    if change is None:
        return found
    return replace(found, daemonset=replace(found.daemonset, status=change.result))


def shown(daemonset: DaemonSet) -> Object:
    """As the API server shows it, as far as it matters here."""
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


PAGE = (MANIFESTS.parent / "docs" / "conditions.md").read_text()
SECTION = PAGE[PAGE.index("## Argo CD") :]
TOLD = {
    phase: (theirs, ours) for phase, theirs, ours in re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", SECTION, re.M)
}
(SCRIPT,) = re.findall(r"_DaemonSet: \|\n(.*?)```", SECTION, re.DOTALL)


def walking(**step: str) -> World:
    """The first of two steps is reached."""
    return looked_at(at("v1 v1 v2", rolling={"steps": (RolloutStep(nodes=1, **step), RolloutStep())}))


HEALTHY = looked_at(at("v1 v1 v1", "v1"))
IN_PHASE = {
    Phase.PENDING: looked_at(at("- - -", "v1", generation=2)),
    Phase.PROGRESSING: looked_at(at("v1 v1 v2!")),
    Phase.SOAKING: walking(soak="24h"),
    Phase.AWAITING_APPROVAL: walking(approval="Required"),
    Phase.HELD: looked_at(at("v1 v1 v1", partition=3)),
    Phase.PAUSED: looked_at(at("v1 v1 v1", paused=True)),
    Phase.ABORTED: looked_at(
        replace(looked_at(at("v1 v1 v2!", rolling={"on_failure": OnFailure(unavailable_nodes=1)})), now=NOW + 301)
    ),
    Phase.STALLED: late(at("v1 v1 v2!")),
    Phase.MANUAL: looked_at(at("v1 v1 v1", on_delete=True)),
    Phase.DEGRADED: looked_at(replace(HEALTHY, pods=(*HEALTHY.pods[:-1], replace(HEALTHY.pods[-1], ready=False)))),
    Phase.HEALTHY: HEALTHY,
    Phase.TERMINATING: replace(HEALTHY, daemonset=replace(HEALTHY.daemonset, terminating=True)),
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
    "healthy, a partition stays": (at("v1 v1 v1", "v1", partition=3), SUSPENDED),
    "the same in percent": (at("v1 v1 v1", "v1", partition="50%"), UNKNOWN),
    "none in percent": (at("v1 v1 v1", "v1", partition="0%"), UNKNOWN),
    "no pod is available": (at("v1! v1!", "v1"), DEGRADED),
}
"""Those of the script that Argo CD ships to which no phase alone leads, and what it says there."""
