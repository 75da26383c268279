"""The nodes' stand-ins: scheduler and kubelets, for simulated and real API servers alike."""

from __future__ import annotations

from tests.beds.nodes.behaviour import DEAD, INSTANT, LIFELIKE, MANUAL, Behaviour
from tests.beds.nodes.play import Nodes

__all__ = ["DEAD", "INSTANT", "LIFELIKE", "MANUAL", "Behaviour", "Nodes"]
