"""The played kubelet changes running pods on both API servers; `unit.beds.test_played_kubelet` has all the cases."""

from __future__ import annotations

import pytest

from tests.beds.kubelet_cases import CASES, MISSING, image
from tests.beds.nodes import Behaviour
from tests.beds.watched_pod import watching
from tests.contract.bed import WAIT_SECONDS, ApiServer

QUICK = (
    "a_new_image_without_probe",
    "an_image_that_is_not_there",
    "an_init_container",
    "a_readiness_gate",
    "a_resize",
    "image_and_resources",
)


@pytest.mark.parametrize("case", QUICK)
async def test_a_running_pod_changes_in_place(bed: ApiServer, case: str) -> None:
    behaviour = Behaviour(missing_images=(image(MISSING),))
    async with (
        bed.nodes(behaviour=behaviour) as (_, (node,)),
        watching(bed.api, CASES[case].pod(node), WAIT_SECONDS) as pod,
    ):
        await CASES[case].play(pod)
