"""A rolling update that puts the new pod beside the old one."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.beds.api import CONFIGMAPS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, all_ready, both, built, keeps_two, layout, live, roll, unready, wave
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import V2, V3, daemonset
from tests.beds.pods import is_ready, node_of
from tests.system.both import both_beds
from tests.system.monitor import monitoring

RESERVED = {"key": "reserved", "effect": "NoSchedule"}


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


async def test_a_second_template_replaces_the_pods_that_are_not_ready(bed: Bed) -> None:
    await deployed(bed, 5, maxSurge=2)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await wave(bed, "+4 +3")
        await bed.set_image(V3)
        await wave(bed, both(4, 3))
    assert await layout(bed) == "v1 v1 v1 v1+v3 v1+v3"


async def test_old_pods_that_are_unavailable_get_their_partner_at_once(bed: Bed) -> None:
    await deployed(bed, 5, maxSurge=3)
    await unready(bed, 0, 1, 2, 3, 4)
    async with monitoring(bed):
        await bed.set_image(V2)
        await wave(bed, both(0, 1, 2, 3, 4))
    assert await layout(bed) == "v2 v2 v2 v2 v2"


async def test_old_pods_that_are_not_available_need_no_surge_for_their_partner(bed: Bed) -> None:
    """They are ready, so they stay beside it: every node has two pods although maxSurge is 1."""
    await deployed(bed, 3, maxSurge=1)
    containers = [{"name": "agent", "image": V2}]
    async with monitoring(bed):
        await bed.edit({"minReadySeconds": 3600, "template": {"spec": {"containers": containers}}})
        await wave(bed, "+0 +1 +2")
    assert await layout(bed) == "v1+v2 v1+v2 v1+v2"


@pytest.mark.parametrize(
    ("state", "moves", "after"),
    [
        ("v1 v1+v1!+v1!+v2!+v2! v1", "-1 -1 -1", "v1 v1+v2 v1"),  # of each kind one stays, the old one that serves
        ("v1 v1+v2! v1", "", "v1 v1+v2 v1"),
        ("v1 v1!+v2! v1", "-1 +2", "v1 v2 v1+v2"),
        ("v1 v1+v2 v1", "-1 +2", "v1 v2 v1+v2"),
        ("v1 v2! v1", "+2", "v1 v2 v1+v2"),  # its old pod was lost
    ],
)
async def test_pods_that_are_there_already(bed: Bed, state: str, moves: str, after: str) -> None:
    """maxSurge 1; "v2!" is not ready."""
    await built(bed, state, new=daemonset(rolling={"maxSurge": 1}))
    before = {pod["metadata"]["uid"] for pod in await live(bed) if is_ready(pod) and node_of(pod) == "node-1"}
    bed.controller.start()
    await wave(bed, moves)
    assert await layout(bed) == after
    there = {pod["metadata"]["uid"] for pod in await live(bed)}
    assert before & there or not before, "whoever served on node-1 does so still, or its partner"


async def test_the_old_pod_stays_until_its_partner_is_available(bed: Bed) -> None:
    """The controller wakes up by itself: nothing else happens meanwhile."""
    nodes = await bed.deploy(daemonset(rolling={"maxSurge": "100%"}, minReadySeconds=2), nodes=3)
    async with monitoring(bed, most_unavailable=0):
        bed.nodes.behave("*", UNREADY)
        await bed.set_image(V2)
        await wave(bed, "+0 +1 +2")
        assert await layout(bed) == "v1+v2 v1+v2 v1+v2"
        await all_ready(bed)
        await wave(bed, "-0 -1 -2")
        await bed.runs_on(*nodes, image=V2)


async def test_a_pause_lets_what_has_begun_come_to_its_end(bed: Bed) -> None:
    await deployed(bed, 5, maxSurge=2)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await wave(bed, "+4 +3")
        await roll(bed, paused=True)
        await wave(bed, "")
        await all_ready(bed)
        await wave(bed, "-4 -3")
        await bed.status(available=5, updated=2)
        await roll(bed, paused=False)
        await wave(bed, "+2 +1")


async def test_an_old_pod_that_a_hook_holds_keeps_its_surge(bed: Bed) -> None:
    await bed.add_nodes(3)
    hooked = daemonset(rolling={"maxSurge": 1}, lifecycle={"preDelete": {"labelsHandler": {"hold": "yes"}}})
    hooked["spec"]["template"]["metadata"] = {"labels": {"app": "agent", "hold": "yes"}}
    await bed.deploy(hooked)
    old = uids(await bed.pods())
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await wave(bed, "+2")
        assert await layout(bed) == "v1 v1 v1+v2"
        held = next(pod for pod in await live(bed) if pod["metadata"]["uid"] == old["node-2"])
        await bed.api.patch(PODS, held["metadata"]["name"], {"metadata": {"labels": {"hold": None}}})
        await wave(bed, "-2 +1")
    assert await layout(bed) == "v1 v1+v2 v2"


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


@pytest.mark.parametrize("first", ["taint", "image"])
async def test_a_node_that_may_only_keep_its_pod_lends_it_to_the_surge(bed: Bed, first: str) -> None:
    await deployed(bed, 5, maxSurge=1)
    if first == "taint":
        await bed.taint("node-2", RESERVED)
        await bed.status(desired=4)
        await wave(bed, "")
    else:
        await bed.controller.stop()
        await bed.taint("node-2", RESERVED)
        bed.controller.start()
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        for moves in ("-2 +4", "-4 +3", "-3 +1", "-1 +0", "-0", ""):
            await wave(bed, moves)
            await all_ready(bed)
    assert await layout(bed) == "v2 v2 - v2 v2"


async def test_a_kept_pod_that_is_unavailable_goes_at_once(bed: Bed) -> None:
    await deployed(bed, 3, maxSurge=1)
    await bed.taint("node-1", RESERVED)
    await unready(bed, 1)
    async with monitoring(bed, most_unavailable=0):
        await bed.set_image(V2)
        await wave(bed, "-1 +2")


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
