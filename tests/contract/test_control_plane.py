"""The control plane of the tests, on the real binaries: it starts, verifies, and leaves nothing."""

from __future__ import annotations

import pytest

from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.control_plane.access import get

pytestmark = pytest.mark.real


async def test_it_serves_with_a_certificate_that_verifies_and_leaves_nothing(
    control_plane_binaries: Binaries,
) -> None:
    async with ControlPlane(control_plane_binaries, controllers=()) as plane:
        status, body = await get(f"{plane.url}/readyz", token=plane.token, certificates=plane.ca_path)
        assert (status, body) == (200, "ok")
        etcd = plane.process("etcd")
    assert etcd.returncode is not None, "etcd has ended"
    assert not plane.folder.exists()
