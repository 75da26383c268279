"""Which tests ask the real control plane too: those in which the server itself decides, and a story per feature."""

from __future__ import annotations

import pytest

SIMULATOR, CONTROL_PLANE = "simulator", "control-plane"

both_beds = pytest.mark.parametrize(
    "opened", [SIMULATOR, pytest.param(CONTROL_PLANE, marks=pytest.mark.real)], indirect=True
)
"""On the simulator and on the real control plane: the server has a say in this. Without it, the simulator alone."""
