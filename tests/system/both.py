"""Which tests ask the real control plane too: those in which the server itself decides, and a story per feature."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.controller.bed import Bed

SIMULATOR, CONTROL_PLANE = "simulator", "control-plane"

both_beds = pytest.mark.parametrize(
    "opened", [SIMULATOR, pytest.param(CONTROL_PLANE, marks=pytest.mark.real)], indirect=True
)
"""On the simulator and on the real control plane: the server has a say in this. Without it, the simulator alone."""


async def a_while(bed: Bed, seconds: float) -> None:
    """So long in virtual time; a twentieth of it where time is real."""
    await asyncio.sleep(seconds if bed.plane is None else seconds / 20)
