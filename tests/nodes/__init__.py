"""The nodes' stand-ins: scheduler and kubelets, for simulated and real API servers alike."""

from __future__ import annotations

from tests.nodes.behaviour import DEAD, INSTANT, LIFELIKE, MANUAL, Behaviour
from tests.nodes.play import Nodes

__all__ = ["DEAD", "INSTANT", "LIFELIKE", "MANUAL", "Behaviour", "Nodes"]
