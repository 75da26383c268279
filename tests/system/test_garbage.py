"""The controller in a process that goes on after it: of Python's garbage collector too it keeps nothing."""

from __future__ import annotations

import gc
from unittest.mock import patch

import pytest

from controller import app
from tests.beds.controller.opening import simulated
from tests.beds.objects import daemonset
from tests.beds.virtual_time import clock, virtual_time


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_what_was_spared_while_it_ran_is_collected_again(way: str) -> None:
    @virtual_time
    async def run() -> None:
        async with simulated(clock=clock) as bed:
            await bed.add_nodes(1)
            await bed.deploy(daemonset())
            assert gc.get_freeze_count() > before
            await getattr(bed.controller, way)()
            assert gc.get_freeze_count() == before

    before = gc.get_freeze_count()
    with patch.object(app, "gc", gc):
        run()
