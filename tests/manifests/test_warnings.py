"""What the API server warns about and accepts all the same (manifests/crds/warnings.yaml)."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from tests.manifests.objects import POD, ROLLING, daemonset
from tests.manifests.server import Server

pytestmark = pytest.mark.real

SHARED = {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": 1}
SECONDS = 30.0
"""A policy is in force some moments after it was stored."""


@pytest.fixture(scope="module")
def warning(server: Server) -> Server:
    """The server once its policies are in force."""
    deadline = time.monotonic() + SECONDS
    while not server.try_out(daemonset(SHARED)).accepted().warnings:
        assert time.monotonic() < deadline, "no policy is in force"
        time.sleep(0.1)  # nothing tells when it is
    return server


@pytest.mark.parametrize(
    "changes",
    [
        SHARED,
        SHARED | {f"{ROLLING}.maxSurge": "30%"},
        {f"{POD}.hostNetwork": True, f"{ROLLING}.rollingUpdateType": "Surging"},
    ],
)
def test_maxsurge_with_the_nodes_own_network(warning: Server, changes: Mapping[str, object]) -> None:
    (said,) = warning.try_out(daemonset(changes)).accepted().warnings
    assert "spec.updateStrategy.rollingUpdate.maxSurge with hostNetwork" in said
    assert "Set maxSurge to 0 and maxUnavailable to 1 or more" in said


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {f"{POD}.hostNetwork": True},
        {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": 0, f"{ROLLING}.maxUnavailable": 1},
        {f"{POD}.hostNetwork": True, f"{ROLLING}.maxSurge": "0%", f"{ROLLING}.maxUnavailable": 1},
        {f"{POD}.hostNetwork": False, f"{ROLLING}.maxSurge": 1},
        {f"{POD}.hostNetwork": True, "spec.updateStrategy.type": "OnDelete"},
    ],
)
def test_nothing_is_said_where_nothing_is_shared(warning: Server, changes: Mapping[str, object]) -> None:
    assert warning.try_out(daemonset(changes)).accepted().warnings == ()
