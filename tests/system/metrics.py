"""The controller's metrics, where a test asks for them."""

from __future__ import annotations

import msgspec

from controller.settings import Settings
from tests.control_plane.probe import get
from tests.system.bed import Bed


def with_metrics(bed: Bed, port: int) -> Settings:
    """The bed's settings, with the metrics served on loopback."""
    return msgspec.structs.replace(bed.controller.settings, metrics_address=f"127.0.0.1:{port}")


async def metric(port: int, name: str, **labels: str) -> float:
    """The sum over all series of that name that have these labels; 0 when there is none."""
    status, text = await get(f"http://127.0.0.1:{port}/metrics")
    assert status == 200, text
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    series = (line.rpartition(" ") for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)
    return sum(float(value) for head, _, value in series if all(label in head for label in wanted))
