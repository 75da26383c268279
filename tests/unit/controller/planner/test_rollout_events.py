"""What becomes of a rollout is told, and each thing once."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from controller.api.wellknown import PROGRESS_DEADLINE_ANNOTATION
from controller.planner.plan import plan
from controller.planner.world import World
from tests.beds.worlds import NOW, ds, everywhere, served, world
from tests.unit.controller.planner.written import BETWEEN, looked_at


def reasons(of: World) -> list[tuple[str, bool]]:
    return [(one.reason, one.warning) for one in plan(of).rollout_events]


def passes(*worlds: World) -> Iterable[list[tuple[str, bool]]]:
    """The rollout events of each of these worlds, every one with the status that the one before has left."""
    before: World | None = None
    for one in worlds:
        status = before.daemonset.status if before else one.daemonset.status
        current = replace(one, daemonset=replace(one.daemonset, status=status))
        yield reasons(current)
        before = looked_at(current)
        assert reasons(before) == [], "told once"


def test_what_becomes_of_a_rollout_is_told_once() -> None:
    going = world(ds("v2"), nodes=3, pods=BETWEEN)
    complete = world(ds("v2"), nodes=3, pods=served("node-0", "node-1", "node-2", rev="v2"))
    unwell = replace(complete, pods=(*complete.pods[:-1], replace(complete.pods[-1], ready=False)))
    told = passes(going, replace(going, now=NOW + 601), complete, unwell, complete)
    assert list(told) == [
        [],
        [("ProgressDeadlineExceeded", True)],
        [("RolloutComplete", False)],
        [],
        [],
    ]


def test_a_rollout_that_holds_is_told_at_every_step() -> None:
    def step(partition: int, *updated: str) -> World:
        old = [f"node-{number}" for number in range(3) if f"node-{number}" not in updated]
        pods = (*served(*old), *served(*updated, rev="v2"))
        return world(ds("v2", partition=partition), nodes=3, pods=pods)

    told = passes(step(1), step(1, "node-1", "node-2"), step(0, "node-1", "node-2"))
    assert list(told) == [[], [("RolloutHeld", False)], []]


def test_a_takeover_of_well_pods_is_no_news() -> None:
    assert reasons(world(nodes=3, pods=everywhere(3))) == []


def test_an_unreadable_deadline_is_told_once_and_again_when_it_changes() -> None:
    def asked(text: str) -> World:
        return world(ds(annotations={PROGRESS_DEADLINE_ANNOTATION: text}), nodes=3, pods=everywhere(3))

    told = passes(asked("soon"), asked("60"), asked("soon"), asked("later"))
    assert list(told) == [
        [("InvalidAnnotation", True)],
        [],
        [("InvalidAnnotation", True)],
        [("InvalidAnnotation", True)],
    ]
