"""A real Prometheus, and promtool, for the tests of alerts, dashboards and scraping.

`obtain()` finds or fetches both; nothing is installed and no service of the machine is started.
"""

from __future__ import annotations

from tests.beds.prometheus.binaries import Binaries, obtain

__all__ = ["Binaries", "obtain"]
