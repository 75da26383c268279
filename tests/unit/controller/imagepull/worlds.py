"""Worlds of one job in one line."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import msgspec

from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, PullState
from controller.api.objects import rfc3339
from controller.imagepull.job_plan import PULLED, JobPlan, JobWorld, StartPuller
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
    known: dict[str, Any] = {
        "job": job,
        "status": BEGUN,
        "pending": dict.fromkeys(node for node in nodes if node not in results),
        "pulled": {node for node, why in results.items() if why is PULLED},
        "failed": {node: why for node, why in results.items() if why is not PULLED},
        "retry_at": {},
        "not_ready": frozenset(),
        "attempts": {},
        "pullers": (),
        "first_seen": {},
        "lost_pullers": {},
        "in_flight": frozenset(),
        "unanswered": (),
        "failing": {},
        "in_backoff": {},
        "only_not_ready_since": inf,
        "max_creates": 50,
        "refusal": "",
        "now": NOW,
        "moment": MOMENT,
    }
    return JobWorld(**(known | fields))


def started(plan: JobPlan) -> list[str]:
    return [action.node for action in plan.actions if isinstance(action, StartPuller)]


def having(*nodes: str) -> Mapping[str, str | None]:
    return dict.fromkeys(nodes, PULLED)
