"""`make demo-node`, from nothing to nothing, with nodes of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.beds.control_plane.access import run_to_end
from tests.beds.real_node.node import LONG

pytestmark = [
    pytest.mark.real,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("control_plane_binaries", "node_binaries"),
]


async def test_the_demo_tells_its_story_to_the_end(controller_image: Path | None) -> None:
    if controller_image is None:
        pytest.skip("it runs on nodes of its own only")
    command = (sys.executable, "-m", "tests.tools.demo.on_nodes", str(controller_image))
    code, out, err = await run_to_end(command, os.environ, seconds=5 * LONG)
    assert code == 0, out + err
    assert "nobody had to wait" in out
    assert out.rstrip().endswith("all of it is gone")
