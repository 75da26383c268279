"""Whatever users, nodes, pods and the network do: every write of the controller keeps the laws, and in the end
everything is in place and it falls silent."""

from __future__ import annotations

from hypothesis import Phase, settings

from tests.properties.rollout_machine import Rollouts

DEEP = settings.get_current_profile_name() == "deep"
"""`make test-deep` looks for new stories; `make test` tells the same hundred each time."""

TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(
    derandomize=not DEEP, deadline=None, phases=[Phase.generate, Phase.shrink], print_blob=False
)
