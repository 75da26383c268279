"""The phase of a rollout: one word for status, conditions, metrics and the plugin."""

from __future__ import annotations

from controller.api.base import Value
from controller.api.daemonset import Phase


class Standing(Value):
    """Everything that a phase depends on. Numbers count nodes that should run a pod."""

    dying: bool = False
    observed: bool = True
    """Whether the controller has acted on the newest spec."""
    on_delete: bool = False
    paused: bool = False
    refused: str = ""
    """Why the rollout cannot go on: the spec is unusable, or the server refuses the new template; empty: it can."""
    desired: int = 0
    target: int = 0
    """Nodes that may have the current revision now, or could if it were not paused."""
    updated: int = 0
    """Nodes with a pod of the current revision, available or not."""
    done: int = 0
    """Nodes of the target with an available pod of the current revision and no old pod beside it."""
    available: int = 0
    """Nodes with an available pod of any revision."""
    outdated: int = 0
    """Nodes of the target that are left to update: with only an old pod, or kept empty by a pause."""
    leaving: int = 0
    """Old pods that are being removed from nodes where no new one may start."""
    kept: int = 0
    """Nodes outside the target without a pod of the current revision: partition or selector keeps them old."""
    completed: bool = False
    """Whether all nodes of the target were done at some time, and none became outdated since."""
    awaited: tuple[str, ...] = ()
    """Unreachable nodes for which everything that is left waits, in update order; empty: something else is left too,
    or nothing."""
    overdue: bool = False
    """Whether it would be Progressing, but has made no progress for longer than the deadline."""


def phase_of(standing: Standing) -> Phase:
    """The first of the nine phases that applies; those that wait for a person come first."""
    if standing.dying:
        return Phase.TERMINATING
    if not standing.observed:
        return Phase.PENDING
    if standing.outdated and standing.on_delete:
        return Phase.MANUAL
    if (standing.outdated or standing.leaving) and standing.paused:
        return Phase.PAUSED
    if standing.refused or standing.overdue:
        return Phase.STALLED
    if standing.outdated or not standing.completed:
        return Phase.PROGRESSING
    return _after_the_update(standing)


def _after_the_update(standing: Standing) -> Phase:
    """The phase once nothing is left to update. Kept old pods need not be available: nobody waited for them."""
    if standing.done < standing.target:
        return Phase.DEGRADED
    if standing.kept:
        return Phase.HELD
    return Phase.HEALTHY if standing.available >= standing.desired else Phase.DEGRADED
