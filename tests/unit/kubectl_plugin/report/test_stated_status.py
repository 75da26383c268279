"""How a rollout stands by counts alone, where no controller of ours keeps a record."""

from __future__ import annotations

import msgspec
import pytest

from controller.api.daemonset import DaemonSetStatus, Phase, Rollout
from controller.api.number import IntOrPercent
from kubectl_plugin.report.stated_status import phase_in, stated_rollout
from tests.beds.worlds import ds


@pytest.mark.parametrize(
    ("partition", "counts", "phase", "progress"),
    [
        (16, (24, 24, 8, 24), "Held", (8, 8)),
        ("67%", (24, 24, 8, 24), "Held", (8, 8)),
        (16, (24, 24, 8, 23), "Held", (8, 8)),
        (16, (24, 24, 5, 24), "Progressing", (5, 8)),
        (16, (24, 24, 24, 24), "Healthy", (8, 8)),
        (16, (24, 9, 9, 8), "Progressing", (8, 24)),
        (40, (24, 24, 0, 24), "Held", (0, 0)),
        (0, (24, 24, 24, 24), "Healthy", (24, 24)),
        (0, (24, 24, 24, 20), "Degraded", (20, 24)),
        ("most", (24, 24, 8, 24), "Progressing", (8, 24)),
    ],
)
def test_the_partition_is_no_part_of_the_target(
    partition: IntOrPercent, counts: tuple[int, int, int, int], phase: str, progress: tuple[int, int]
) -> None:
    desired, scheduled, updated, available = counts
    status = DaemonSetStatus(
        observed_generation=1,
        desired_number_scheduled=desired,
        current_number_scheduled=scheduled,
        updated_number_scheduled=updated,
        number_available=available,
    )
    told = stated_rollout(msgspec.structs.replace(ds(partition=partition), status=status))
    assert (told.phase, (told.done, told.target)) == (phase, progress)


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_that_the_record_names_is_taken_at_its_word(phase: Phase) -> None:
    assert phase_in(Rollout(phase=phase.value)) is phase


def test_a_phase_of_a_later_controller_is_neither_an_end_nor_a_failure() -> None:
    assert phase_in(Rollout(phase="Verifying")) is Phase.PROGRESSING
