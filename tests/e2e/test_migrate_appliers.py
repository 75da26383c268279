"""After `kubectl kruise-ds migrate` whoever applied the one applies the other, and what his manifest loses goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.beds.api import DAEMONSETS, Object
from tests.beds.fixtures import Helm
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.native import NATIVE, native_status

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller", "beside")]

NODES = ("one", "two")
OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"
TAKEN_AWAY = {"env": [{"name": "LEVEL", "value": "debug"}], "ports": [{"containerPort": 8080}], "command": ["agent"]}


def written(api_version: str, version: str, *, more: bool, kept: str = "", limit: int = 1) -> Object:
    """A manifest; with `more` it has fields that a later one has no longer."""
    document = sample("ds.demo.yaml")
    document["apiVersion"] = api_version
    document["metadata"]["labels"] = {"team": "infra"} if more else {}
    document["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": limit}}
    pod = document["spec"]["template"]["spec"]
    pod["containers"][0] |= {"image": f"registry.example.com/demo:{version}"} | (TAKEN_AWAY if more else {})
    if more:
        pod["nodeSelector"] = {"kubernetes.io/os": "linux"}
        pod["tolerations"] = [{"operator": "Exists"}]
        pod["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    return document


def is_as_written(found: Object, wanted: Object) -> None:
    pod, container = found["spec"]["template"]["spec"], found["spec"]["template"]["spec"]["containers"][0]
    mine = wanted["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == mine["image"]
    assert {key: key in container for key in TAKEN_AWAY} == {key: key in mine for key in TAKEN_AWAY}
    for key in ("nodeSelector", "tolerations", "volumes"):
        assert (key in pod) == (key in wanted["spec"]["template"]["spec"]), key
    assert ("team" in found["metadata"].get("labels", {})) == ("team" in wanted["metadata"]["labels"])
    strategy = found["spec"]["updateStrategy"]["rollingUpdate"]
    assert strategy["maxUnavailable"] == wanted["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]


Apply = Callable[[Object], Awaitable[None]]


def by_kubectl(bed: Workspace, *words: str) -> Apply:
    async def apply(document: Object) -> None:
        done = await bed.tried("apply", *words, "-f", "-", stdin=msgspec.json.encode(document).decode())
        assert (done.returncode, done.stderr) == (0, "")

    return apply


def by_helm(bed: Workspace, helm: Helm, chart: Path) -> Apply:
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: demo\nversion: 0.1.0\n")

    async def apply(document: Object) -> None:
        (chart / "templates" / "daemonset.yaml").write_text(yaml.safe_dump(document))
        words = ("upgrade", "--install", "demo", str(chart), "-n", bed.namespace)
        done = await asyncio.to_thread(helm, *words, kubeconfig=bed.plane.kubeconfig)
        assert done.returncode == 0, done.stderr

    return apply


async def settled(bed: Workspace, api_version: str) -> set[str]:
    """Its controller has seen the newest manifest, and has nothing left to do. Returns the pods."""
    if api_version == THEIRS:
        await native_status(bed.api, "demo", numberAvailable=len(NODES), updatedNumberScheduled=len(NODES))
    else:
        await bed.settled(len(NODES))
    return {one["metadata"]["uid"] for one in await bed.pods()}


async def moved(bed: Workspace, plugin: Plugin, apply: Apply, before: str) -> set[str]:
    """To the other kind. Returns the pods."""
    await bed.workers(*NODES)
    await apply(written(before, "v1", more=True))
    pods = await settled(bed, before)
    await plugin.ok("migrate", "demo", "-y", *(["--to-native"] if before == OURS else []))
    return pods


async def changes(bed: Workspace, apply: Apply, api_version: str) -> None:
    """Another image and another limit, and much is there no longer."""
    less = written(api_version, "v2", more=False, limit=2)
    await apply(less)
    is_as_written(await bed.api.get(NATIVE if api_version == THEIRS else DAEMONSETS, "demo"), less)


@pytest.mark.parametrize(("before", "after"), [(THEIRS, OURS), (OURS, THEIRS)], ids=["to-ours", "to-native"])
@pytest.mark.parametrize("how", ["server-side", "client-side"])
async def test_kubectl_applies_the_next_manifest(
    bed: Workspace, plugin: Plugin, before: str, after: str, how: str
) -> None:
    apply = by_kubectl(bed, *(["--server-side"] if how == "server-side" else []))
    await moved(bed, plugin, apply, before)
    await changes(bed, apply, after)


@pytest.mark.parametrize(("before", "after"), [(THEIRS, OURS), (OURS, THEIRS)], ids=["to-ours", "to-native"])
async def test_helm_upgrades_the_release(
    bed: Workspace, plugin: Plugin, helm: Helm, tmp_path: Path, before: str, after: str
) -> None:
    """To the same in the other kind, which restarts nothing, and then to the next."""
    apply = by_helm(bed, helm, tmp_path / "demo")
    pods = await moved(bed, plugin, apply, before)
    await apply(written(after, "v1", more=True))
    assert await settled(bed, after) == pods
    await changes(bed, apply, after)
