"""The two Grafana dashboards, described; `python -m tests.tools.monitoring` makes the JSON files of it.

`panels` knows Grafana's words, `rollouts` and `controller` say what is shown.
"""

from __future__ import annotations

from tests.tools.monitoring.dashboards.controller import controller
from tests.tools.monitoring.dashboards.panels import Document
from tests.tools.monitoring.dashboards.rollouts import rollouts


def dashboards() -> dict[str, Document]:
    """File name in manifests/grafana to its content."""
    return {"rollouts.json": rollouts(), "controller.json": controller()}
