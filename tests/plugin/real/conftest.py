"""The system tests' beds, for verbs that run as programs of their own against a real API server."""

from __future__ import annotations

from tests.system.conftest import account, plain_log, plane
from tests.system.conftest import real_bed as bed

__all__ = ["account", "bed", "plain_log", "plane"]
