"""The alerts: sound rules, each tried by promtool where it must fire and where it must not, with a runbook each; and
docs/monitoring.md, whose configuration is one and whose table has them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.manifests import MANIFESTS
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import MONITOR

RULES = MANIFESTS / "alerts" / "rules.yaml"
CASES = tuple(sorted((Path(__file__).parent / "alerts").glob("*.yaml")))
DOCS = MANIFESTS.parent / "docs"
RUNBOOKS, MANUAL = DOCS / "runbooks", DOCS / "monitoring.md"
SEVERITIES = {"info", "warning", "critical"}


def alerts() -> list[dict[str, Any]]:
    """All alerts of the rules. One may be there twice, with two severities."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


NAMES = {rule["alert"] for rule in alerts()}


def promtool(binaries: Binaries, *words: str | Path) -> None:
    """It must succeed; what it says otherwise is the failure."""
    done = subprocess.run([binaries.promtool, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_rules(prometheus_binaries: Binaries) -> None:
    promtool(prometheus_binaries, "check", "rules", "--lint=all", "--lint-fatal", RULES)


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_the_alerts_fire_when_they_should_and_say_why(cases: Path, prometheus_binaries: Binaries) -> None:
    promtool(prometheus_binaries, "test", "rules", cases)


def test_each_alert_has_a_case_in_which_it_fires_and_one_it_does_not() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for path in CASES:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case.get("exp_alerts") else silent).add(case["alertname"])
    assert fires == NAMES
    assert silent == NAMES


def test_there_are_the_alerts_that_the_documents_name() -> None:
    assert len(NAMES) == 23
    assert {page.stem for page in RUNBOOKS.glob("Kruise*.md")} == NAMES


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_an_alert_has_a_severity_a_number_and_a_whole_runbook(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    if not rule["expr"].startswith("absent"):  # its value says nothing
        assert "$value" in rule["annotations"]["description"]
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    _, commands, *_ = page.split("```")
    assert len([line for line in commands.splitlines() if line.strip()]) == 3
    for heading in ("## What it means", "## Look", "## Fix", "## Silence"):
        assert heading in page


def plain_configuration() -> str:
    blocks = re.findall(r"```yaml\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if "scrape_configs" in block]
    return str(found)


def test_prometheus_accepts_the_plain_configuration(prometheus_binaries: Binaries, tmp_path: Path) -> None:
    configuration = yaml.safe_load(plain_configuration())
    (job,) = configuration["scrape_configs"]
    assert job.pop("kubernetes_sd_configs"), "Debian's Prometheus is built without this discovery; the rest it checks"
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    (tmp_path / "rules.yaml").write_text(RULES.read_text())
    promtool(prometheus_binaries, "check", "config", tmp_path / "prometheus.yml")


def test_the_plain_configuration_has_what_the_service_monitor_has() -> None:
    (job,) = yaml.safe_load(plain_configuration())["scrape_configs"]
    (endpoint,) = yaml.safe_load(MONITOR.read_text())["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": job["job_name"]}]
    assert job["honor_labels"] is endpoint["honorLabels"] is True


def test_the_table_has_every_alert_with_its_time_and_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| .+ \| (.+) \| (\w+) \|$", MANUAL.read_text(), re.MULTILINE
    )
    times = {"0m": "at once"}
    wanted = [(one["alert"], times.get(one["for"], one["for"]), one["labels"]["severity"]) for one in alerts()]
    assert rows == wanted
