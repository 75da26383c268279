"""The played kubelet goes through the cases of `kubelet_cases`, as real ones do in `real_node.test_kubelet`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.beds.api import Api, Object
from tests.beds.kubelet_cases import ALIAS, CASES, CRASHING, MISSING, SAME, SLOW, Case, image
from tests.beds.nodes import Behaviour, Nodes
from tests.beds.simulator import Cluster, InProcess
from tests.beds.virtual_time import clock, run
from tests.beds.watched_pod import watching

INSTANT = Behaviour(
    missing_images=(image(MISSING),),
    crashing_images=(image(CRASHING),),
    aliases={image(ALIAS): image(SAME)},
    pulls={image(SLOW): 5.0},
    memory_in_use="5Mi",
)
BEHAVIOURS = {
    "instant": INSTANT,
    "slow": replace(INSTANT, notice=0.1, terminate=0.1, pull=0.2, start=0.1, ready=0.5, gate=0.1, resize=0.1),
}


def behaves(case: Case, behaviour: Behaviour) -> Behaviour:
    """As the node of the case does."""
    terminate = behaviour.terminate if case.stops == 0.0 else case.stops
    return replace(behaviour, terminate=terminate, resizes="Infeasible" if case.own_cpus else "")


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("case", CASES)
def test_the_played_kubelet_does_it(case: str, behaviour: str) -> None:
    async def story() -> None:
        played = behaves(CASES[case], BEHAVIOURS[behaviour])
        async with Nodes(InProcess(cluster := Cluster(clock)), behaviour=played, clock=clock) as nodes:
            await nodes.add("node-1", allocatable={"cpu": "2"})

            async def environment(pod: Object) -> Mapping[str, str]:
                return nodes.environment_of(pod)

            one = CASES[case].pod("node-1")
            async with watching(Api(InProcess(cluster)), one, 120.0, environment) as pod:
                await CASES[case].play(pod)

    run(story())
