"""When waiting is over because of the deadline: by the controller's word, or a minute after it would have been."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.meta import rfc3339
from kubectl_plugin.failures import ExitCode
from kubectl_plugin.report.status.brief import brief_of
from kubectl_plugin.report.status.endings import Awaited, ending_of
from kubectl_plugin.report.survey import Survey, survey
from tests.beds.snapshots import of_world
from tests.beds.worlds import ago, ds, pod, served, world

DEADLINE = 600.0


def overdue(seconds: float, *, told: Phase = Phase.PROGRESSING) -> Survey:
    """node-1 has had its new pod for long and it is not ready; the deadline passed `seconds` ago."""
    record = Rollout(
        phase=told,
        start_time=rfc3339(ago(3000)),
        last_transition_time=rfc3339(ago(seconds if told is Phase.STALLED else 3000)),
        last_progress_time=rfc3339(ago(DEADLINE + seconds)),
        most_updated=1,
        target=2,
    )
    status = DaemonSetStatus(observed_generation=1, update_revision="v2", rollout=record)
    pods = (*served("node-0"), pod("node-1", "v2", ready=None, created=ago(2000)))
    return survey(of_world(world(replace(ds("v2"), status=status), pods=pods, nodes=2)))


@pytest.mark.parametrize(
    ("seconds", "given", "code"),
    [
        (-1.0, {}, None),
        (1.0, {}, None),
        (59.0, {}, None),
        (60.0, {}, ExitCode.STUCK),
        (61.0, {}, ExitCode.STUCK),
        (1.0, {"told": Phase.STALLED}, ExitCode.STUCK),
    ],
)
def test_the_clock_of_this_machine_alone_is_not_trusted_for_a_minute(
    seconds: float, given: dict[str, Any], code: int | None
) -> None:
    seen = overdue(seconds, **given)
    assert seen.phase is (Phase.STALLED if seconds >= 0 else Phase.PROGRESSING)
    ending = ending_of(brief_of(seen), Awaited())
    assert (ending and ending.code) == code
