"""A real kubelet goes through the cases of `kubelet_cases`: what the played one is measured by."""

from __future__ import annotations

import pytest

from tests.beds.kubelet_cases import ALIAS, CASES, CRASHING, SAME
from tests.beds.real_node.patience import LONG
from tests.beds.watched_pod import watching
from tests.real_node.place import Place

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

NODE = "node-1"


@pytest.fixture
def images(place: Place) -> None:
    """What the cases name, in the registry; the missing one is missing."""
    registry, made = place.ours.registry, place.ours.images
    for tag in ("v1", "v2", "v3"):
        registry.put(f"kubelet:{tag}", made.agent(tag))
    registry.put(f"kubelet:{ALIAS}", made.agent(SAME))
    registry.put(f"kubelet:{CRASHING}", made.agent(CRASHING, CRASH="1"))


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("case", CASES)
async def test_the_real_kubelet_does_it(place: Place, case: str) -> None:
    async with watching(place.api, CASES[case].pod(NODE), LONG) as pod:
        await CASES[case].play(pod)
