"""The played kubelet changes running pods on both API servers; `unit.beds.test_played_kubelet` has all the cases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.beds.api import Object
from tests.beds.kubelet_cases import CASES, MISSING, image
from tests.beds.nodes import Behaviour
from tests.beds.watched_pod import watching
from tests.contract.bed import WAIT_SECONDS, ApiServer

QUICK = (
    "a_new_image_without_probe",
    "an_image_that_is_not_there",
    "an_init_container",
    "a_label_that_the_environment_reads",
    "a_readiness_gate",
    "a_resize",
    "a_resize_that_waits_for_room",
    "a_resize_that_no_node_like_this_can_do",
    "image_and_resources",
)


@pytest.mark.parametrize("case", QUICK)
async def test_a_running_pod_changes_in_place(bed: ApiServer, case: str) -> None:
    behaviour = Behaviour(missing_images=(image(MISSING),))
    async with bed.nodes(behaviour=behaviour) as (nodes, (node,)):

        async def environment(pod: Object) -> Mapping[str, str]:
            return nodes.environment_of(pod)

        async with watching(bed.api, CASES[case].pod(node), WAIT_SECONDS, environment) as pod:
            await CASES[case].play(pod)
