"""A simulated cluster: an API server in memory that behaves like a real one where that matters."""

from __future__ import annotations

from tests.beds.simulator.cluster import Attempt, Cluster
from tests.beds.simulator.faults import FaultPlan, Rule
from tests.beds.simulator.server import serving
from tests.beds.simulator.transport import InProcess

__all__ = ["Attempt", "Cluster", "FaultPlan", "InProcess", "Rule", "serving"]
