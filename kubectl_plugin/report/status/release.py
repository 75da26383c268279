"""What a smaller partition would do for a rollout that is held."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.formats import IntOrPercent
from controller.api.objects import Value
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.report.steps import Steps
from kubectl_plugin.report.survey import Survey
from kubectl_plugin.report.world_of import world_of


class Release(Value):
    """Which nodes get the new revision when the partition is lowered from one value to another."""

    before: int
    """The partition now, in nodes, as is `keeps`."""
    keeps: int
    after: IntOrPercent
    """The lower partition as it would be written."""
    is_step: bool
    """Whether it is the next of the steps, which `promote` takes."""
    nodes: tuple[str, ...]
    """The nodes that would get the revision, in update order."""


def release_of(survey: Survey, steps: Steps | None) -> Release | None:
    """None if lowering the partition frees no node: rollingUpdate.selector leaves out all old ones."""
    before = survey.rollout.budget.partition
    if not before:
        return None
    step = steps.next if steps is not None else None
    after = 0 if step is None else step
    rollout = rollout_state(world_of(survey.snapshot, with_partition(survey.daemonset, after)))
    freed = tuple(node.name for node in rollout.target if node.current is None)
    if not freed:
        return None
    return Release(before=before, keeps=rollout.budget.partition, after=after, is_step=step is not None, nodes=freed)


def with_partition(daemonset: DaemonSet, partition: IntOrPercent) -> DaemonSet:
    strategy, rolling = daemonset.spec.update_strategy, daemonset.rolling_update
    if rolling is None:
        return daemonset
    strategy = replace(strategy, rolling_update=replace(rolling, partition=partition))
    return replace(daemonset, spec=replace(daemonset.spec, update_strategy=strategy))
