"""How a rollout stands by the controller's own account, for where nobody looks at the pods themselves."""

from __future__ import annotations

from controller.api.daemonset import DaemonSet, Phase, Rollout
from controller.planner.phase import Standing, phase_of


def stated(daemonset: DaemonSet) -> Rollout:
    """The record in the status. From a controller that keeps none, one made of the counts, without times."""
    status = daemonset.status
    if daemonset.dying:
        return Rollout(phase=Phase.TERMINATING)
    if status is None or status.observed_generation < daemonset.generation:
        return Rollout(phase=Phase.PENDING)
    if status.rollout is not None and status.rollout.phase:
        return status.rollout
    rolling = daemonset.rolling_update
    desired, updated = status.desired_number_scheduled, status.updated_number_scheduled
    standing = Standing(
        on_delete=rolling is None,
        paused=rolling is not None and rolling.paused,
        desired=desired,
        target=desired,
        updated=updated,
        done=min(updated, status.number_available),
        available=status.number_available,
        outdated=desired - updated,
        completed=updated >= desired,
    )
    return Rollout(phase=phase_of(standing), target=desired, done=standing.done)
