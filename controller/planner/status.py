"""The status of a DaemonSet, and the events about its rollout: complete, held, stalled. Events follow from the change
of the status and are sent once it is written, so that a restart of the controller does not repeat them."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from msgspec.structs import replace

from controller.api import names, selector
from controller.api.daemonset import (
    MOST_UNAVAILABLE_BEFORE,
    CheckRecord,
    CheckState,
    Columns,
    Counts,
    DaemonSet,
    DaemonSetStatus,
    Phase,
    Rollout,
    rollout_of,
)
from controller.api.formats import truncated
from controller.api.names import PROGRESS_DEADLINE_EXCEEDED, READY, STALLED
from controller.api.objects import JSON, Value, fields_of
from controller.planner.actions import Note
from controller.planner.checks import CheckRequest, words_of
from controller.planner.conditions import Condition, conditions_of, refused_conditions, unreadable_deadline
from controller.planner.explanation import Explainer
from controller.planner.node_fit import Fit
from controller.planner.progress import Standing, advance, halted, standing_of, with_stable
from controller.planner.rollout_state import RolloutState


class Status(Value):
    """The wanted status. Fields that are None stay unchanged."""

    observed_generation: int | None
    counts: Counts | None
    revision_hash: str | None
    collision_count: int | None
    columns: Columns
    rollout: Rollout
    conditions: tuple[Condition, ...]
    soaks_until: float | None = None
    """When the soak of the step ends (seconds since 1970), or now if the next step begins; None if neither is due."""
    fails_at: float = inf
    """When the rollout is aborted if nothing changes (seconds since 1970)."""
    check_request: CheckRequest | None = None
    """The checks to evaluate for the open step; None if there are none."""
    stable_at: float | None = None
    """When another revision becomes stable if nothing changes (seconds since 1970); None if it does not by time
    alone."""

    @property
    def settled(self) -> bool:
        """Whether every node has an available pod of the current revision, which is written at once."""
        counts = self.counts
        return counts is None or (
            counts.desired_number_scheduled == counts.number_available == counts.updated_number_scheduled
        )

    @property
    def misscheduled(self) -> int:
        return self.counts.number_misscheduled if self.counts is not None else 0


def status_of(explainer: Explainer, *, observed: bool) -> Status:
    """The status of a usable spec. `observed`: no stage before the update has anything left to do."""
    rollout = explainer.rollout
    world, daemonset = rollout.world, rollout.world.daemonset
    before = daemonset.status
    seen = observed or (before is not None and before.observed_generation >= daemonset.generation)
    standing = standing_of(rollout, observed=seen)
    record = advance(
        before,
        standing,
        revision_hash=rollout.revision.hash,
        deadline=daemonset.progress_deadline,
        now=world.now,
    )
    known = replace(
        standing,
        observed=True,
        completed=record.completion_time is not None,
        overdue=record.phase == Phase.STALLED and not standing.refused,
    )
    recorded, stable_at = with_stable(rollout, record, observed=observed)
    unavailable = tuple(sorted(rollout.unavailable_before)[:MOST_UNAVAILABLE_BEFORE])
    recorded = replace(recorded, unavailable_before=unavailable or None, left_out=len(rollout.left_out))
    counts = _counts(rollout)
    return Status(
        observed_generation=daemonset.generation if observed else None,
        counts=counts,
        revision_hash=rollout.revision.hash,
        collision_count=world.collisions or None,
        columns=columns_of(daemonset, recorded),
        rollout=recorded,
        conditions=_bounded(conditions_of(explainer, counts, known, Phase(record.phase))),
        stable_at=stable_at,
        soaks_until=_soaks_until(standing, recorded),
        fails_at=rollout.failure.due if recorded.aborted_revision is None else inf,
        check_request=_check_request(rollout, standing) if recorded.aborted_revision is None else None,
    )


def _check_request(rollout: RolloutState, standing: Standing) -> CheckRequest | None:
    rolling = rollout.rolling_update
    if rolling is None or standing.step_progress is None or not rollout.checks:
        return None
    pods = [node.current.name for node in rollout.eligible if node.current is not None]
    return CheckRequest(
        checks=rolling.checks,
        revision=rollout.revision.hash,
        pods=tuple(pods),
        checked_from=standing.step_progress.checked_from,
    )


def _soaks_until(standing: Standing, recorded: Rollout) -> float | None:
    progress = standing.step_progress
    if progress is None:
        return None
    return (
        progress.due
        if (progress.is_soaking and progress.now < progress.due) or progress.step != recorded.step
        else None
    )


def _counts(rollout: RolloutState) -> Counts:
    """The pod of a node that counts: a live one before a terminating one, which counts as scheduled. While surging,
    the old one; the new one if it is available and the hook holds the old one."""
    hash_, run = rollout.revision.hash, Fit.RUN
    current = misscheduled = ready = updated = available = 0
    for node in rollout.nodes:
        if not node.pods or node.fit is None:
            continue
        if node.fit is not run:
            misscheduled += 1
            continue
        current += 1
        if node.old is not None:
            stands = node.current if node.current_available and node.old.held_by_hook else None
            ready += (stands or node.old).ready
            available += stands is not None or node.old_available
        elif node.current is not None:
            updated += 1
            ready += node.current.ready
            available += node.current_available
        else:
            first = node.pods[0]
            updated += first.hash == hash_
            ready += first.ready and not first.ended
    desired = rollout.budget.desired
    return Counts(
        desired_number_scheduled=desired,
        current_number_scheduled=current,
        number_misscheduled=misscheduled,
        number_ready=ready,
        updated_number_scheduled=updated,
        number_available=available,
        number_unavailable=desired - available,
    )


def refused_status(daemonset: DaemonSet, problem: str, now: float) -> Status:
    return Status(
        observed_generation=None,
        counts=None,
        revision_hash=None,
        collision_count=None,
        columns=columns_of(daemonset, rollout_of(daemonset.status)),
        rollout=halted(daemonset.status, now),
        conditions=_bounded(refused_conditions(problem)),
    )


def columns_of(daemonset: DaemonSet, record: Rollout) -> Columns:
    """The columns of `kubectl get`; `<none>` if empty."""
    fields = fields_of(daemonset.spec.template.get("spec"))
    containers, labels = fields.get("containers"), fields_of(fields.get("nodeSelector"))
    listed = containers if isinstance(containers, list) else []
    return Columns(
        node_selector=_joined(f"{key}={value}" for key, value in sorted(labels.items())),
        containers=_joined(_field(container, "name") for container in listed),
        images=_joined(_field(container, "image") for container in listed),
        selector=truncated(selector.as_text(daemonset.spec.selector)),
        step=f"{record.step}/{record.steps}" if record.step is not None else None,
    )


def _bounded(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Messages repeat texts of users and of the server, and etcd refuses objects beyond 1.5 MiB."""
    return tuple(replace(condition, message=truncated(condition.message)) for condition in conditions)


