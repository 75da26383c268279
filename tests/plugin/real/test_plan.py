"""What the real API server would refuse of a change, `plan` refuses before."""

from __future__ import annotations

import os
import sys

import pytest

from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.controller.bed import Bed
from tests.beds.objects import daemonset

pytestmark = pytest.mark.real


async def test_what_the_server_would_refuse_is_refused_before(bed: Bed, plane: ControlPlane) -> None:
    await bed.deploy(daemonset(rolling={"maxSurge": 1}), nodes=1)
    words = ("-m", "kubectl_plugin", "plan", "agent", "--max-unavailable", "1", "-n", bed.api.namespace)
    environ = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    code, out, err = await run_to_end((sys.executable, *words), environ)
    assert (code, out) == (1, "")
    assert err.startswith("Error from server (Invalid): ")
    assert "maxUnavailable" in err
