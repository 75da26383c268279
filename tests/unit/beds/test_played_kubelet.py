"""The played kubelet goes through the cases of `kubelet_cases`, as real ones do in `real_node.test_kubelet`."""

from __future__ import annotations

import pytest

from tests.beds.api import Api
from tests.beds.kubelet_cases import ALIAS, CASES, CRASHING, MISSING, SAME, image
from tests.beds.nodes import Behaviour, Nodes
from tests.beds.simulator import Cluster, InProcess
from tests.beds.virtual_time import clock, run
from tests.beds.watched_pod import watching

REAL_IN_ALL_BUT_TIME = Behaviour(
    missing_images=(image(MISSING),),
    crashing_images=(image(CRASHING),),
    aliases={image(ALIAS): image(SAME)},
    memory_in_use="5Mi",
)
BEHAVIOURS = {
    "instant": REAL_IN_ALL_BUT_TIME,
    "slow": Behaviour(
        missing_images=REAL_IN_ALL_BUT_TIME.missing_images,
        crashing_images=REAL_IN_ALL_BUT_TIME.crashing_images,
        aliases=REAL_IN_ALL_BUT_TIME.aliases,
        memory_in_use="5Mi",
        notice=0.1,
        terminate=0.1,
        pull=0.2,
        start=0.1,
        ready=0.5,
        gate=0.1,
        resize=0.1,
    ),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("case", CASES)
def test_the_played_kubelet_does_it(case: str, behaviour: str) -> None:
    async def story() -> None:
        async with Nodes(InProcess(cluster := Cluster(clock)), behaviour=BEHAVIOURS[behaviour], clock=clock) as nodes:
            await nodes.add("node-1")
            async with watching(Api(InProcess(cluster)), CASES[case].pod("node-1"), 120.0) as pod:
                await CASES[case].play(pod)

    run(story())
