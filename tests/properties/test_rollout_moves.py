"""Whatever users, nodes, pods and the network do: every write of the controller keeps the laws, and in the end
everything is in place and it falls silent."""

from __future__ import annotations

from hypothesis import Phase, settings

from tests.properties.rollout_machine import Rollouts

TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(deadline=None, phases=[Phase.reuse, Phase.generate, Phase.shrink])
