"""New images for one launch priority after the other, within one pod."""

from __future__ import annotations

from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1
from tests.system.in_place import by_priority, identities, in_place, is_open, restarts
from tests.system.monitor import monitoring


def in_turn(image: str) -> Object:
    return {"containers": by_priority(image, agent="p_1", first="p_9")}


async def test_another_name_of_the_same_bits_keeps_the_next_priority_waiting_for_some_seconds_only(bed: Bed) -> None:
    """Nothing proves that the container runs which that name asked for."""
    alias = "registry.example/agent:same"
    nodes = await bed.deploy(in_place(pod=in_turn(V1)), nodes=2)
    before = identities(await bed.pods())
    bed.nodes.behave("*", Behaviour(notice=0.1, terminate=0.2, gate=0.1, aliases={alias: V1}))
    bed.patience = 120.0
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": {"spec": in_turn(alias)}})
        await bed.settled()
    after = await bed.runs_on(*nodes, image=alias)
    assert identities(after) == before
    for pod in after.values():
        assert [restarts(pod, name) for name in ("agent", "first")] == [1, 1]
        assert is_open(pod)
