"""Two replicas of the real controller in the middle of rollouts, and a real Prometheus that scrapes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.beds.api import Object
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.installed.workspace import Workspace, bed_on, sample
from tests.beds.manifests import MANIFESTS
from tests.beds.nodes import Behaviour
from tests.beds.prometheus import Binaries
from tests.beds.prometheus.server import INSTALLED_IN, Prometheus, scraping
from tests.e2e.conftest import RIVAL

NODES = tuple(f"seen-{number}" for number in range(4))
LEADER, STANDBY = "controller-leader", "controller-standby"
STALLED = "KruiseDaemonSetRolloutStalled"
GATE = "--feature-gates=PreDownloadImageForDaemonSetUpdate=true"


@dataclass(frozen=True, slots=True)
class Monitored:
    """Four nodes: `demo` is held at a partition, `broken` is stalled by an image that nobody has, and `waits` leaves
    two nodes without a pod on purpose. `demo` wants updates in place, and has a preDelete hook that holds no pod."""

    prometheus: Prometheus
    namespace: str
    exposition: str
    """What the leader says."""
    standby: str
    """What the standby says."""


@asynccontextmanager
async def monitored(plane: ControlPlane, binaries: Binaries) -> AsyncIterator[Monitored]:
    """The scene, when Prometheus has seen all of it."""
    await plane.run_kubectl("-n", INSTALLED_IN, "delete", "lease", "kruise-ds-controller", "--ignore-not-found")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_image_pull(plane))
        account = plane.kubeconfig_for(RIVAL)
        leader = await stack.enter_async_context(running(plane.folder, account, GATE, elect=True))
        await leader.leads()  # it is ready before, and another one could be quicker
        standby = await stack.enter_async_context(running(plane.folder, account, GATE, elect=True))
        pods = {LEADER: leader.metrics_port, STANDBY: standby.metrics_port}
        prometheus = await stack.enter_async_context(scraping(binaries, plane.folder, pods))
        bed = await stack.enter_async_context(bed_on(plane))
        await _rolled_out(bed, prometheus)
        yield Monitored(prometheus, bed.namespace, *[await _exposition(one) for one in (leader, standby)])


@asynccontextmanager
async def _image_pull(plane: ControlPlane) -> AsyncIterator[None]:
    """The kind, and for RIVAL the rights, for as long as the scene lasts: of ACCOUNT each request is judged by the
    rights that it has without."""
    component = MANIFESTS / "components" / "image-pull"
    files = [f"--filename={component / name}.yaml" for name in ("imagepulljobs.apps.kruise.io", "clusterrole")]
    binding = ("clusterrolebinding", "rival-image-pull")
    role, user = "--clusterrole=kruise-ds-controller-image-pull", f"--user={RIVAL.name}"
    try:
        for words in (("apply", "--server-side", *files), ("create", *binding, role, user)):
            done = await plane.run_kubectl(*words)
            assert done.returncode == 0, done.stderr
        await plane.run_kubectl("wait", "--for=condition=Established", "crd/imagepulljobs.apps.kruise.io")
        yield
    finally:
        await plane.run_kubectl("delete", *files)
        await plane.run_kubectl("delete", *binding)


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
    waits["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 2}}
    waits["spec"]["scaleStrategy"] = {"partitionedScaling": True}
    for one in (_named("demo"), _named("broken", **deadline), waits):
        await bed.apply(one)
    for name in ("demo", "broken"):
        await bed.settled(len(NODES), name)
    await prometheus.scraped("count(count by (daemonset) (kruise_daemonset_metadata_generation)) == 3")
    demo = _named("demo", "busybox:2")
    demo["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 2, "rollingUpdateType": "InPlaceIfPossible"}}
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
