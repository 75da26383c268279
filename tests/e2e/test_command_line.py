"""The controller's command line as a process: how it ends by a wrong option, and what each option does."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, Api
from tests.beds.audit import Audit
from tests.beds.control_plane import ControlPlane, Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.installed.process import COMMAND, PATIENCE, Controller, running
from tests.beds.installed.workspace import Workspace, sample
from tests.e2e.conftest import ACCOUNT

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
        ):
            said = await run(f"--kubeconfig={plane.kubeconfig}", "--no-leader-elect", *options)
            assert said.code == 2, said
            last = said.err.splitlines()[-1]
            assert all(word in last for word in named.split()), said


@pytest.mark.real
async def test_zero_turns_the_servers_off(plane: ControlPlane, tmp_path: Path) -> None:
    controller = Controller(tmp_path, plane.kubeconfig_for(ACCOUNT), *NO_PAGES, "--no-leader-elect")
    try:
        await controller.says("API server reached")
        for page in ("/healthz", "/metrics"):
            assert (await controller.page(page))[0] == 0, f"there is an answer to {page}"
    finally:
        controller.process.kill()


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
        "FEATURE_GATES": "PreDownloadImageForDaemonSetUpdate=false",
        "ZONE_METRICS": "true",
        "LOG_LEVEL": "warning",
        "LOG_FORMAT": "console",
    }
    said = await run("--help", COLUMNS="200")
    for name in (*values, "METRICS_TLS_CERT_FILE", "METRICS_TLS_PRIVATE_KEY_FILE", "METRICS_AUTH"):
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


@pytest.mark.real
async def test_two_namespaces_are_managed_and_a_third_is_left_alone(bed: Workspace) -> None:
    await bed.workers("only")
    second, third = (Api(bed.api.transport, f"{bed.namespace}-{name}") for name in "bc")
    for api in (second, third):
        await bed.api.create(NAMESPACES, {"metadata": {"name": api.namespace}})
    for api in (bed.api, second, third):
        await api.create(DAEMONSETS, sample("ds.demo.yaml"))
    options = (f"--namespace={bed.namespace}", f"--namespace={second.namespace}")
    async with running(bed.plane.folder, bed.plane.kubeconfig_for(ACCOUNT), *options):
        for api in (bed.api, second):
            await api.wait_for(PODS, lambda pods: len(pods) == 1, f"a pod in {api.namespace}")
        await bed.settled(1)
        assert await third.list(PODS) == []
    for api in (second, third):
        await api.delete_all(DAEMONSETS)
        await api.delete(NAMESPACES, api.namespace)
