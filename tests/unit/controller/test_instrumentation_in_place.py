"""What is counted and timed of updates in place."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from controller.api.in_place import Underway
from controller.api.meta import Ref
from controller.api.wellknown import InPlaceRefusal
from controller.planner.actions import DeleteReason, ResizePod, UpdateInPlace
from controller.planner.in_place.change import InPlaceChange
from tests.beds.worlds import NOW, ds, node, pod, revision
from tests.unit.controller.office import DELETE, Office

CHANGED = UpdateInPlace(
    pod=Ref(namespace="default", name="agent-x", uid="uid-agent-x"),
    node="node-0",
    before="v1",
    revision=revision("v2"),
    change=InPlaceChange(images={"main": "demo:v2"}),
)
IN_PLACE = ds("v2", rolling_update_type="InPlaceIfPossible", min_ready=30)


def timed(office: Office) -> tuple[float, float]:
    """How many updates in place were timed, and their seconds in all."""
    name = "kruise_ds_node_update_duration_seconds"
    return office.count(f"{name}_count", method="in_place"), office.count(f"{name}_sum", method="in_place")


async def test_an_update_in_place_ends_when_the_pod_is_available_as_updated() -> None:
    office = Office(IN_PLACE, nodes=(node("node-0"),))
    office.acted(IN_PLACE, CHANGED)
    saw, settle = office.parts.instrumentation.saw, office.parts.metrics.tally.updates.settle
    saw(IN_PLACE, pod("node-0", "v1", name="agent-x"), NOW)
    settle(NOW + 300)
    assert timed(office) == (0, 0), "as it was before"
    late = pod("node-0", "v2", name="agent-x", ready=NOW + 290)
    saw(IN_PLACE, replace(late, underway=Underway(until=inf, restarting=("main",))), NOW + 300)
    settle(NOW + 400)
    assert timed(office) == (0, 0), "the old container still runs"
    saw(IN_PLACE, late, NOW + 300)
    settle(NOW + 319)
    assert timed(office) == (0, 0), "not yet for minReadySeconds"
    settle(NOW + 321)
    assert timed(office) == (1, 320), "which count from the start of the container, not from when it was seen"


async def test_an_update_that_nothing_proves_ends_when_it_counts_as_finished() -> None:
    office = Office(IN_PLACE, nodes=(node("node-0"),))
    office.acted(IN_PLACE, CHANGED)
    changed = replace(pod("node-0", "v2", name="agent-x"), underway=Underway(until=NOW + 10, restarting=("main",)))
    office.parts.instrumentation.saw(IN_PLACE, changed, NOW + 1)
    office.parts.metrics.tally.updates.settle(NOW + 60)
    assert timed(office) == (1, 10)


async def test_a_change_that_restarts_nothing_is_through_at_once() -> None:
    """Its pod has been available all the time; and the cache may have been quicker than the answer."""
    changed = pod("node-0", "v2", name="agent-x")
    office = Office(IN_PLACE, nodes=(node("node-0"),), pods=(changed,))
    office.acted(IN_PLACE, CHANGED)
    office.parts.metrics.tally.updates.settle(NOW)
    assert timed(office) == (1, 0)


async def test_writes_in_place_and_what_speaks_against_them_are_counted() -> None:
    office = Office(IN_PLACE, nodes=(node("node-0"),))
    office.acted(IN_PLACE, CHANGED, ResizePod(pod=CHANGED.pod, node="node-0"))
    office.acted(IN_PLACE, replace(DELETE, refusal=InPlaceRefusal.TEMPLATE), DELETE)
    office.acted(IN_PLACE, replace(DELETE, why=DeleteReason.NOT_RESIZED, refusal=InPlaceRefusal.RESIZE_REFUSED))
    operations, fallbacks = "kruise_daemonset_pod_operations_total", "kruise_daemonset_in_place_fallbacks_total"
    assert [office.count(operations, operation=one, result="success") for one in ("update", "resize")] == [1, 1]
    counted = {one.value: office.count(fallbacks, reason=one.value) for one in InPlaceRefusal}
    assert {reason: count for reason, count in counted.items() if count} == {"Template": 1, "ResizeRefused": 1}
