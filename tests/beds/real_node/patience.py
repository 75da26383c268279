"""How long is waited on real nodes for what takes seconds."""

from __future__ import annotations

LONG = 180.0
"""Seconds. Nobody promises how fast a machine is: a wait ends with what it waits for, and this one only the rest."""
