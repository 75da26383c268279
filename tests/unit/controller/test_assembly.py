"""What the parts are given of what was asked for."""

from __future__ import annotations

from controller.assembly import Parts
from controller.runtime.clock import system_clock
from controller.settings import Settings
from controller.telemetry.exposition import encoded
from tests.beds.scripted import Script


async def test_build_info_names_the_commit_that_the_image_was_built_from() -> None:
    parts = Parts(Settings(revision="4f2d1c0"), Script(), server="", refresh=None, clock=system_clock)
    text, _ = encoded(tuple(parts.metrics.families()))
    assert b'revision="4f2d1c0"' in text
