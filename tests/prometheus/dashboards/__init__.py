"""The two Grafana dashboards, as descriptions from which `python -m tests.prometheus render` makes the JSON files.

`panels` knows Grafana's words, `rollouts` and `controller` say what is shown.
"""

from __future__ import annotations

from tests.prometheus.dashboards.controller import controller
from tests.prometheus.dashboards.panels import Document
from tests.prometheus.dashboards.rollouts import rollouts


def dashboards() -> dict[str, Document]:
    """File name in manifests/grafana to its content."""
    return {"rollouts.json": rollouts(), "controller.json": controller()}
