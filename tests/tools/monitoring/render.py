"""What is made from other files: the PrometheusRule from the plain rules, the dashboards from their descriptions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.beds.manifests import MANIFESTS
from tests.tools.monitoring.dashboards import dashboards

RULES = MANIFESTS / "alerts" / "rules.yaml"
WIDTH = 118
HEAD = """\
# Made from ../../alerts/rules.yaml by `python -m tests.tools.monitoring`: edit that one.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kruise-ds
  namespace: kruise-ds-system
spec:
"""


def with_runbooks(rules: str, place: str) -> str:
    """The rules with every `runbook_url` below this place, such as https://wiki.example.org/docs/runbooks."""
    return re.sub(r"(?<=runbook_url: )\S+/(?=\w+\.md$)", f"{place.rstrip('/')}/", rules, flags=re.MULTILINE)


def rendered() -> dict[Path, str]:
    """Every file that is made, with what has to be in it."""
    found = {MANIFESTS / "components/prometheus/prometheusrule.yaml": prometheus_rule(RULES.read_text())}
    for name, content in dashboards().items():
        found[MANIFESTS / "grafana" / name] = as_json(content) + "\n"
    return found


def prometheus_rule(rules: str) -> str:
    """The operator's object: its spec is what Prometheus reads, comments and all."""
    groups = rules[rules.index("groups:") :]
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(keepends=True))


def as_json(value: Any, indent: int = 0) -> str:
    """JSON that shows a change where it is: what fits on a line stands on one, everything else on several."""
    line = json.dumps(value)
    if indent + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(name)}: {as_json(part, indent + 2)}" for name, part in value.items()]
    else:
        parts = [f"{inner}{as_json(part, indent + 2)}" for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, ",\n".join(parts), " " * indent + closing])


def write() -> list[Path]:
    """Bring every made file up to date; returns those that were not."""
    stale = [(path, text) for path, text in rendered().items() if not path.exists() or path.read_text() != text]
    for path, text in stale:
        path.write_text(text)
    return [path for path, _ in stale]
