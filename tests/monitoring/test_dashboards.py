"""The dashboards as documents: every Grafana can show them, and promtool can read every query."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.prometheus import Binaries
from tests.monitoring.queries import documents, of_dashboards, of_rules, of_variables, reads

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


def test_no_variable_is_left_that_nobody_fills_in() -> None:
    assert [asked.place for asked in of_dashboards() if "$" in asked.expression] == []


def test_panels_need_no_plugin_and_the_datasource_is_chosen(document: Any) -> None:
    for panel in document["panels"]:
        assert panel["type"] in BUILT_IN, panel["title"]
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
    (source, *_) = document["templating"]["list"]
    assert (source["name"], source["type"]) == ("datasource", "datasource")


def test_every_panel_has_a_title_and_lines_are_stable_over_time(document: Any) -> None:
    for panel in document["panels"]:
        assert panel["title"], panel["type"]
        for target in panel.get("targets", ()):
            assert target["instant"] or not re.search(r"\$__range|increase\(", target["expr"]), panel["title"]


def test_every_line_has_a_name_and_is_not_always_the_same(document: Any) -> None:
    """Where a query keeps only what equals a number, all its lines lie on one another: bars tell them apart."""
    for panel in document["panels"]:
        if panel["type"] == "timeseries":
            for target in panel["targets"]:
                assert target["legendFormat"] != "__auto", panel["title"]
                assert not re.search(r"== \d+$", target["expr"]), panel["title"]


def test_a_rate_has_a_unit(document: Any) -> None:
    """Shares, quantiles and sums by themselves are numbers; of what comes per second the axis says so."""
    for panel in document["panels"]:
        if panel["type"] == "timeseries" and all("rate(" in target["expr"] for target in panel["targets"]):
            assert panel["fieldConfig"]["defaults"]["unit"] != "short", panel["title"]


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


def test_rollouts_can_be_chosen_by_cluster_namespace_and_daemonset() -> None:
    names = [variable["name"] for variable in documents()["rollouts.json"]["templating"]["list"]]
    assert names == ["datasource", "cluster", "namespace", "daemonset"]


def test_what_a_query_reads_is_found_out() -> None:
    found = reads(
        'sum by (le, pod) (rate(a_bucket{x="1",y=~".*"}[5m])) / on (z) clamp_min(b, 1e5) - time() * c{y!="(\\"}"} > 5'
    )
    assert found.metrics == {"a_bucket": {"x", "y"}, "b": set(), "c": {"y"}}
    assert found.groups == {"le", "pod", "z"}
