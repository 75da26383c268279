"""The later steps of a rollout (`kruise-ds/steps`): which nodes each smaller partition would update."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from controller.api.formats import IntOrPercent
from controller.api.objects import Value
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.world import World
from kubectl_plugin.forecast.forecast import NEVER, Forecast, Tell, forecast, left_to_update
from kubectl_plugin.forecast.simulation import world_after_waiting
from kubectl_plugin.report.status.release import with_partition
from kubectl_plugin.report.steps import Steps, steps_of


class Later(Value):
    """One step that somebody may promote to later."""

    step: int
    """Counted from 1."""
    partition: IntOrPercent
    waves: tuple[tuple[str, ...], ...]
    rest: tuple[str, ...]
    """Nodes whose waves were not worked out, in update order."""


def later_steps(found: Forecast, waves: int, tell: Tell | None = None) -> tuple[Later, ...]:
    """The steps after the present one, each worked out as if the one before it had finished with all pods available.

    `waves`: how many to work out in all, including those of `found`; 0 for all. `tell`: as in `forecast`.
    Raises CommandError for invalid steps.
    """
    rollout = found.end
    daemonset = rollout.world.daemonset
    rolling = daemonset.rolling_update
    if rolling is None or rolling.paused or not rollout.older:
        return ()
    steps = steps_of(daemonset.annotations, rolling.partition, rollout.budget.desired)
    if steps is None or steps.next is None:
        return ()
    values = steps.values[steps.values.index(steps.next, steps.index) :]
    return tuple(_worked_out(found, steps, values, waves, tell))


def _worked_out(
    found: Forecast, steps: Steps, values: tuple[IntOrPercent, ...], waves: int, tell: Tell | None
) -> Iterator[Later]:
    left, rollout, grouping = waves - len(found.waves), found.end, not found.rest
    counted = set(found.rest)
    for step, partition in enumerate(values, start=steps.count - len(values) + 1):
        grouping = grouping and (not waves or left > 0)
        if not grouping:
            left_then = left_to_update(rollout_state(_with_partition(rollout.world, partition)))
            names = tuple(node for node in left_then if node not in counted)
            counted.update(names)
            yield Later(step=step, partition=partition, waves=(), rest=names)
            continue
        then = forecast(_with_partition(_when_finished(rollout), partition), waves=max(left, 0), tell=tell)
        grouped = tuple(tuple(move.node for move in wave.moves) for wave in then.waves)
        yield Later(step=step, partition=partition, waves=grouped, rest=then.rest)
        left, rollout, grouping = left - len(grouped), then.end, not then.rest
        counted = set(then.rest)


def _when_finished(rollout: RolloutState) -> World:
    """The world once everything under way has succeeded."""
    world = rollout.world
    passed = world_after_waiting(world, NEVER, 0.0)
    world = world if passed is None else passed[0]
    return replace(world, now=world.now + world.daemonset.spec.min_ready_seconds + 1.0)


def _with_partition(world: World, partition: IntOrPercent) -> World:
    """Placement and selector do not change, so the rules compiled from them are kept."""
    changed = with_partition(world.daemonset, partition)
    return replace(world, daemonset=replace(changed, generation=changed.generation + 1))
