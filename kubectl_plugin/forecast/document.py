"""A plan as a document for programs: `apiVersion: kruise-ds/v1`, `kind: RolloutPlan`. Fields are added, never
renamed."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.api.objects import JSONObject
from kubectl_plugin.forecast.report import RolloutPlan
from kubectl_plugin.report.documents import document

KIND: Final = "RolloutPlan"


def document_of(plan: RolloutPlan) -> JSONObject:
    """Nodes are listed in update order everywhere. Times are seconds from now, null where they cannot be estimated.

    `wouldChange`: what `--exit-code` reports. `waves`: worked out by the controller's own planner. `rest`: the nodes
    of the waves after `--waves`, in update order. `kept`: the nodes that do not get the revision, by the blocker.
    """
    found, daemonset = plan.forecast, plan.survey.daemonset
    fields: JSONObject = {
        "metadata": {"name": daemonset.name, "namespace": daemonset.namespace},
        "asked": list(plan.tried),
        "wouldChange": found.changes,
        "revision": {"from": plan.previous_number, "to": plan.number, "hash": found.start.revision.hash},
        "limits": _limits(plan),
        "unavailableNow": [
            {"node": row.node, "state": row.state.value, "why": row.why} for row in plan.unavailable_rows
        ],
        "waves": [
            {"number": number, **msgspec.to_builtins(wave), "begins": round(wave.begins)}
            for number, wave in enumerate(found.waves, start=1)
        ],
        "rest": {"nodes": list(found.rest), "perWave": found.width if found.rest else 0},
        "kept": {_camel(what): list(nodes) for what, nodes in found.kept_nodes.items()},
        "later": msgspec.to_builtins(plan.later),
        "end": {
            "phase": found.phase.value if found.phase else None,
            "updated": plan.updated_nodes,
            "available": plan.available_nodes,
            "desired": found.end.budget.desired,
        },
        "effect": msgspec.to_builtins(plan.effect),
        "estimate": _estimate(plan),
        "checks": msgspec.to_builtins(plan.checks),
    }
    return document(KIND, **fields)


def _limits(plan: RolloutPlan) -> JSONObject:
    daemonset, budget = plan.survey.daemonset, plan.forecast.start.budget
    rolling = daemonset.rolling_update
    return {
        "strategy": "OnDelete" if rolling is None else "RollingUpdate",
        "desired": budget.desired,
        "partition": None if rolling is None else rolling.partition,
        "partitionNodes": budget.partition,
        "maxUnavailable": budget.max_unavailable,
        "maxSurge": budget.max_surge,
        "minReadySeconds": daemonset.spec.min_ready_seconds,
        "paused": daemonset.paused,
    }


def _estimate(plan: RolloutPlan) -> JSONObject | None:
    if plan.pace is None or plan.seconds is None:
        return None
    seconds, each = round(plan.seconds), round(plan.pace.seconds)
    return {"seconds": seconds, "perNodeSeconds": each, "fromNodes": plan.pace.nodes}


def _camel(words: str) -> str:
    first, *rest = words.split("_")
    return "".join((first, *(word.capitalize() for word in rest)))
