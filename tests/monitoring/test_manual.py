"""docs/monitoring.md: its configuration is one, and its table tells what the rules say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from tests.beds.manifests import MANIFESTS
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import MONITOR
from tests.tools.monitoring.render import RULES

MANUAL = MANIFESTS.parent / "docs" / "monitoring.md"


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
    done = subprocess.run(
        [prometheus_binaries.promtool, "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_plain_configuration_has_what_the_service_monitor_has() -> None:
    (job,) = yaml.safe_load(plain_configuration())["scrape_configs"]
    (endpoint,) = yaml.safe_load(MONITOR.read_text())["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"action": "replace", "targetLabel": "job", "replacement": job["job_name"]}]
    assert job["honor_labels"] is endpoint["honorLabels"] is True


def test_the_table_has_every_alert_with_its_time_and_severity() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(runbooks/\1\.md\) \| .+ \| (.+) \| (\w+) \|$", MANUAL.read_text(), re.MULTILINE
    )
    wanted = [
        (rule["alert"], "at once" if rule["for"] == "0m" else rule["for"], rule["labels"]["severity"])
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    assert rows == wanted
