"""Worlds of one job in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, PullState
from controller.api.objects import rfc3339
from controller.imagepull.job_plan import PULLED, JobMemory, JobPlan, JobWorld, StartPuller
from controller.kube.decode import Decoder
from controller.kube.requests import IMAGE_PULL_JOBS

NOW = 1_800_000_000.0
MOMENT = 10_000.0
BEGUN = ImagePullJobStatus(start_time=rfc3339(NOW))


def job(annotations: Mapping[str, str] | None = None, **spec: Any) -> ImagePullJob:
    metadata: dict[str, Any] = {"namespace": "default", "name": "pull", "uid": "j1"}
    metadata |= {"resourceVersion": "7", "generation": 1, "annotations": annotations}
    body = {"metadata": metadata, "spec": {"image": "agent:v2", **spec}}
    found = Decoder(IMAGE_PULL_JOBS).single(msgspec.json.encode(body))
    assert found is not None
    return found


def puller(node: str, state: PullState = PullState.ACTIVE, why: str = "", **fields: Any) -> Puller:
    known: dict[str, Any] = {
        "namespace": "default",
        "name": f"pull-{node}",
        "uid": f"p-{node}",
        "version": "1",
        "job": "pull",
        "job_uid": "j1",
        "node": node,
        "image": "",
        "terminating": False,
        "state": state,
        "why": why,
    }
    return Puller(**(known | fields))


def world(job: ImagePullJob, *nodes: str, **fields: Any) -> JobWorld:
    results: Mapping[str, str | None] = fields.pop("results", {})
    memory = JobMemory(
        pending=dict.fromkeys(node for node in nodes if node not in results),
        pulled={node for node, why in results.items() if why is PULLED},
        failed={node: why for node, why in results.items() if why is not PULLED},
    )
    known: dict[str, Any] = {"job": job, "status": BEGUN, "memory": memory, "pullers": (), "failing": {}}
    known |= {"in_backoff": {}, "max_creates": 50, "now": NOW, "moment": MOMENT}
    return changed(JobWorld(**known), **fields)


def changed(before: JobWorld, **fields: Any) -> JobWorld:
    """The world with other fields, or with others in its memory."""
    remembered = {name: fields.pop(name) for name in fields.keys() & set(JobMemory.__struct_fields__)}
    return replace(before, memory=replace(before.memory, **remembered), **fields)


def started(plan: JobPlan) -> list[str]:
    return [action.node for action in plan.actions if isinstance(action, StartPuller)]


def having(*nodes: str) -> Mapping[str, str | None]:
    return dict.fromkeys(nodes, PULLED)
