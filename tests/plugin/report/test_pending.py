"""What is waited for where nobody has looked at the newest spec yet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus
from controller.api.managed import StatusWriters
from kubectl_plugin.report.status.reasons import stated_why
from tests.builders import ds, world
from tests.plugin.snapshots import of_world

NOBODY = "waiting for a controller to see generation 1 (last seen: none)"


@pytest.mark.parametrize(
    ("writers", "why"),
    [
        (StatusWriters(), NOBODY),
        (StatusWriters(ours=100.0), NOBODY),
        (StatusWriters(ours=101.0, theirs=100.0, other="kruise-manager"), NOBODY),
        (
            StatusWriters(ours=100.0, theirs=101.0, other="kruise-manager"),
            "waiting for kruise-manager to stop writing the status; last seen: generation none",
        ),
    ],
)
def test_another_controller_that_wrote_the_status_after_ours_is_named(writers: StatusWriters, why: str) -> None:
    daemonset = replace(ds(), status=DaemonSetStatus(), status_writers=writers)
    assert stated_why(of_world(world(daemonset))) == why
