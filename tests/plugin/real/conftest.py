"""The system tests' beds, for verbs that run as programs of their own against a real API server."""

from __future__ import annotations

from tests.system.conftest import account, plain_log, plane, real_bed

__all__ = ["account", "plain_log", "plane", "real_bed"]
