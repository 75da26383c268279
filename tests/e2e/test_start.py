"""A start into a cluster that is not ready for it: no server, no kind, no rights but those of one namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.beds.api import EVENTS
from tests.beds.audit import NAMESPACE, OLD_SERVERS, Audit, Right, granted
from tests.beds.control_plane import DEFAULT_CONTROLLERS, Binaries, ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.installed.workspace import bed_on, built, sample
from tests.beds.manifests import MANIFESTS, overlay_with
from tests.beds.nodes import Behaviour
from tests.e2e.api_proxy import proxy_to
from tests.e2e.conftest import ACCOUNT, PULLS, bare_plane, installed
from tests.e2e.site import free_lease

pytestmark = pytest.mark.real

NODES = ("early", "late")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(complete_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """A control plane without our kinds, and an old one: it cannot send a first list as a watch."""
    async with bare_plane(complete_binaries, [ACCOUNT], "--feature-gates=WatchList=false") as started:
        yield started


async def test_without_a_server_it_waits_says_so_once_and_begins_later(bare: ControlPlane) -> None:
    """And with the gate for image pulls, whose kind is not there, it serves DaemonSets all the same."""
    await installed(bare, "crds")
    async with proxy_to(bare, bare.admin, "late") as proxy, bed_on(bare) as bed:
        await bed.workers(*NODES)
        await bed.apply_sample("ds.demo.yaml")
        controller = Controller(bare.folder, proxy.kubeconfig, "--no-leader-elect", PULLS)
        never = Controller(bare.folder, proxy.kubeconfig, "--leader-elect")
        try:
            line = await controller.says("API server not reached")
            assert line["level"] == "error"
            assert "refused" in line["why"].lower()
            status, body = await controller.page("/readyz")
            assert (status, "not listed yet" in body) == (503, True), body
            assert (await controller.page("/healthz"))[0] == 200, "waiting is no reason to be restarted"
            await never.says("API server not reached")
            assert await never.terminated() == 0, "it ends cleanly before it has ever reached the server"
            await proxy.open()
            await bed.settled(2)
            assert (await controller.page("/readyz"))[0] == 200
            assert len(controller.said("API server not reached")) == 1, "said once"
            await controller.says("API server reached")  # once every watch has heard of it
            assert len(controller.said("API server reached")) == 1
            await controller.says("CRD of imagepulljobs")
            await proxy.shut()
            assert await controller.terminated() == 0, "it ends cleanly also while the server is away"
        finally:
            controller.process.kill()
            never.process.kill()


async def test_without_the_kind_it_says_how_to_install_it_and_begins_later(bare: ControlPlane) -> None:
    await bare.run_kubectl("delete", "--ignore-not-found", "-k", str(MANIFESTS / "crds"))
    controller = Controller(bare.folder, bare.kubeconfig, "--no-leader-elect")
    try:
        line = await controller.says("is not installed")
        assert line["install_with"] == "kubectl apply --server-side -k manifests/crds"
        assert (await controller.page("/readyz"))[0] == 503
        await installed(bare, "crds")
        await controller.ready()
        async with bed_on(bare) as bed:
            await bed.workers(*NODES)
            await bed.apply_sample("ds.demo.yaml")
            await bed.settled(2)
        assert len(controller.said("is not installed")) == 1, "said once"
        assert await controller.terminated() == 0
    finally:
        controller.process.kill()


async def test_in_one_namespace_rights_are_enough_and_reach_no_further(bare: ControlPlane, tmp_path: Path) -> None:
    overlay = str(overlay_with(tmp_path, "namespaced", "image-pull-namespaced"))
    kind = MANIFESTS / "components" / "image-pull" / "imagepulljobs.apps.kruise.io.yaml"
    await bare.run_kubectl("apply", "--server-side", "-f", str(kind))
    await installed(bare, "crds")
    await bare.start_controller_manager(DEFAULT_CONTROLLERS)
    async with bed_on(bare, "team-a") as bed:
        await installed(bare, overlay)
        await free_lease(bare)
        audit = Audit(bare, ACCOUNT)
        await bed.workers(*NODES, "last")
        bed.nodes.behave("*", Behaviour(pull=0.5))
        account = bare.kubeconfig_for(ACCOUNT)
        options = ("--namespace=team-a", f"--leader-elect-namespace={NAMESPACE}", PULLS)
        async with running(bare.folder, account, *options, elect=True, secrets=(ACCOUNT.token,)) as controller:
            demo = sample("ds.demo.yaml")
            await bed.apply(demo)
            await bed.settled(3)
            demo["spec"]["template"]["spec"]["containers"][0]["image"] += "-new"
            await bed.apply(demo)
            await bed.settled(3)
            await bed.api.wait_for(
                EVENTS, lambda told: any(one["reason"] == "CreatedImagePullJob" for one in told), "images go ahead"
            )
            assert await controller.terminated() == 0
        assert audit.refused() == []
        assert audit.rights() <= granted(await built(bare, overlay))
        assert audit.rights() >= {*OLD_SERVERS, Right("apps.kruise.io", "imagepulljobs", "list")}
        assert {one.namespace for one in audit.requests()} <= {"", "team-a", NAMESPACE}
        asks_too_much = Controller(bare.folder, account, "--no-leader-elect")
        try:
            line = await asks_too_much.says("cannot watch")
            assert (line["state"], line["why"].endswith(": Forbidden (HTTP 403)")) == ("forbidden", True), line
        finally:
            asks_too_much.process.kill()
