"""The state of a rollout according to the controller's own status, for callers that have not read the pods."""

from __future__ import annotations

from controller.api import formats
from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.names import DEGRADED, INVALID_SPEC, TEMPLATE_REFUSED
from controller.api.objects import JSON, JSONObject, Value
from controller.planner.progress import Standing, phase_of


class StatedCondition(Value):
    """A condition of the status; fields that are missing, or no text, are empty."""

    status: str
    reason: str
    message: str
    is_current: bool
    """Whether it was written for the newest spec."""


def stated_rollout(daemonset: DaemonSet) -> Rollout:
    """The rollout record in the status. A controller that keeps none gets one made from its counts, without times."""
    status = daemonset.status
    if daemonset.terminating:
        return Rollout(phase=Phase.TERMINATING)
    if status is None or not is_observed(daemonset):
        return Rollout(phase=Phase.PENDING)
    if status.rollout is not None and status.rollout.phase:
        return status.rollout
    standing = _standing(daemonset, status)
    return Rollout(phase=phase_of(standing), target=standing.target, done=standing.done)


def phase_in(rollout: Rollout) -> Phase:
    """The phase of the record. A word that is unknown here, as of a later controller, counts as Progressing: that is
    neither an end nor a failure, so that a wait goes on.
    """
    return next((one for one in Phase if one == rollout.phase), Phase.PROGRESSING)


def _standing(daemonset: DaemonSet, status: DaemonSetStatus) -> Standing:
    """Worked out from the counts alone, which do not tell the nodes of `rollingUpdate.selector` from the others."""
    desired, updated = status.desired_number_scheduled, status.updated_number_scheduled
    target = _target(daemonset, status)
    return Standing(
        on_delete=daemonset.rolling_update is None,
        paused=daemonset.paused,
        desired=desired,
        target=target,
        updated=updated,
        done=min(target, updated, status.number_available),
        available=status.number_available,
        outdated=max(target - updated, 0),
        kept=max(desired - max(target, updated), 0),
        completed=updated >= target,
    )


def _target(daemonset: DaemonSet, status: DaemonSetStatus) -> int:
    """The number of nodes to update. A partition only keeps old pods: where there is none, and nodes lack their pod,
    all nodes count."""
    desired, rolling = status.desired_number_scheduled, daemonset.rolling_update
    if rolling is None or status.updated_number_scheduled >= status.current_number_scheduled < desired:
        return desired
    try:
        return max(desired - max(formats.scaled(rolling.partition, desired, round_up=False), 0), 0)
    except ValueError:
        return desired


def is_observed(daemonset: DaemonSet) -> bool:
    """Whether a controller has seen the newest spec, perhaps only to report that it cannot be used."""
    status = daemonset.status
    seen = status is not None and status.observed_generation >= daemonset.generation
    return seen or bool(refusal_of(daemonset))


def refusal_of(daemonset: DaemonSet) -> str:
    """Why the controller can do nothing with this very spec, in the server's or its own words; empty while it can.

    Only the controller knows this: it asks the server once, by a dry run, whether it would accept a new pod.
    """
    found = condition(daemonset, DEGRADED)
    refused = found.is_current and found.reason in (TEMPLATE_REFUSED, INVALID_SPEC)
    return found.message or found.reason if refused else ""


def is_unusable(daemonset: DaemonSet) -> bool:
    """Whether the controller refused this very spec itself, and not only the pods that would be made of it."""
    found = condition(daemonset, DEGRADED)
    return found.is_current and found.reason == INVALID_SPEC


def condition(daemonset: DaemonSet, kind: str) -> StatedCondition:
    """The condition of that type; empty if there is none."""
    found: JSONObject = next((one for one in daemonset.conditions if one.get("type") == kind), {})
    return StatedCondition(
        status=_text(found.get("status")),
        reason=_text(found.get("reason")),
        message=_text(found.get("message")),
        is_current=found.get("observedGeneration") == daemonset.generation,
    )


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
