"""What a pass acts with, before a scripted server: which requests an action makes, and what is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.image_pull_job import ImagePullJob
from controller.api.objects import JSONObject, Key
from controller.kube.client import Client
from controller.kube.errors import ApiError
from controller.kube.requests import Response
from controller.kube.sender import Sender
from controller.planner.actions import Action, Note
from controller.planner.plan import Plan
from controller.reconcile.dependencies import Dependencies, Observer
from controller.reconcile.execute import PlanExecution
from controller.reconcile.state import DaemonSetState
from controller.runtime.clock import ServerClock
from controller.runtime.expectations import Expectations, Stale
from tests.beds.scripted import Answer, Script
from tests.beds.virtual_time import run
from tests.beds.worlds import NOW, OURS, ds


@dataclass(frozen=True)
class Failure:
    """What is left to be done after a pass."""

    action: Action
    error: ApiError
    repeated: bool
    """Writes there have failed, this one counted."""


class Observed(Observer):
    """Keeps what is reported in `Acting`."""

    def __init__(self, acting: Acting) -> None:
        self.acting = acting

    def event(self, about: DaemonSet | ImagePullJob, note: Note) -> None:
        self.acting.notes.append(note)

    def planned(self, seconds: float) -> None:
        self.acting.told.update(["planned"])

    def action_done(self, daemonset: DaemonSet, action: Action, error: ApiError | None) -> None:
        self.acting.did.append((action, error))

    def stale(self, key: Key, stale: Stale) -> None:
        self.acting.told.update(["stale", *(["overdue"] if stale.overdue else [])])

    def status_answered(self, result: Literal["success", "conflict", "error"]) -> None:
        self.acting.statuses.append(result)

    def status_written(self, daemonset: DaemonSet, before: DaemonSetStatus | None, after: DaemonSetStatus) -> None:
        self.acting.told.update(["written"])


@dataclass
class Acting:
    """One pass after the other over one DaemonSet.

    `now` is its clock and what has elapsed; it stands still unless it is moved.
    """

    daemonset: DaemonSet = field(default_factory=ds)
    state: DaemonSetState = field(default_factory=DaemonSetState)
    now: float = NOW
    script: Script = field(default_factory=Script)
    notes: list[Note] = field(default_factory=list)
    did: list[tuple[Action, ApiError | None]] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    """How status writes were answered."""
    told: Counter[str] = field(default_factory=Counter)
    """How often whom."""

    def __post_init__(self) -> None:
        self.dependencies = Dependencies(
            client=Client(Sender(self.script)),
            expectations=Expectations(),
            clock=lambda: self.now,
            observer=Observed(self),
            server_clock=ServerClock(),
        )

    def carry_out(self, actions: Sequence[Action], *answers: Answer) -> tuple[Failure, ...]:
        """The server answers like this, and is asked no more and no less often."""
        self.script.answers[:] = answers
        self.script.requests.clear()
        places = self.state.write_backoff
        work = PlanExecution(
            Plan(actions=tuple(actions)), self.daemonset, self.state, self.dependencies, lambda _: None
        )
        run(work.run(), start=self.now)
        left = [str(answer) for answer in self.script.answers]
        assert not left, f"nobody asked for {left}"
        return tuple(
            Failure(result.action, result.retry_error, result.backoff_key in places.failing)
            for result in work.results
            if result.retry_error is not None
        )

    @property
    def asked(self) -> list[str]:
        """Method and last part of the path of each request of the last pass."""
        return [f"{one.method} {one.path.rpartition('/')[2]}" for one in self.script.requests]


def refusal(status: int, reason: str = "", message: str = "no", *, retry_after: float | None = None) -> Response:
    body = {"kind": "Status", "reason": reason, "message": message}
    return Response(status=status, body=msgspec.json.encode(body), retry_after=retry_after)


def stored(
    name: str,
    *,
    uid: str = "",
    version: str = "7",
    owner: str = OURS,
    terminating: bool = False,
    labels: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
    **fields: object,
) -> Response:
    """An object as the server has it; with an `owner`, one that an Advanced DaemonSet of this uid controls."""
    reference: JSONObject = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "DaemonSet",
        "name": "demo",
        "uid": owner,
        "controller": True,
    }
    metadata: JSONObject = {
        "namespace": "default",
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": version,
        "ownerReferences": [reference] if owner else [],
        "labels": dict(labels),
        "annotations": dict(annotations),
    }
    if terminating:
        metadata["deletionTimestamp"] = "2026-09-21T14:13:20Z"
    return Response(status=200, body=msgspec.json.encode({"metadata": metadata, **fields}))
