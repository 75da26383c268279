"""Prometheus' binaries as pytest fixtures; `tests/conftest.py` names this file in `pytest_plugins`.

Where they cannot be had, the tests that ask for them are skipped (under `CI=true` they fail), and the run's last
lines say so and why.
"""

from __future__ import annotations

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.prometheus.binaries import Binaries, PrometheusUnavailable, obtain

PROMETHEUS = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def prometheus_binaries(request: pytest.FixtureRequest) -> Binaries:
    """prometheus and promtool; `python -m tests.beds.prometheus` gets them beforehand."""
    try:
        binaries = obtain()
    except PrometheusUnavailable as reason:
        request.config.stash[PROMETHEUS] = f"NOT RUN: {reason}"
        not_to_be_had(reason)
    request.config.stash[PROMETHEUS] = str(binaries.prometheus)
    return binaries


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end whether tests ran on a real Prometheus, where any asked for it."""
    if PROMETHEUS in config.stash:
        terminalreporter.line(f"prometheus: {config.stash[PROMETHEUS]}")
