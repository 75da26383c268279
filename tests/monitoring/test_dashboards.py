"""The dashboards: every Grafana can show them, and promtool can read every query; what is made is up to date."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.manifests import MANIFESTS
from tests.beds.prometheus import Binaries
from tests.monitoring.queries import documents, of_dashboards, of_rules, of_variables, reads
from tests.tools.monitoring.render import RULES, rendered, with_runbooks

BUILT_IN = {"row", "stat", "table", "timeseries", "gauge", "bargauge", "state-timeline"}
"""Panels that no plugin brings."""


@pytest.fixture(params=documents())
def document(request: pytest.FixtureRequest) -> Any:
    return documents()[request.param]


def test_promtool_can_read_every_query(prometheus_binaries: Binaries, tmp_path: Path) -> None:
    selectors = [selector for _, selector, _ in of_variables()]
    expressions = [*(asked.expression for asked in of_dashboards()), *selectors]
    rules = [{"record": f"query:{number}", "expr": text} for number, text in enumerate(expressions)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run(
        [prometheus_binaries.promtool, "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(expressions)} rules found" in done.stdout


def test_no_variable_is_left_without_a_value() -> None:
    assert [asked.place for asked in of_dashboards() if "$" in asked.expression] == []


def test_datasource_cluster_namespace_and_daemonset_can_be_chosen(document: Any) -> None:
    variables = document["templating"]["list"]
    assert (variables[0]["name"], variables[0]["type"]) == ("datasource", "datasource")
    names = [one["name"] for one in documents()["rollouts.json"]["templating"]["list"]]
    assert names == ["datasource", "cluster", "namespace", "daemonset"]


def test_panels_need_no_plugin_and_read_the_same_whatever_time_is_shown(document: Any) -> None:
    """A line that keeps only what equals a number lies on all others of its kind: bars tell them apart. Shares,
    quantiles and sums by themselves are numbers; of what comes per second the axis says so."""
    for panel in document["panels"]:
        title, targets = panel["title"], panel.get("targets", ())
        assert title, panel["type"]
        assert panel["type"] in BUILT_IN, title
        for target in targets:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, title
            assert target["instant"] or not re.search(r"\$__range|increase\(", target["expr"]), title
            if panel["type"] == "timeseries":
                assert target["legendFormat"] != "__auto", title
                assert not re.search(r"== \d+$", target["expr"]), title
        if panel["type"] == "timeseries" and all("rate(" in target["expr"] for target in targets):
            assert panel["fieldConfig"]["defaults"]["unit"] != "short", title


def test_panels_have_ids_of_their_own_and_do_not_overlap(document: Any) -> None:
    panels = document["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in itertools.combinations(panels, 2):
        assert apart(one["gridPos"], other["gridPos"]), f"{one['title']} and {other['title']}"
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def apart(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] + one["w"] <= other["x"]
        or other["x"] + other["w"] <= one["x"]
        or one["y"] + one["h"] <= other["y"]
        or other["y"] + other["h"] <= one["y"]
    )


def test_the_budget_is_used_by_the_nodes_that_the_alerts_count() -> None:
    (used,) = (panel for panel in documents()["rollouts.json"]["panels"] if panel["title"] == "Budget used")
    matchers = '{cluster=~"$cluster",namespace=~"$namespace",daemonset=~"$daemonset"}'
    (target,) = used["targets"]
    (rule,) = (one for one in of_rules() if one.place.endswith("kruise_daemonset_unserved_nodes:max"))
    counted, _, _ = rule.expression.partition("unless")  # those that surge: another limit
    assert squeezed(counted) in squeezed(target["expr"].replace(matchers, ""))


def squeezed(expression: str) -> str:
    """Without blanks and brackets."""
    return re.sub(r"[\s()]", "", expression)


def test_what_a_query_reads_is_found_out() -> None:
    found = reads(
        'sum by (le, pod) (rate(a_bucket{x="1",y=~".*"}[5m])) / on (z) clamp_min(b, 1e5) - time() * c{y!="(\\"}"} > 5'
    )
    assert found.metrics == {"a_bucket": {"x", "y"}, "b": set(), "c": {"y"}}
    assert found.groups == {"le", "pod", "z"}


@pytest.mark.parametrize("path", rendered(), ids=lambda path: path.name)
def test_a_made_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == rendered()[path], "stale: python -m tests.tools.monitoring"


def test_the_operators_object_has_the_plain_rules() -> None:
    made = yaml.safe_load((MANIFESTS / "components/prometheus/prometheusrule.yaml").read_text())
    assert made["spec"] == yaml.safe_load(RULES.read_text())


def test_the_place_of_the_runbooks_is_set_for_all_alerts_at_once() -> None:
    rules = RULES.read_text()
    moved = with_runbooks(rules, "https://wiki.example.org/pages/")
    assert moved.count("runbook_url: https://wiki.example.org/pages/Kruise") == rules.count("runbook_url:")
    assert with_runbooks(moved, "docs/runbooks") == rules