def _field(container: JSON, name: str) -> str:
    value = fields_of(container).get(name)
    return value if isinstance(value, str) else ""


def _joined(parts: Iterable[str]) -> str:
    return truncated(",".join(parts)) or "<none>"


UNDER_WAY: Final = (
    Phase.PENDING,
    Phase.PROGRESSING,
    Phase.SOAKING,
    Phase.AWAITING_APPROVAL,
    Phase.PAUSED,
    Phase.STALLED,
    Phase.MANUAL,
)
"""Phases whose change to Healthy completes a rollout; after Degraded, pods have only recovered."""


def rollout_events(daemonset: DaemonSet, status: Status) -> tuple[Note, ...]:
    """The events for the change from the status in `daemonset` to `status`."""
    was = daemonset.status.rollout.phase if daemonset.status and daemonset.status.rollout else ""
    now = status.rollout.phase
    conditions = {condition.type: condition for condition in status.conditions}
    message = conditions[READY].message
    found = []
    if now == Phase.STALLED != was and conditions[STALLED].reason == PROGRESS_DEADLINE_EXCEEDED:
        found.append(_note(PROGRESS_DEADLINE_EXCEEDED, f"Rollout stalled: {message}", warning=True))
    if status.rollout.aborted_revision not in (None, rollout_of(daemonset.status).aborted_revision):
        why = message if now == Phase.ABORTED else status.rollout.aborted_message
        found.append(_note(names.ROLLOUT_ABORTED, f"Rollout aborted: {why}", warning=True))
    if now == Phase.AWAITING_APPROVAL != was:
        found.append(_note(names.AWAITING_APPROVAL, f"Rollout waits: {message}"))
    if was in UNDER_WAY and now == Phase.HEALTHY:
        found.append(_note(names.ROLLOUT_COMPLETE, f"Rollout complete: {message}"))
    if was in UNDER_WAY and now == Phase.HELD:
        found.append(_note(names.ROLLOUT_HELD, f"Rollout held: {message}"))
    before = {check.name for check in _failing(rollout_of(daemonset.status))}
    found += [
        _note(names.CHECK_FAILING, f"Rollout waits: {words_of(check)}", warning=True)
        for check in _failing(status.rollout)
        if check.name not in before
    ]
    problem = unreadable_deadline(daemonset)
    if problem and problem not in _stalled_message(daemonset.status):
        found.append(_note(names.INVALID_ANNOTATION, problem, warning=True))
    return tuple(found)


def _failing(record: Rollout) -> list[CheckRecord]:
    return [check for check in record.checks or () if check.state == CheckState.FAILING]


def _note(reason: str, message: str, *, warning: bool = False) -> Note:
    return Note(warning=warning, reason=reason, message=message, of_rollout=True)


def _stalled_message(status: DaemonSetStatus | None) -> str:
    conditions = (status.conditions if status else None) or ()
    return next((str(condition.get("message")) for condition in conditions if condition.get("type") == STALLED), "")
