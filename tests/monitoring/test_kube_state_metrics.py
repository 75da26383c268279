"""manifests/kube-state-metrics: the program itself, with that configuration and those rights, tells our status."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio
import yaml

from controller.api.daemonset import DaemonSetStatus, Phase
from controller.kube.config import load
from controller.kube.transport import open_transport
from tests.beds.api import DAEMONSETS, NAMESPACES, Api, Object
from tests.beds.control_plane import ControlPlane, User, service_account
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.kube_state_metrics import CONFIGURATION, ROLE, state_metrics
from tests.beds.manifests import CRD, MANIFESTS
from tests.beds.native import NATIVE
from tests.beds.objects import daemonset
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import Prometheus, serving
from tests.unit.controller.planner.written import IN_PHASE

pytestmark = pytest.mark.real

SPACE = "kube-state-metrics"
SERIES = 31
SHOWN: dict[Phase, DaemonSetStatus | None] = {
    phase: of.daemonset.status for phase, of in IN_PHASE.items() if phase is not Phase.TERMINATING
}


class Told(NamedTuple):
    """The page of one that sees a DaemonSet of ours in each phase and a native one, and what Prometheus reads."""

    page: str
    scraped: Sequence[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(
    control_plane: ControlPlane,
    kube_state_metrics: Path,
    prometheus_binaries: Binaries,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Told]:
    for words in (
        ("apply", "--server-side", "-f", str(CRD)),
        ("wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io"),
        ("apply", "--server-side", "-f", str(ROLE)),
        ("create", "clusterrole", "native-daemonsets", "--verb=list,watch", "--resource=daemonsets.apps"),
    ):
        await kubectl(control_plane, *words)
    async with open_transport(await load(str(control_plane.kubeconfig), None)) as transport:
        api = Api(transport, SPACE)
        await api.create(NAMESPACES, {"metadata": {"name": SPACE}})
        user = await account(control_plane)
        for phase, status in SHOWN.items():
            name = phase.lower()
            await api.create(DAEMONSETS, daemonset(name))
            written = msgspec.to_builtins(status) | {"observedGeneration": 1}
            await api.patch(DAEMONSETS, name, {"status": written}, sub="status")
        await api.create(NATIVE, daemonset("native"))
        async with state_metrics(control_plane, kube_state_metrics, user, "daemonsets") as port:
            found = await whole(port)
            job = {"job_name": "kube-state-metrics", "static_configs": [{"targets": [f"{LOOPBACK}:{port}"]}]}
            folder = tmp_path_factory.mktemp("prometheus")
            async with serving(prometheus_binaries, folder, job) as prometheus:
                await prometheus.scraped("kube_daemonset_rollout_phase")
                yield Told(found, await read(prometheus))
        await api.delete(NAMESPACES, SPACE)


async def kubectl(plane: ControlPlane, *words: str) -> str:
    done = await plane.run_kubectl(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def account(plane: ControlPlane) -> User:
    """A ServiceAccount with our ClusterRole, and what kube-state-metrics has for native DaemonSets."""
    await kubectl(plane, "create", "serviceaccount", SPACE, f"--namespace={SPACE}")
    for role in (yaml.safe_load(ROLE.read_text())["metadata"]["name"], "native-daemonsets"):
        subject = f"--serviceaccount={SPACE}:{SPACE}"
        await kubectl(plane, "create", "clusterrolebinding", f"{SPACE}-{role}", f"--clusterrole={role}", subject)
    token = await kubectl(plane, "create", "token", SPACE, f"--namespace={SPACE}")
    named = service_account(SPACE, SPACE)
    return User(named.name, named.groups, token.strip())


async def whole(port: int) -> str:
    """Once both kinds are there: it learns ours from its CRD."""
    async with asyncio.timeout(60):
        while True:
            _, found = await get(f"http://{LOOPBACK}:{port}/metrics")
            if all(f'daemonset="{name}"' in found for name in (*map(str.lower, SHOWN), "native")):
                return found
            await asyncio.sleep(0.1)  # another process sets no event here


async def read(prometheus: Prometheus) -> Sequence[str]:
    """The series that it has of one DaemonSet of ours, and a native one."""
    found = await prometheus.query(f'{{namespace="{SPACE}", daemonset=~"held|native"}}')
    return [f"{labels['daemonset']} {labels['__name__']}" for labels, _ in found]


def samples(page: str, family: str, daemonset: str) -> dict[str, float]:
    """The labels of each sample of a family, but for those that all have, to its value."""
    found = {}
    for labels, value in re.findall(rf"^kube_daemonset_{family}{{(.*)}} (\S+)$", page, re.M):
        if f'daemonset="{daemonset}"' in labels and f'namespace="{SPACE}"' in labels:
            own = re.findall(r'(?:^|,)(phase|condition|status|reason)="([^"]*)"', labels)
            found[" ".join(value for _, value in sorted(own))] = float(value)
    return found


@pytest.mark.parametrize("phase", SHOWN)
def test_it_tells_the_status_of_each_phase(told: Told, phase: Phase) -> None:
    page = told.page
    status, name = SHOWN[phase], phase.lower()
    assert status is not None
    assert status.rollout is not None
    assert samples(page, "rollout_phase", name) == {one: float(one == phase) for one in Phase}
    assert samples(page, "status_desired_number_scheduled", name) == {"": status.desired_number_scheduled}
    assert samples(page, "status_updated_number_scheduled", name) == {"": status.updated_number_scheduled}
    assert samples(page, "status_number_available", name) == {"": status.number_available}
    assert samples(page, "rollout_target_nodes", name) == {"": status.rollout.target}
    assert samples(page, "rollout_updated_available_nodes", name) == {"": status.rollout.done}
    conditions = {f"{one['type']} {one['reason']} {one['status']}": 1.0 for one in status.conditions or ()}
    assert samples(page, "status_condition", name) == conditions


def test_it_has_what_it_has_of_native_ones_under_the_same_names(told: Told) -> None:
    def families(name: str) -> set[str]:
        return set(re.findall(rf'^(kube_daemonset_\w+){{[^}}]*daemonset="{name}"', told.page, re.M))

    own = {f"kube_daemonset_{one['name']}" for one in configured()[10:]}
    metadata = {"kube_daemonset_annotations", "kube_daemonset_labels"}
    assert families("native") - metadata == families("held") - own
    assert own == families("held") - families("native")


def configured() -> list[Object]:
    (resource,) = yaml.safe_load(CONFIGURATION.read_text())["spec"]["resources"]
    found: list[Object] = resource["metrics"]
    return found


def test_prometheus_reads_both_kinds_under_one_name(told: Told) -> None:
    assert {"held kube_daemonset_status_number_ready", "native kube_daemonset_status_number_ready"} <= {*told.scraped}
    assert len([one for one in told.scraped if one.startswith("held ")]) == SERIES


def test_the_page_says_how_many_series_that_makes() -> None:
    assert (
        f"That makes {SERIES} series for each DaemonSet" in (MANIFESTS.parent / "docs" / "monitoring.md").read_text()
    )


def test_the_configuration_names_every_phase() -> None:
    (phases,) = [one["each"]["stateSet"]["list"] for one in configured() if one["each"]["type"] == "StateSet"]
    assert set(phases) == set(Phase)
