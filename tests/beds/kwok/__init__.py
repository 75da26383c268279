"""kwok as the nodes of a bench: a compiled kubelet stand-in, so that no Python one takes the cores."""

from __future__ import annotations

from tests.beds.kwok.binary import obtain_kwok
from tests.beds.kwok.nodes import kwok_nodes

__all__ = ["kwok_nodes", "obtain_kwok"]
