"""What holds for all tests of the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.beds.controller.running import unhurried
from tests.plugin import kept


@pytest.fixture(scope="package", autouse=True)
def _scenes_play_in_virtual_time_and_end() -> Iterator[None]:
    """Those too that are kept from test to test."""
    with unhurried():
        yield
        kept.end_all()
