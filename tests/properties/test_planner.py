"""Every pass in every world keeps the laws."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus
from controller.planner.plan import plan
from controller.planner.progress import advance, standing_of
from controller.planner.rollout_state import rollout_state
from controller.planner.status import Status
from controller.planner.validation import compiled
from controller.planner.world import World
from tests.beds.random_worlds import surges, worlds
from tests.beds.worlds import picture, status_in
from tests.properties.planner_facts import rolling
from tests.properties.planner_laws import LAWS
from tests.properties.size import every_day

T = TypeVar("T")


def keeps_the_laws(world: World) -> None:
    decided = plan(world)
    note(picture(world, decided))
    for law in LAWS:
        law(world, decided)


@every_day(300)
@given(world=worlds())
def test_every_pass_keeps_the_laws(world: World) -> None:
    keeps_the_laws(world)


@every_day(100)
@given(world=surges())
def test_every_pass_in_the_midst_of_a_surge_keeps_the_laws(world: World) -> None:
    keeps_the_laws(world)


@every_day(150)
@given(world=worlds(in_place=True))
def test_every_pass_in_the_midst_of_updates_in_place_keeps_the_laws(world: World) -> None:
    keeps_the_laws(world)


@every_day(100)
@given(world=st.one_of(worlds(), worlds(in_place=True)), chance=st.randoms(use_true_random=False))
def test_the_same_world_in_another_order_gives_the_same_plan(world: World, chance: Random) -> None:
    decided = plan(world)
    note(picture(world, decided))
    shuffled = replace(
        world,
        rules=compiled(world.daemonset),
        pods=_shuffled(world.pods, chance),
        orphans=_shuffled(world.orphans, chance),
        revisions=_shuffled(world.revisions, chance),
    )
    assert plan(shuffled) == decided, "names of new pods are part of a plan"


@every_day(50)
@given(world=worlds())
def test_looking_changes_nothing(world: World) -> None:
    before = (world.pods, world.revisions, dict(world.verdicts), dict(world.predecessors))
    assert plan(world) == plan(world)
    assert before == (world.pods, world.revisions, dict(world.verdicts), dict(world.predecessors))


@every_day(100)
@given(world=worlds(), later=st.integers(0, 599))
def test_the_record_of_a_rollout_moves_only_with_the_world(world: World, later: int) -> None:
    """Otherwise statuses would be written because time goes by. A step without soak is over with the pass in which it
    is reached, so each may take another pass."""
    looked, first = _written(world)
    for _ in rolling(world).steps:
        looked, first = _written(looked)
    written = looked.daemonset.status
    assert written is not None
    again = plan(looked).status
    assert again is not None
    assert again.rollout == first.rollout
    standing = standing_of(rollout_state(looked), observed=bool(written.observed_generation))
    record = advance(written, standing, revision_hash=written.update_revision, deadline=600, now=world.now + later)
    assert record == first.rollout


def _written(world: World) -> tuple[World, Status]:
    """The world with the status that a pass wants, and that status."""
    status = status_in(plan(world))
    written = DaemonSetStatus(
        update_revision=status.revision_hash or "",
        rollout=status.rollout,
        observed_generation=status.observed_generation or 0,
    )
    return replace(world, daemonset=replace(world.daemonset, status=written)), status


def _shuffled(items: tuple[T, ...], chance: Random) -> tuple[T, ...]:
    mixed = list(items)
    chance.shuffle(mixed)
    return tuple(mixed)
