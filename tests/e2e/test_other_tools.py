"""Other tools in the middle of a rollout by steps: syncs from a repository, as of Argo CD and Flux, and Helm."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from tests.beds.api import DAEMONSETS, Object, Objects
from tests.beds.fixtures import Helm
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes import Behaviour
from tests.beds.objects import image_of, is_live, node_of

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = tuple(f"node-{number}" for number in range(4))
STEPS = ({"nodes": 1, "approval": "Required"}, {"nodes": 2, "soak": "1h"}, {"nodes": "100%"})
ON_FAILURE = {"unavailableNodes": 1, "after": "1s", "action": "RollBack"}
APPROVE = "kruise-ds/approve"


def written(version: str, *steps: Object) -> Object:
    """As it is in Git."""
    document = sample("ds.demo.yaml")
    rolling = {"maxUnavailable": 4, "steps": [*(steps or STEPS)], "onFailure": ON_FAILURE}
    document["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    document["spec"]["template"]["spec"]["containers"][0]["image"] = f"registry.example.com/demo:{version}"
    return document


async def phase(bed: Workspace, wanted: str) -> Object:
    """Wait for it, of the newest spec. Returns the DaemonSet."""

    def is_so(found: Objects) -> bool:
        status = found[0].get("status") or {}
        seen = status.get("observedGeneration") == found[0]["metadata"]["generation"]
        return seen and (status.get("rollout") or {}).get("phase") == wanted

    (found,) = await bed.api.wait_for(DAEMONSETS, is_so, f"phase {wanted}")
    return found


async def stands(bed: Workspace, wanted: str, versions: str) -> Object:
    """The same, and which versions the nodes have then."""
    found = await phase(bed, wanted)
    live = sorted(filter(is_live, await bed.pods()), key=node_of)
    assert " ".join(image_of(pod).rpartition(":")[2] for pod in live) == versions
    return found


class Tool(NamedTuple):
    """How one applies what is in Git."""

    flags: tuple[str, ...]
    takes_over_kubectl: bool = False

    async def sync(self, bed: Workspace, commit: Object) -> None:
        text = msgspec.json.encode(commit).decode()
        if self.takes_over_kubectl:
            await taken_over(bed, "kustomize-controller")
        await bed.kubectl("apply", *self.flags, "-f", "-", stdin=text)

    async def drifts(self, bed: Workspace, commit: Object) -> bool:
        """Whether another sync would change something."""
        text = msgspec.json.encode(commit).decode()
        printed = await bed.kubectl("apply", *self.flags, "--dry-run=server", "-o", "json", "-f", "-", stdin=text)
        return _given(msgspec.json.decode(printed)) != _given(await bed.api.get(DAEMONSETS, "demo"))


def _given(document: Object) -> Object:
    """What the server and the controller do not write."""
    meta = document["metadata"]
    return {"spec": document["spec"], "labels": meta.get("labels"), "annotations": meta.get("annotations")}


async def taken_over(bed: Workspace, manager: str) -> None:
    """As Flux before each apply: what managers have set whose names begin with kubectl is its own from now on, so it
    takes away what of that is not in Git."""
    for found in await bed.api.list(DAEMONSETS):
        entries = found["metadata"]["managedFields"]
        theirs = [one for one in entries if one["manager"].startswith("kubectl") and "subresource" not in one]
        (mine,) = (one for one in entries if one["manager"] == manager)
        for one in theirs:
            merged(mine["fieldsV1"], one["fieldsV1"])
        left = [one for one in entries if one not in theirs]
        patch = [{"op": "replace", "path": "/metadata/managedFields", "value": left}]
        await bed.api.patch(DAEMONSETS, found["metadata"]["name"], patch)


def merged(into: Object, fields: Object) -> None:
    for key, value in fields.items():
        merged(into.setdefault(key, {}), value)


TOOLS = {
    "by a client": Tool(()),
    "Argo CD": Tool(("--server-side", "--field-manager=argocd-controller", "--force-conflicts")),
    "Flux": Tool(("--server-side", "--field-manager=kustomize-controller", "--force-conflicts"), True),
}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
async def test_a_sync_in_the_middle_of_a_walk_changes_nothing(bed: Workspace, plugin: Plugin, tool: Tool) -> None:
    bed.clocks.slow = 600.0  # so that v1 is stable at once
    await bed.workers(*NODES)
    await tool.sync(bed, written("v1"))
    await phase(bed, "Healthy")
    await tool.sync(bed, written("v2"))
    before = await stands(bed, "AwaitingApproval", "v1 v1 v1 v2")
    await plugin.ok("promote", "demo")
    await tool.sync(bed, written("v2"))
    after = await stands(bed, "Soaking", "v1 v1 v2 v2")
    assert (after["spec"], after["status"]["rollout"]["step"]) == (before["spec"], 2)
    assert APPROVE in after["metadata"]["annotations"]
    assert not await tool.drifts(bed, written("v2"))
    assert await tool.drifts(bed, written("v3"))

    bed.nodes.behave("*", Behaviour(missing_images=("*:v3",)))
    await tool.sync(bed, written("v3"))
    await phase(bed, "Aborted")
    await bed.settled(len(NODES))
    back = await stands(bed, "Aborted", "v1 v1 v1 v1")
    await tool.sync(bed, written("v3"))
    assert (await stands(bed, "Aborted", "v1 v1 v1 v1"))["metadata"]["generation"] == back["metadata"]["generation"]
    assert not await tool.drifts(bed, written("v3"))

    await tool.sync(bed, written("v4"))
    await stands(bed, "AwaitingApproval", "v1 v1 v1 v4")
    await plugin.ok("rollback", "demo", "-y")
    await stands(bed, "Healthy", "v1 v1 v1 v1")
    await tool.sync(bed, written("v4"))
    again = await stands(bed, "AwaitingApproval", "v1 v1 v1 v4")
    assert again["status"]["rollout"]["step"] == 1, "Git says so again, and the walk begins anew"


class Release:
    """Of a chart with nothing but the DaemonSet."""

    def __init__(self, bed: Workspace, helm: Helm, chart: Path) -> None:
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: demo\nversion: 0.1.0\n")
        self._bed, self._helm, self._chart = bed, helm, chart

    async def upgraded(self, commit: Object, *flags: str) -> str:
        """What it complains of; empty: it succeeds."""
        (self._chart / "templates" / "daemonset.yaml").write_text(yaml.safe_dump(commit))
        return await self._run("upgrade", "--install", "demo", str(self._chart), *flags)

    async def rolled_back(self) -> str:
        """To the first release."""
        return await self._run("rollback", "demo", "1", *WAITS)

    async def _run(self, *words: str) -> str:
        where = ("-n", self._bed.namespace)
        done = await asyncio.to_thread(self._helm, *words, *where, kubeconfig=self._bed.plane.kubeconfig)
        assert done.returncode == bool(done.stderr), done.stderr
        return done.stderr


WAITS = ("--wait=watcher", "--timeout=60s")
LEGACY = ("--wait=legacy", "--timeout=60s")
"""As Helm 3 waits: for the kinds of Kubernetes itself."""


async def test_helm_waits_for_a_soak_but_for_no_person(
    bed: Workspace, plugin: Plugin, helm: Helm, tmp_path: Path
) -> None:
    bed.clocks.slow = 600.0
    await bed.workers(*NODES)
    bed.nodes.behave("*", Behaviour(missing_images=("*:bad",)))
    release = Release(bed, helm, tmp_path / "demo")
    soaks = ({"nodes": 1, "soak": "3s"}, *STEPS)
    assert await release.upgraded(written("v1", *soaks), *WAITS) == ""
    await stands(bed, "Healthy", "v1 v1 v1 v1")
    assert await release.upgraded(written("v2", *soaks), *WAITS) == ""
    found = await stands(bed, "AwaitingApproval", "v1 v1 v1 v2")
    assert found["status"]["rollout"]["step"] == 2, "the soak of the first was waited for"
    await plugin.ok("promote", "demo")
    await bed.status(updatedNumberScheduled=2, numberAvailable=len(NODES))
    assert await release.upgraded(written("v2", *soaks), *LEGACY) == ""
    found = await stands(bed, "Soaking", "v1 v1 v2 v2")
    assert (found["metadata"]["generation"], found["status"]["rollout"]["step"]) == (2, 3), "it goes on where it was"
    assert APPROVE in found["metadata"]["annotations"]

    assert await release.rolled_back() == ""
    await stands(bed, "Healthy", "v1 v1 v1 v1")
    hurry = ("--wait=watcher", "--timeout=1s", "--rollback-on-failure")
    assert "has been rolled back" in await release.upgraded(written("v3", *soaks), *hurry)
    await stands(bed, "Healthy", "v1 v1 v1 v1")
    assert "was aborted: 1 updated node has no available pod" in await release.upgraded(
        written("bad", *soaks), *WAITS
    )
    await bed.settled(len(NODES))
    await stands(bed, "Aborted", "v1 v1 v1 v1")
