"""docs/metrics.md tells what a running controller exposes."""

from __future__ import annotations

from tests.metrics_manual import PAGE, exposition, page
from tests.system.bed import Bed


async def test_the_manual_is_up_to_date(simulator: Bed) -> None:
    assert PAGE.read_text() == page(await exposition(simulator)), "stale: make docs"
