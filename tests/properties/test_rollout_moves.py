"""Whatever users, nodes, pods and the network do: every write of the controller keeps the laws, and in the end
everything is in place and it falls silent."""

from __future__ import annotations

from hypothesis import Phase, settings

from tests.beds.objects import V2
from tests.properties.rollout_machine import Rollouts
from tests.properties.rollout_moves import Wish
from tests.properties.size import DEEP

TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(
    derandomize=not DEEP, deadline=None, phases=[Phase.generate, Phase.shrink], print_blob=False
)
"""`make test-deep` looks for new stories; `make test` tells the same hundred each time."""


def test_a_surge_whose_new_pods_fail_again_and_again() -> None:
    """Seldom told by chance: there is room for another surge, and the next in line waits out its back-off."""
    story = Rollouts()
    story.begin(count=4, wish=Wish(limits=5), how="well", troubles=(), ahead=0.0, wait=40.0)
    story.bad_version(image=V2, name="node-2", limits=5)
    story.teardown()
