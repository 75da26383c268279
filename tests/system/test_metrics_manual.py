"""docs/metrics.md tells what a running controller exposes."""

from __future__ import annotations

from tests.beds.controller.bed import Bed
from tests.tools.metrics_manual import PAGE, exposition, page


async def test_the_manual_is_up_to_date(bed: Bed) -> None:
    assert PAGE.read_text() == page(await exposition(bed)), "stale: make docs"
