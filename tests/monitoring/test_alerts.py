"""The alerts: sound rules, each tried by promtool where it must fire and where it must not, with a runbook each."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.beds.manifests import MANIFESTS
from tests.beds.prometheus import Binaries

RULES = MANIFESTS / "alerts" / "rules.yaml"
CASES = tuple(sorted((Path(__file__).parent / "alerts").glob("*.yaml")))
RUNBOOKS = MANIFESTS.parent / "docs" / "runbooks"
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
def test_the_alerts_fire_when_they_should_and_say_what_they_should(
    cases: Path, prometheus_binaries: Binaries
) -> None:
    promtool(prometheus_binaries, "test", "rules", cases)


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for path in CASES:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case.get("exp_alerts") else silent).add(case["alertname"])
    assert fires == NAMES
    assert silent == NAMES


def test_there_are_the_alerts_that_the_documents_name() -> None:
    assert len(NAMES) == 20
    assert {page.stem for page in RUNBOOKS.glob("Kruise*.md")} == NAMES


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: f"{rule['alert']}, {rule['labels']['severity']}")
def test_an_alert_has_a_severity_a_number_or_reason_and_a_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    if not rule["expr"].startswith("absent"):  # its value says nothing
        assert "$value" in rule["annotations"]["description"]
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_runbook_says_what_it_means_three_commands_and_how_to_silence(name: str) -> None:
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    _, commands, *_ = page.split("```")
    assert len([line for line in commands.splitlines() if line.strip()]) == 3
    for heading in ("## What it means", "## Look", "## Fix", "## Silence"):
        assert heading in page
