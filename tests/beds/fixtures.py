"""What takes programs that are no Python packages, as pytest fixtures; `tests/conftest.py` names this file.

Where they cannot be had, the tests that ask for them are skipped, with the reason (under `CI=true` they fail).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from tests.beds import prometheus
from tests.beds.control_plane import Binaries, ControlPlane, obtain
from tests.beds.control_plane.sources import Unavailable
from tests.beds.gitops import GitOps, obtain_gitops
from tests.beds.helm import obtain_helm, run_helm
from tests.beds.kruise_rollouts import Rollouts, obtain_rollouts
from tests.beds.kube_state_metrics import obtain_kube_state_metrics
from tests.beds.real_node.binaries import NodeBinaries, missing, obtain_node

T = TypeVar("T")


def not_to_be_had(reason: Exception) -> NoReturn:
    """Skip the test with `reason`; under `CI=true` fail it, where a skipped test would be taken for a good one."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(str(reason), pytrace=False)
    pytest.skip(str(reason))


def had(obtain: Callable[[], T]) -> T:
    """What that gives, or `not_to_be_had`."""
    try:
        return obtain()
    except Unavailable as reason:
        not_to_be_had(reason)


@pytest.fixture(scope="session")
def control_plane_binaries() -> Binaries:
    """Of one Kubernetes; `python -m tests.beds.control_plane fetch` gets them beforehand."""
    return had(obtain)


@pytest.fixture(scope="session")
def control_plane(control_plane_binaries: Binaries) -> Iterator[ControlPlane]:
    """One control plane for the whole run, without scheduler: a test takes a namespace of its own in it.

    A test that breaks its control plane, or counts nodes that others also add, starts its own.
    """
    plane = ControlPlane(control_plane_binaries, audit=True)  # it belongs to no loop: those of tests differ
    asyncio.run(plane.__aenter__())
    yield plane
    asyncio.run(plane.__aexit__(None, None, None))


Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """`run_helm` with a home of its own; where helm cannot be had, the test is skipped (under `CI=true` it fails)."""
    return partial(run_helm, had(obtain_helm), home=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def gitops() -> GitOps:
    """What Flux and Argo CD make of objects; `python -m tests.beds` gets it beforehand."""
    return had(obtain_gitops)


@pytest.fixture(scope="session")
def kruise_rollouts() -> Rollouts:
    """Its manager, manifests and examples; `python -m tests.beds` gets them beforehand."""
    return had(obtain_rollouts)


@pytest.fixture(scope="session")
def kube_state_metrics() -> Path:
    """The program; `python -m tests.beds` gets it beforehand."""
    return had(obtain_kube_state_metrics)


@pytest.fixture(scope="session")
def prometheus_binaries() -> prometheus.Binaries:
    """prometheus and promtool; `python -m tests.beds` gets them beforehand."""
    return had(prometheus.obtain)


@pytest.fixture(scope="session")
def node_binaries() -> NodeBinaries:
    """What a node runs; `python -m tests.beds.real_node fetch` gets it beforehand."""
    if reasons := missing():
        pytest.skip(f"this machine can have no real nodes: {'; '.join(reasons)}")
    return had(obtain_node)
