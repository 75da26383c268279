"""kwok as the nodes of a bench: a compiled kubelet stand-in, so that no Python one takes the cores."""

from __future__ import annotations

from pathlib import Path

from tests.beds.control_plane.golang import obtain_go_tool
from tests.beds.kwok.nodes import kwok_nodes

__all__ = ["kwok_nodes", "obtain_kwok"]


def obtain_kwok() -> Path:
    """The path of kwok, built when the cache has none; raises `Unavailable`."""
    return obtain_go_tool(Path(__file__).parent, "kwok")
