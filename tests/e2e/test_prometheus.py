"""Two replicas of the real controller in the middle of rollouts, and a real Prometheus that scrapes them, by our
ServiceMonitor, with our alerts and dashboards."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.beds.api import Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.plugin import PROGRAMS
from tests.beds.installed.process import Controller, running
from tests.beds.installed.workspace import Workspace, bed_on, sample
from tests.beds.manifests import MANIFESTS
from tests.beds.nodes import Behaviour
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import INSTALLED_IN, PATIENCE, POLL, Prometheus, scraping
from tests.e2e.conftest import PULLS, RIVAL
from tests.e2e.site import free_lease
from tests.monitoring.queries import of_dashboards, of_rules, of_variables, reads, recorded

pytestmark = pytest.mark.real

OF_TARGETS = {"job", "namespace", "pod", "instance", "cluster"}
"""Labels that scraping adds; `cluster` only where a set-up has it."""
RUNBOOKS = tuple(sorted((MANIFESTS.parent / "docs" / "runbooks").glob("*.md")))
NOT_HERE = (" logs ", " top ")
"""They ask kubelets and a metrics server, which are not played."""
OF_THE_MACHINE = "KruiseDSEventLoopLag"
"""It rightly tells of a machine that is too busy."""
NODES = tuple(f"seen-{number}" for number in range(4))
LEADER, STANDBY = "controller-leader", "controller-standby"
STALLED = "KruiseDaemonSetRolloutStalled"


@dataclass(frozen=True, slots=True)
class Monitored:
    """Four nodes: `demo` is held at a partition, `broken` is stalled by a missing image, and `waits`, which
    has a check for its next rollout, leaves two nodes without a pod on purpose. `demo` wants updates in place, in one
    step that failures would abort, and has a preDelete hook that holds no pod."""

    prometheus: Prometheus
    namespace: str
    exposition: str
    """What the leader says."""
    standby: str
    """What the standby says."""


async def _exposition(controller: Controller) -> str:
    status, text = await controller.page("/metrics")
    assert status == 200
    return text


def _named(name: str, image: str = "busybox", **annotations: str) -> Object:
    """The demo DaemonSet under another name, and with another selector."""
    document = sample("ds.demo.yaml")
    document["metadata"] = {"name": name, "annotations": annotations}
    document["spec"]["selector"] = {"matchLabels": {"app": name}}
    document["spec"]["template"]["metadata"]["labels"] = {"app": name}
    document["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return document


async def _rolled_out(bed: Workspace, prometheus: Prometheus) -> None:
    """Bring the three to where they stand, and wait until Prometheus has seen all of it."""
    for number, node in enumerate(NODES):
        await bed.workers(node, **{"topology.kubernetes.io/zone": f"zone-{number % 2}"})
    bed.nodes.behave("*", Behaviour(missing_images=("*:missing",)))
    deadline = {"kruise-ds/progress-deadline-seconds": "2"}
    waits = _named("waits")
    checks = [{"name": "errors", "query": "errors > 0"}]
    rolling = {"partition": 2, "steps": [{"nodes": "100%"}], "checks": checks}
    waits["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    waits["spec"]["scaleStrategy"] = {"partitionedScaling": True}
    for one in (_named("demo"), _named("broken", **deadline), waits):
        await bed.apply(one)
    for name in ("demo", "broken"):
        await bed.settled(len(NODES), name)
    await prometheus.scraped("count(count by (daemonset) (kruise_daemonset_metadata_generation)) == 3")
    demo = _named("demo", "busybox:2")
    demo["spec"]["updateStrategy"] = {
        "rollingUpdate": {
            "partition": 2,
            "rollingUpdateType": "InPlaceIfPossible",
            "steps": [{"nodes": "100%"}],
            "onFailure": {"restarts": 9},
            "unreachableNodes": {"leaveOut": 1},
        }
    }
    demo["spec"]["lifecycle"] = {"preDelete": {"labelsHandler": {"nobody": "has it"}}}
    await bed.apply(demo)
    await bed.apply(_named("broken", "busybox:missing", **deadline))
    await bed.status("demo", updatedNumberScheduled=2, numberAvailable=len(NODES))
    await bed.status("waits", desiredNumberScheduled=len(NODES), numberAvailable=2)
    await prometheus.until(
        lambda alerts: bool(about("broken", alerts, "firing") and about("broken", alerts, "pending")),
        f"{STALLED} fires, and the patient one has seen it",
    )
    held = 'kruise_daemonset_rollout_phase{phase="Held"} == 1'
    await prometheus.scraped(f"count(count by (daemonset) ({held})) == 2")


def about(daemonset: str, alerts: list[dict[str, Any]], state: str) -> list[dict[str, Any]]:
    """The alerts about its rollout that stands, in this state."""
    wanted = {"alertname": STALLED, "daemonset": daemonset}
    return [one for one in alerts if one["state"] == state and wanted.items() <= one["labels"].items()]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(plane: ControlPlane, prometheus_binaries: Binaries) -> AsyncIterator[Monitored]:
    """When Prometheus has seen all of it."""
    await free_lease(plane)
    async with AsyncExitStack() as stack:
        account = plane.kubeconfig_for(RIVAL)
        leader = await stack.enter_async_context(running(plane.folder, account, PULLS, elect=True))
        await leader.leads()  # it is ready before, and another one could be quicker
        standby = await stack.enter_async_context(running(plane.folder, account, PULLS, elect=True))
        pods = {LEADER: leader.metrics_port, STANDBY: standby.metrics_port}
        prometheus = await stack.enter_async_context(scraping(prometheus_binaries, plane.folder, pods))
        bed = await stack.enter_async_context(bed_on(plane))
        await _rolled_out(bed, prometheus)
        yield Monitored(prometheus, bed.namespace, *[await _exposition(one) for one in (leader, standby)])


async def becomes(asked: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Ask until the answer is so: where a scrape takes longer than its second, its series are away until the next."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while (found := await asked()) != wanted and loop.time() < deadline:  # it sends no notice
        await asyncio.sleep(POLL)
    assert found == wanted


async def test_both_replicas_are_scraped_under_the_job_that_the_alerts_name(scene: Monitored) -> None:
    async def targets() -> dict[str, tuple[str, str, str]]:
        active = (await scene.prometheus.ask("targets", state="active"))["activeTargets"]
        return {one["labels"]["pod"]: (one["labels"]["job"], one["health"], one["lastError"]) for one in active}

    up = ("kruise-ds-metrics", "up", "")
    await becomes(targets, {LEADER: up, STANDBY: up})
    metadata = await scene.prometheus.ask("metadata")
    assert "controller_runtime_reconcile" in metadata, "in OpenMetrics a counter's family is named without _total"
    assert "controller_runtime_reconcile_total" not in metadata


async def test_series_of_a_daemonset_come_from_the_leader_in_its_namespace(scene: Monitored) -> None:
    async def desired() -> dict[tuple[str, str, str], float]:
        found = await scene.prometheus.query("kruise_daemonset_status_desired_number_scheduled")
        return {(labels["namespace"], labels["daemonset"], labels["pod"]): value for labels, value in found}

    async def leading() -> dict[tuple[str, str], float]:
        found = await scene.prometheus.query('leader_election_master_status{name="kruise-ds-controller"}')
        return {(labels["pod"], labels["namespace"]): value for labels, value in found}

    await becomes(desired, {(scene.namespace, name, LEADER): 4 for name in ("demo", "broken", "waits")})
    assert await scene.prometheus.query('{exported_namespace=~".+"}') == []
    assert "kruise_daemonset_status_desired_number_scheduled{" not in scene.standby
    await becomes(leading, {(LEADER, INSTALLED_IN): 1, (STANDBY, INSTALLED_IN): 0})


async def test_the_rules_are_loaded_and_none_of_them_fails(scene: Monitored) -> None:
    groups = (await scene.prometheus.ask("rules", type="alert"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 2 * 24
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"} == {}


async def test_a_stalled_rollout_is_reported_and_a_held_or_waiting_one_is_not(scene: Monitored) -> None:
    alerts: list[dict[str, Any]] = []

    async def told() -> tuple[set[str], int, int]:
        nonlocal alerts
        alerts = await scene.prometheus.alerts()
        of = {one["labels"]["daemonset"] for one in alerts if "daemonset" in one["labels"]}
        return of, len(about("broken", alerts, "firing")), len(about("broken", alerts, "pending"))

    await becomes(told, ({"broken"}, 1, 1))  # the one that is pending is the real one, which waits for five minutes
    (firing,) = about("broken", alerts, "firing")
    assert firing["labels"]["namespace"] == scene.namespace
    assert "4 node(s) before its end" in firing["annotations"]["description"]


async def test_the_controller_itself_gives_no_alarm(scene: Monitored) -> None:
    async def told() -> set[str]:
        names = {one["labels"]["alertname"] for one in await scene.prometheus.alerts()}
        return {name for name in names if name.startswith("KruiseDS")} - {OF_THE_MACHINE}

    await becomes(told, set())


async def test_dashboards_show_something_and_their_variables_offer_something(scene: Monitored) -> None:
    empty = [one.place for one in of_dashboards() if not await scene.prometheus.over_time(one.expression, seconds=20)]
    for place, selector, label in of_variables():
        if not await scene.prometheus.ask(f"label/{label}/values", **{"match[]": selector}):
            empty.append(place)
    assert empty == ["controller.json: $cluster", "rollouts.json: $cluster"], "which is for those who have several"


def test_rules_and_dashboards_read_only_what_the_leader_exposes(scene: Monitored) -> None:
    exposed: dict[str, set[str]] = {"up": set(), **recorded()}
    for family in text_string_to_metric_families(scene.exposition):
        for one in family.samples:
            exposed.setdefault(one.name, set()).update(one.labels)
    wrong = []
    for asked in (*of_rules(), *of_dashboards()):
        found = reads(asked.expression)
        known = OF_TARGETS.union(*(exposed.get(metric, set()) for metric in found.metrics))
        wrong += [f"{asked.place}: no metric {metric}" for metric in found.metrics if metric not in exposed]
        wrong += [
            f"{asked.place}: {metric} has no label {label}"
            for metric, labels in found.metrics.items()
            for label in sorted(labels - exposed.get(metric, labels) - OF_TARGETS)
        ]
        wrong += [f"{asked.place}: nothing has a label {label}" for label in sorted(found.groups - known)]
    assert wrong == [], "\n".join(wrong)


def test_promtool_finds_nothing_wrong_with_either_exposition(scene: Monitored, prometheus_binaries: Binaries) -> None:
    for text in (scene.exposition, scene.standby):
        done = subprocess.run(
            [prometheus_binaries.promtool, "check", "metrics"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def commands() -> list[str]:
    """What the runbooks tell people to type, each once."""
    found = [line for page in RUNBOOKS for line in re.split("```\n?", page.read_text())[1].splitlines()]
    return [line for line in dict.fromkeys(found) if not any(word in line for word in NOT_HERE)]


def test_the_runbooks_commands_work_where_an_alert_fires(scene: Monitored, plane: ControlPlane) -> None:
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(PROGRAMS), str(plane.kubectl.parent), os.environ["PATH"])),
        "KUBECONFIG": str(plane.kubeconfig),
        "NAMESPACE": scene.namespace,
        "DAEMONSET": "broken",
    }

    def run(command: str) -> str:
        """Nothing, or what went wrong. The plugin's code 4 says that it is stalled, which it is."""
        done = subprocess.run(
            ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        good = (0, 4) if " kruise-ds " in command else (0,)
        return "" if done.returncode in good else f"{command}: exit {done.returncode}: {done.stderr}"

    with ThreadPoolExecutor(2) as both:
        wrong = [line for line in both.map(run, commands()) if line]
    assert wrong == [], "\n".join(wrong)
