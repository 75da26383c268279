"""The scene of most verbs that change something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugin.playing import Scene
from tests.plugin.verbs.few_nodes import few_nodes


@pytest.fixture
def scene() -> Iterator[Scene]:
    with few_nodes() as opened:
        yield opened
