"""What holds for all tests of the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugin import kept


@pytest.fixture(scope="package", autouse=True)
def _scenes_end() -> Iterator[None]:
    """Those too that are kept from test to test."""
    yield
    kept.end_all()
