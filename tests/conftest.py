"""What every test may use."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.beds.control_plane.fixtures", "tests.beds.prometheus.fixtures"]

settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
"""Hypothesis' own, or its own for CI, but for its time limits: how fast a busy machine is says nothing about us."""

settings.register_profile("deep", max_examples=3000, stateful_step_count=50, deadline=None, print_blob=True)
"""`make test-deep`: for property tests that leave their size to the profile. Their usual one is Hypothesis' own."""
