"""A start into a cluster that is not ready for it: no server, no kind, no rights but those of one namespace."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.beds.audit import Audit
from tests.beds.control_plane import DEFAULT_CONTROLLERS, Binaries, ControlPlane
from tests.beds.installed.process import Controller, running
from tests.beds.installed.workspace import bed_on, built, sample
from tests.beds.manifests import MANIFESTS
from tests.beds.rights import OLD_SERVERS, granted
from tests.e2e.api_proxy import proxy_to
from tests.e2e.conftest import ACCOUNT, bare_plane, installed

pytestmark = pytest.mark.real

NODES = ("early", "late")
INSTALL = "kubectl apply --server-side -k manifests/crds"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(complete_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """A control plane that has never heard of us, and is of an older kind: it cannot send a first list as a watch."""
    async with bare_plane(complete_binaries, [ACCOUNT], "--feature-gates=WatchList=false") as started:
        yield started


async def test_without_a_server_it_waits_says_so_once_and_begins_when_one_comes(bare: ControlPlane) -> None:
    await installed(bare, "crds")
    async with proxy_to(bare, bare.admin, "late") as proxy, bed_on(bare) as bed:
        await bed.workers(*NODES)
        await bed.apply_sample("ds.demo.yaml")
        controller = Controller(bare.folder, proxy.kubeconfig, "--no-leader-elect")
        try:
            line = await controller.says("API server not reached")
            assert line["level"] == "error"
            assert "refused" in line["why"].lower()
            status, body = await controller.page("/readyz")
            assert status == 503
            assert "not listed yet" in body
            assert (await controller.page("/healthz"))[0] == 200, "waiting is no reason to be restarted"
            await proxy.open()
            await bed.serves(*NODES)
            await bed.settled(2)
            assert (await controller.page("/readyz"))[0] == 200
            assert len(controller.said("API server not reached")) == 1, "said once"
            assert len(controller.said("API server reached")) == 1
            await proxy.shut()
            assert await controller.terminated() == 0, "it ends cleanly also while the server is away"
        finally:
            controller.process.kill()


async def test_without_a_server_sigterm_ends_it_cleanly(bare: ControlPlane) -> None:
    async with proxy_to(bare, bare.admin, "never") as proxy:
        for elect in ("--leader-elect", "--no-leader-elect"):
            controller = Controller(bare.folder, proxy.kubeconfig, elect)
            try:
                await controller.says("API server not reached")
                assert await controller.terminated() == 0
            finally:
                controller.process.kill()


async def test_without_the_kind_it_says_how_to_install_it_and_begins_when_it_is_there(bare: ControlPlane) -> None:
    await bare.run_kubectl("delete", "--ignore-not-found", "-k", str(MANIFESTS / "crds"))
    controller = Controller(bare.folder, bare.kubeconfig, "--no-leader-elect")
    try:
        line = await controller.says("is not installed")
        assert line["install_with"] == INSTALL
        assert (await controller.page("/readyz"))[0] == 503
        await installed(bare, "crds")
        await controller.ready()
        async with bed_on(bare) as bed:
            await bed.workers(*NODES)
            await bed.apply_sample("ds.demo.yaml")
            await bed.serves(*NODES)
            await bed.settled(2)
        assert len(controller.said("is not installed")) == 1, "said once"
        assert await controller.terminated() == 0
    finally:
        controller.process.kill()


async def test_the_namespaced_overlay_gives_the_rights_for_its_namespace_and_no_more(bare: ControlPlane) -> None:
    await installed(bare, "crds")
    await bare.start_controller_manager(DEFAULT_CONTROLLERS)
    async with bed_on(bare, "team-a") as bed:
        done = await bare.run_kubectl("apply", "--server-side", "-k", str(MANIFESTS / "overlays" / "namespaced"))
        assert done.returncode == 0, done.stderr
        audit = Audit(bare, ACCOUNT)
        await bed.workers(*NODES)
        account = bare.kubeconfig_for(ACCOUNT)
        options = ("--namespace=team-a", "--leader-elect-namespace=kruise-ds-system")
        async with running(bare.folder, account, *options, elect=True, secrets=(ACCOUNT.token,)) as controller:
            demo = sample("ds.demo.yaml")
            await bed.apply(demo)
            await bed.serves(*NODES)
            await bed.settled(2)
            demo["spec"]["template"]["metadata"]["labels"]["ver"] = "v2"
            await bed.apply(demo)
            await bed.serves(*NODES, labels={"ver": "v2"})
            await bed.settled(2)
            assert await controller.terminated() == 0
        assert audit.refused() == []
        may = granted(await built(bare, "overlays/namespaced"))
        assert audit.rights() <= may
        assert audit.rights() >= OLD_SERVERS
        assert {one.namespace for one in audit.requests()} <= {"", "team-a", "kruise-ds-system"}
        async with running(bare.folder, account, "--namespace=team-a", "--workers=1") as controller:
            assert await controller.terminated() == 0
        asks_too_much = Controller(bare.folder, account, "--no-leader-elect")
        try:
            line = await asks_too_much.says("cannot watch")
            assert line["state"] == "forbidden"
            assert "cannot list resource" in line["why"]
        finally:
            asks_too_much.process.kill()
