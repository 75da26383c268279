"""Which pods a rolling update replaces, in which order, when it waits."""

from __future__ import annotations

import pytest

from tests.beds.api import PODS
from tests.beds.controller.bed import Bed, uids
from tests.beds.controller.waves import UNREADY, all_ready, both, layout, wave
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import V2, V3, V4, daemonset, requires
from tests.system.both import both_beds
from tests.system.monitor import monitoring
from tests.system.replay import film


@both_beds
async def test_waves_of_max_unavailable_by_descending_names(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=5)
    bed.nodes.behave("*", UNREADY)
    async with monitoring(bed, most_unavailable=2):
        await bed.set_image(V2)
        for numbers in ((4, 3), (2, 1), (0,), ()):
            await wave(bed, both(*numbers))
            await all_ready(bed)
        await bed.settled()
    assert await layout(bed) == "v2 v2 v2 v2 v2"


async def test_pods_that_never_get_ready_stop_the_update(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": 3}), nodes=5)
    before = uids(await bed.pods())
    bed.nodes.behave("*", UNREADY)
    await bed.set_image(V2)
    await wave(bed, both(4, 3, 2))
    after = await bed.pods()
    assert {node: uids(after)[node] for node in ("node-0", "node-1")} == {
        node: before[node] for node in ("node-0", "node-1")
    }
    assert await layout(bed) == "v1 v1 v2 v2 v2"


async def test_bad_edit_upon_bad_edit_costs_no_more_than_one_pod(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(), nodes=3)
    bed.nodes.behave("*", UNREADY)
    async with monitoring(bed, most_unavailable=1):
        for image in (V2, V3, V4):
            await bed.set_image(image)
            await wave(bed, both(2))
    assert await layout(bed) == "v1 v1 v4"
    bed.nodes.behave("*", INSTANT)
    await bed.settled()
    await bed.runs_on(*nodes, image=V4)


@both_beds
async def test_a_terminating_pod_uses_budget(bed: Bed) -> None:
    await bed.deploy(daemonset(rolling={"maxUnavailable": "50%"}), nodes=3)
    bed.nodes.behave("*", Behaviour(ready=None, terminate=None))
    hanging = (await bed.pods())["node-0"]
    await bed.api.delete(PODS, hanging["metadata"]["name"])
    await bed.idle()
    bed.journal.clear()
    await bed.set_image(V2)
    await wave(bed, "-2")  # one of two is used, and that one hangs too
    for pod in await bed.api.list(PODS):
        if pod["metadata"].get("deletionTimestamp"):
            await bed.nodes.gone(pod)
    await wave(bed, "+0 +2")


async def test_silent_nodes_neither_lose_their_pods_nor_hold_up_the_others(bed: Bed) -> None:
    nodes = await bed.deploy(daemonset(rolling={"maxUnavailable": 2}), nodes=5)
    before = await bed.pods()
    for node in ("node-3", "node-4"):
        await bed.nodes.lose(node)
        await bed.nodes.ready(before[node], value=False)
    bed.nodes.behave("*", UNREADY)
    await bed.idle()
    bed.journal.clear()
    await bed.set_image(V2)
    await wave(bed, both(2, 1))
    await all_ready(bed, 2, 1)
    await wave(bed, both(0))
    await all_ready(bed, 0)
    await wave(bed, "")
    for node in ("node-3", "node-4"):
        assert uids(await bed.pods())[node] == before[node]["metadata"]["uid"], f"{node} keeps its pod"

    bed.nodes.behave("*", INSTANT)
    for node in ("node-3", "node-4"):
        await bed.nodes.regain(node)
    await bed.settled()
    await bed.runs_on(*nodes, image=V2)
    await wave(bed, both(3, 4))


@pytest.mark.parametrize("stuck", [False, True])
async def test_a_node_set_that_shrinks_with_a_new_image(bed: Bed, stuck: bool) -> None:
    await bed.add_nodes(5)
    for node in ("node-0", "node-1"):
        await bed.label_node(node, retired="yes")
        if stuck:
            bed.nodes.behave(node, Behaviour(terminate=None))
    await bed.deploy(daemonset())
    history = await film(bed)
    rest = requires({"matchExpressions": [{"key": "retired", "operator": "DoesNotExist"}]})
    containers = [{"name": "agent", "image": V2}]
    await bed.edit({"template": {"spec": {"affinity": rest, "containers": containers}}})
    await bed.settled()
    await bed.runs_on("node-2", "node-3", "node-4", image=V2)
    await bed.idle()
    assert sorted(bed.journal.deleted) == ["node-0", "node-1", "node-2", "node-3", "node-4"]
    assert sorted(bed.journal.created) == ["node-2", "node-3", "node-4"]
    left = [served & {"node-2", "node-3", "node-4"} for served in await history.served()]
    assert min(map(len, left)) == 2, "maxUnavailable is 1"
