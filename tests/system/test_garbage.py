"""The controller in a process that goes on after it: of Python's garbage collector too it keeps nothing."""

from __future__ import annotations

import gc

import pytest

from controller import app
from tests.beds.controller.bed import Bed
from tests.beds.objects import daemonset


@pytest.mark.parametrize("way", ["stop", "kill"])
async def test_what_was_spared_while_it_ran_is_collected_again(bed: Bed, way: str) -> None:
    await bed.add_nodes(1)
    await bed.controller.stop()
    gc.unfreeze()  # whatever another test has left
    bed.controller.options = app.ProcessOptions(measures_lag=False, freezes_garbage=True, watchdog=None)
    bed.controller.start()
    await bed.deploy(daemonset())
    assert gc.get_freeze_count() > 0
    await getattr(bed.controller, way)()
    assert gc.get_freeze_count() == 0
