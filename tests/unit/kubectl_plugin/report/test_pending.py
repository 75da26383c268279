"""What is waited for where nobody has looked at the newest spec, or another controller is in the way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase
from controller.api.status_writers import StatusWriters
from kubectl_plugin.report.status.reasons import reason_of, stated_reason_words
from kubectl_plugin.report.survey import Survey, survey
from tests.beds.snapshots import of_world
from tests.beds.worlds import ds, pod, world

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
    assert stated_reason_words(of_world(world(daemonset))) == why


def test_it_is_named_in_the_middle_of_a_rollout_too() -> None:
    status = DaemonSetStatus(observed_generation=1)

    def looked_at(**fields: Any) -> Survey:
        daemonset = replace(ds("v2"), status=status, **fields)
        return survey(of_world(world(daemonset, nodes=2, pods=(pod("node-0"), pod("node-1")))))

    seen = looked_at(status_writers=StatusWriters(ours=100.0, theirs=101.0, other="kruise-manager"))
    assert seen.phase is Phase.PROGRESSING
    assert reason_of(seen).text == "waiting for kruise-manager to stop writing the status"
    assert "kruise-manager" not in reason_of(looked_at()).text
