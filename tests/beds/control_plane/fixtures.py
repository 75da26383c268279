"""The control plane as pytest fixtures; `tests/conftest.py` names this file in `pytest_plugins`.

Where it cannot be had, the tests that ask for it are skipped, with the reason (under `CI=true` they fail).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.control_plane import Binaries, ControlPlane, ControlPlaneUnavailable, obtain


@pytest.fixture(scope="session")
def control_plane_binaries() -> Binaries:
    """The binaries, perhaps without controllers; `python -m tests.beds.control_plane fetch` gets them beforehand."""
    try:
        return obtain()
    except ControlPlaneUnavailable as reason:
        not_to_be_had(reason)


@pytest.fixture(scope="session")
def complete_binaries(control_plane_binaries: Binaries) -> Binaries:
    """The binaries with controllers and scheduler; skips, with the reason, where they are the published three."""
    if control_plane_binaries.kube_controller_manager is None or control_plane_binaries.kube_scheduler is None:
        pytest.skip(f"{control_plane_binaries.folder} holds no kube-controller-manager or no kube-scheduler")
    return control_plane_binaries


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """One control plane for the whole run, without scheduler: a test takes a namespace of its own in it.

    A test that breaks its control plane, or counts nodes that others also add, starts its own.
    """
    plane = ControlPlane(control_plane_binaries, audit=True)  # it belongs to no loop: those of tests differ
    asyncio.run(plane.__aenter__())
    yield plane
    asyncio.run(plane.__aexit__(None, None, None))
