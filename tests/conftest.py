"""What every test may use."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.beds.fixtures"]

settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
"""Hypothesis' own, or its own for CI, but for its time limits: how fast a busy machine is says nothing about us."""

settings.register_profile(
    "deep", max_examples=3000, stateful_step_count=50, deadline=None, derandomize=False, print_blob=False
)
"""`make test-deep`: new examples each time, in CI too. How many there are every day: `tests.properties.size`."""

gc.set_threshold(200_000, 20, 20)
"""A simulated cluster makes and drops many objects: with Python's own limits every tenth second of a run is spent on
looking for cycles."""

PROGRAMS: Final = frozenset(
    {
        "control_plane_binaries",
        "gitops",
        "helm",
        "kruise_rollouts",
        "kube_state_metrics",
        "node_binaries",
        "prometheus_binaries",
    }
)
"""Fixtures of programs that are no Python packages: built, unpacked or downloaded on first use."""


SPINS_AFTER: Final = 480.0
"""Seconds of processor time: more than any test needs, and than Hypothesis takes to shrink an example. Waits, also
for a busy machine, take none."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends the process of a test that spins, as a fault may make it in virtual time, where no clock ends it.
    pytest-xdist reports the test as failed, and runs the others."""
    unlimited = item.get_closest_marker("real") or settings.get_current_profile_name() == "deep"
    signal.setitimer(signal.ITIMER_PROF, 0.0 if unlimited else SPINS_AFTER)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs such a program as `real`: `make test` leaves it out, `make test-all` runs it.

    Of these, the first file of each folder comes first, then the second of each: some folders wait, others compute.
    """
    places, counted = dict[Path, int](), Counter[Path]()
    for item in items:
        if not PROGRAMS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("real")
        if item.get_closest_marker("real") and item.path not in places:
            counted[item.path.parent] += 1
            places[item.path] = counted[item.path.parent]
    items.sort(key=lambda item: places[item.path] if item.get_closest_marker("real") else 0)


def pytest_collection_finish() -> None:
    """Leave all that was imported out of the search for cycles from now on."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a failure with a seed: the one command that repeats it."""
    seed = config.getoption("--hypothesis-seed", None)
    if seed is None:
        return
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        terminalreporter.line(f"repeat it with: make test-deep SEED={seed} TESTS='{report.nodeid}'")
