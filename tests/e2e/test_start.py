"""The controller as a process: its options, how it ends by a wrong one, and clusters that are not ready for it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
import pytest_asyncio

from tests.beds.api import EVENTS
from tests.beds.audit import NAMESPACE, OLD_SERVERS, Audit, Right, granted
from tests.beds.control_plane import DEFAULT_CONTROLLERS, Binaries, ControlPlane, Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.installed.process import COMMAND, PATIENCE, Controller, running
from tests.beds.installed.workspace import bed_on, built, sample
from tests.beds.manifests import MANIFESTS, overlay_with
from tests.beds.nodes import Behaviour
from tests.e2e.api_proxy import proxy_to
from tests.e2e.conftest import ACCOUNT, PULLS, bare_plane, installed
from tests.e2e.site import free_lease

NO_PAGES = ("--metrics-bind-address=0", "--health-probe-bind-address=0")


@dataclass(frozen=True)
class Ended:
    """How a process that ends by itself did so."""

    code: int
    out: str
    err: str


async def run(*options: str, **env: str) -> Ended:
    """The controller with these options and KRUISE_DS_ variables; it must end by itself."""
    clean = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    whole = {**clean, "HOME": "/nonexistent", **{f"KRUISE_DS_{name}": value for name, value in env.items()}}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(str(COMMAND), *options, env=whole, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def test_the_version_is_that_of_the_package() -> None:
    said = await run("--version")
    assert (said.code, said.out, said.err) == (0, f"kruise-ds-controller {version('kruise-ds')}\n", "")


@pytest.mark.parametrize(
    ("options", "env", "named"),
    [
        pytest.param(("--feature-gates=Nonsense=true",), {}, "--feature-gates", id="bad value"),
        pytest.param((), {"FEATURE_GATES": "Nonsense=true"}, "--feature-gates", id="bad variable"),
        pytest.param(("--nonsense",), {}, "--nonsense", id="unknown"),
        pytest.param((), {}, "--kubeconfig", id="no kubeconfig"),
        pytest.param(("--kubeconfig=/nonexistent/config",), {}, "--kubeconfig", id="kubeconfig missing"),
        pytest.param(("--metrics-auth",), {}, "--metrics-tls-cert-file", id="auth without TLS"),
        pytest.param(("--metrics-tls-cert-file=/x",), {}, "--metrics-tls-private-key-file", id="no key"),
        pytest.param(("--metrics-tls-private-key-file=/x",), {}, "--metrics-tls-cert-file", id="no certificate"),
    ],
)
async def test_a_wrong_option_is_one_line_that_names_it_and_exit_2(
    options: tuple[str, ...], env: dict[str, str], named: str
) -> None:
    """All bad values of all options are in unit/controller/test_command_line.py."""
    said = await run(*NO_PAGES, *options, **env)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
    assert named in said.err


@pytest.mark.real
async def test_what_a_valid_kubeconfig_does_not_help_ends_with_exit_2(plane: ControlPlane, tmp_path: Path) -> None:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    chain.write_text("no certificate")
    key.write_text("no key")
    with socket.create_server((LOOPBACK, 0)) as taken:
        address = f"{LOOPBACK}:{taken.getsockname()[1]}"
        for options, named in (
            (("--context=nobody", *NO_PAGES), "--context"),
            ((f"--metrics-bind-address={address}", NO_PAGES[1]), f"--metrics-bind-address {address}"),
            ((f"--health-probe-bind-address={address}", NO_PAGES[0]), f"--health-probe-bind-address {address}"),
            (
                (
                    f"--metrics-tls-cert-file={chain}",
                    f"--metrics-tls-private-key-file={key}",
                    f"--metrics-bind-address={LOOPBACK}:0",
                    NO_PAGES[1],
                ),
                "--metrics-tls-private-key-file",
            ),
            (("--prometheus-url=https://p", f"--prometheus-ca-file={chain}", *NO_PAGES), "--prometheus-ca-file"),
            (("--prometheus-url=https://p", "--prometheus-token-file=/no", *NO_PAGES), "--prometheus-token-file"),
        ):
            said = await run(f"--kubeconfig={plane.kubeconfig}", "--no-leader-elect", *options)
            assert said.code == 2, said
            last = said.err.splitlines()[-1]
            assert all(word in last for word in named.split()), said


@pytest.mark.real
async def test_every_option_may_come_from_the_environment(plane: ControlPlane, tmp_path: Path) -> None:
    port = free_port()
    values = {
        "KUBECONFIG": str(plane.kubeconfig_for(ACCOUNT)),
        "CONTEXT": "kruise-ds",
        "NAMESPACE": "one two",
        "WORKERS": "5",
        "LEADER_ELECT": "false",
        "METRICS_BIND_ADDRESS": f"{LOOPBACK}:{port}",
        "HEALTH_PROBE_BIND_ADDRESS": "0",
        "KUBE_API_QPS": "50",
        "KUBE_API_BURST": "100",
        "PROMETHEUS_URL": f"http://{LOOPBACK}:9",
        "FEATURE_GATES": "PreDownloadImageForDaemonSetUpdate=false",
        "ZONE_METRICS": "true",
        "LOG_LEVEL": "warning",
        "LOG_FORMAT": "console",
    }
    said = await run("--help", COLUMNS="200")
    files = ("METRICS_TLS_CERT_FILE", "METRICS_TLS_PRIVATE_KEY_FILE", "PROMETHEUS_TOKEN_FILE", "PROMETHEUS_CA_FILE")
    for name in (*values, *files, "METRICS_AUTH"):
        assert f"KRUISE_DS_{name}" in said.out.replace("\n", ""), "the help names it"
        assert f"--{name.lower().replace('_', '-')}" in said.out
    env = {**os.environ, **{f"KRUISE_DS_{name}": value for name, value in values.items()}}
    audit = Audit(plane, ACCOUNT)
    process = Process("by-environment", [COMMAND], folder=tmp_path, env=env)
    try:

        async def watches() -> bool:
            return {"one", "two"} <= {one.namespace for one in audit.requests() if one.verb == "watch"}

        await process.until(watches, what="watching both namespaces", seconds=60)
        _, metrics = await get(f"http://{LOOPBACK}:{port}/metrics", seconds=PATIENCE)
        assert 'controller_runtime_max_concurrent_reconciles{controller="daemonset"} 5.0' in metrics
        await process.stop(grace=20)
        assert process.returncode == 0
    finally:
        process.kill()
    assert process.log.read_text() == "", "no warnings, and nothing below"


NODES = ("early", "late")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(control_plane_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """A control plane without our kinds, and an old one: it cannot send a first list as a watch."""
    async with bare_plane(control_plane_binaries, [ACCOUNT], "--feature-gates=WatchList=false") as started:
        yield started


@pytest.mark.real
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


@pytest.mark.real
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


@pytest.mark.real
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
