"""Prometheus' binaries as pytest fixtures; `tests/conftest.py` names this file in `pytest_plugins`.

Where they cannot be had, the tests that ask for them are skipped, with the reason (under `CI=true` they fail).
"""

from __future__ import annotations

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.prometheus.binaries import Binaries, PrometheusUnavailable, obtain


@pytest.fixture(scope="session")
def prometheus_binaries() -> Binaries:
    """prometheus and promtool; `python -m tests.beds.prometheus` gets them beforehand."""
    try:
        return obtain()
    except PrometheusUnavailable as reason:
        not_to_be_had(reason)
