"""What is made from other files is up to date, and the operator reads what promtool has tried."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.beds.manifests import MANIFESTS
from tests.tools.monitoring.render import RULES, rendered, with_runbooks


@pytest.mark.parametrize("path", rendered(), ids=lambda path: path.name)
def test_it_is_up_to_date(path: Path) -> None:
    assert path.read_text() == rendered()[path], "stale: python -m tests.tools.monitoring"


def test_the_operators_object_has_the_plain_rules() -> None:
    made = yaml.safe_load((MANIFESTS / "components/prometheus/prometheusrule.yaml").read_text())
    assert made["spec"] == yaml.safe_load(RULES.read_text())


def test_the_place_of_the_runbooks_is_set_for_all_alerts_at_once() -> None:
    rules = RULES.read_text()
    moved = with_runbooks(rules, "https://wiki.example.org/pages/")
    assert moved.count("runbook_url: https://wiki.example.org/pages/Kruise") == rules.count("runbook_url:")
    assert with_runbooks(moved, "docs/runbooks") == rules
