"""A rolling update that puts the new pod beside the old one."""

from __future__ import annotations

from itertools import pairwise

from tests.beds.api import CONFIGMAPS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, all_ready, keeps_two, layout, live, wave
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import V2, daemonset, node_of
from tests.system.both import both_beds
from tests.system.monitor import monitoring


async def deployed(bed: Bed, count: int, **rolling: object) -> None:
    """Ready pods of v1 on so many nodes; new pods do not get ready by themselves."""
    await bed.add_nodes(count)
    await bed.deploy(daemonset(rolling=rolling))
    bed.nodes.behave("*", UNREADY)


@both_beds
async def test_waves_of_max_surge_by_descending_names(bed: Bed) -> None:
    await deployed(bed, 5, maxSurge=2)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        for moves in ("+4 +3", "-4 -3 +2 +1", "-2 -1 +0", "-0", ""):
            await wave(bed, moves)
            await all_ready(bed)
        await bed.settled()
    assert await layout(bed) == "v2 v2 v2 v2 v2"


async def test_new_pods_that_never_get_ready_hold_the_surge(bed: Bed) -> None:
    await deployed(bed, 3, maxSurge="50%")
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await wave(bed, "+2 +1")
        await bed.api.create(CONFIGMAPS, {"metadata": {"name": "something"}})
        await wave(bed, "")
    assert await layout(bed) == "v1 v1+v2 v1+v2"


async def test_a_surge_pod_that_fails_is_replaced_later_and_later(bed: Bed) -> None:
    """And its node keeps its surge meanwhile: no other node has its turn."""
    await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=3)
    old = uids(await bed.pods())
    bed.nodes.behave("*", Behaviour(reject="OutOfcpu"))
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await bed.until(PODS, lambda _: "" if len(bed.journal.created) >= 4 else "too few", "four surge pods")
    assert set(bed.journal.created) == {"node-2"}
    began = [write.began for write in bed.journal.of("pods", "delete")]
    pauses = [after - before for before, after in pairwise(began)]
    assert all(pause > least for pause, least in zip(pauses, (0.9, 1.9), strict=False)), pauses
    kept = {node_of(pod): pod["metadata"]["uid"] for pod in await live(bed) if is_of(pod, old)}
    assert kept == old


def is_of(pod: Object, old: dict[str, str]) -> bool:
    return pod["metadata"]["uid"] in old.values()


async def test_surge_stops_at_the_partition(bed: Bed) -> None:
    await deployed(bed, 4, maxSurge=3, partition="60%")
    bed.nodes.behave("*", INSTANT)
    async with monitoring(bed):
        await keeps_two(bed)


async def test_nodes_that_join_all_the_time_keep_no_update_waiting(bed: Bed) -> None:
    """Every pass has a pod to place on a new node, and each of these takes two seconds to get ready."""
    await deployed(bed, 5, maxSurge=1)
    old = set(uids(await bed.pods()).values())
    bed.nodes.behave("*", Behaviour(start=0.5, ready=2.0, terminate=1.0))
    await bed.set_image(V2)
    for number in range(60):
        await bed.nodes.add(f"joins-{number:02}")
        await bed.idle(0.5)
    assert old.isdisjoint(uids(await bed.pods()).values()), "in half a minute"
