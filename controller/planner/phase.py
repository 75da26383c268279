"""How an update stands, in one word: the same in status, conditions, metrics and the kubectl plugin."""

from __future__ import annotations

from controller.api.base import Value
from controller.api.daemonset import Phase

__all__ = ["Phase", "Standing", "phase_of"]


class Standing(Value):
    """All that a phase depends on. Numbers count nodes that should run a pod."""

    dying: bool = False
    observed: bool = True
    """Whether the controller has acted on the newest spec."""
    on_delete: bool = False
    paused: bool = False
    refused: str = ""
    """Why nothing can go on, in words: the spec is unusable, or the server refuses the template that is to be
    rolled out."""
    desired: int = 0
    target: int = 0
    """Nodes that may have the current revision now, or could if it were not paused."""
    updated: int = 0
    """Nodes with a pod of the current revision, available or not."""
    done: int = 0
    """Of the target, nodes with an available pod of the current revision and no old pod beside it."""
    available: int = 0
    """Nodes with an available pod of any revision."""
    outdated: int = 0
    """Of the target, nodes with only an old pod, or that a pause keeps empty: what is left to update."""
    leaving: int = 0
    """Old pods that go now from nodes where no new one may start."""
    kept: int = 0
    """Nodes outside the target without a pod of the current revision: partition or selector keeps it from them."""
    completed: bool = False
    """Whether the whole target has been available at one time, and nothing became outdated since."""
    overdue: bool = False
    """Whether it would be progressing, but for too long without progress."""


def phase_of(standing: Standing) -> Phase:
    """The first of the nine that holds: what a person has to do comes before what the controller does."""
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
    """Old pods that are kept need not be available: it is the new ones that somebody waits for."""
    if standing.done < standing.target:
        return Phase.DEGRADED
    if standing.kept:
        return Phase.HELD
    return Phase.HEALTHY if standing.available >= standing.desired else Phase.DEGRADED
