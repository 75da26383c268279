"""The controller's command line: every option, and what a wrong one answers."""

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
from tests.beds.control_plane.commands import LOOPBACK
from tests.beds.control_plane.ports import free_port
from tests.beds.control_plane.probe import get
from tests.beds.installed.process import COMMAND, PATIENCE, Controller, running
from tests.beds.installed.workspace import Workspace, sample
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

OPTIONS = (
    "--kubeconfig",
    "--context",
    "--namespace",
    "--workers",
    "--leader-elect",
    "--no-leader-elect",
    "--metrics-bind-address",
    "--metrics-tls-cert-file",
    "--metrics-tls-private-key-file",
    "--metrics-auth",
    "--health-probe-bind-address",
    "--kube-api-qps",
    "--kube-api-burst",
    "--feature-gates",
    "--zone-metrics",
    "--log-level",
    "--log-format",
)


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


async def test_help_names_every_option_and_its_environment_variable() -> None:
    said = await run("--help", COLUMNS="200")
    assert said.code == 0
    for option in OPTIONS:
        assert option in said.out, option
        variable = f"KRUISE_DS_{option.removeprefix('--').removeprefix('no-').replace('-', '_').upper()}"
        assert variable in said.out.replace("\n", ""), variable


async def test_the_version_is_that_of_the_package() -> None:
    said = await run("--version")
    assert (said.code, said.out, said.err) == (0, f"kruise-ds-controller {version('kruise-ds')}\n", "")


@pytest.mark.parametrize("by", ["option", "environment"])
async def test_a_bad_value_is_one_line_that_names_the_option(by: str) -> None:
    """For one value; all others are in unit/controller/test_command_line.py."""
    said = await (run("--feature-gates=Nonsense=true") if by == "option" else run(FEATURE_GATES="Nonsense=true"))
    assert said.code == 2
    assert said.err.count("\n") == 1, said.err
    assert "--feature-gates" in said.err
    assert said.out == ""


async def test_an_unknown_option_is_one_line_too() -> None:
    said = await run("--nonsense")
    assert (said.code, said.err.count("\n")) == (2, 1), said.err
    assert "--nonsense" in said.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--kubeconfig=/nonexistent/config",), "--kubeconfig"),
        (("--context=nobody",), "--context"),
        ((), "--kubeconfig"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_line_and_exit_2(
    options: tuple[str, ...], named: str, plane: ControlPlane
) -> None:
    whole = options if named != "--context" else (f"--kubeconfig={plane.kubeconfig}", *options)
    said = await run(*whole, "--metrics-bind-address=0", "--health-probe-bind-address=0")
    assert said.code == 2, said.err
    assert said.err.count("\n") == 1, said.err
    assert named in said.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--metrics-auth",), "--metrics-tls-cert-file"),
        (("--metrics-tls-cert-file=/nonexistent/tls.crt",), "--metrics-tls-private-key-file"),
        (("--metrics-tls-private-key-file=/nonexistent/tls.key",), "--metrics-tls-cert-file"),
    ],
)
async def test_options_of_protected_metrics_that_lack_another_name_it(options: tuple[str, ...], named: str) -> None:
    said = await run(*options)
    assert said.code == 2
    assert said.err.count("\n") == 1, said.err
    assert named in said.err


async def test_a_certificate_that_cannot_be_used_is_one_line_and_exit_2(plane: ControlPlane, tmp_path: Path) -> None:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    key.write_text("no key")
    options = (f"--metrics-tls-cert-file={chain}", f"--metrics-tls-private-key-file={key}")
    elsewhere = (f"--metrics-bind-address={LOOPBACK}:0", "--health-probe-bind-address=0", "--log-format=console")
    for words in (str(chain), "--metrics-tls-private-key-file"):
        said = await run(f"--kubeconfig={plane.kubeconfig}", *options, *elsewhere)
        assert said.code == 2, said.out
        assert words in said.out + said.err
        chain.write_text("no certificate")


@pytest.mark.parametrize("option", ["--metrics-bind-address", "--health-probe-bind-address"])
async def test_a_port_that_is_taken_names_its_option(option: str, plane: ControlPlane) -> None:
    other = {"--metrics-bind-address", "--health-probe-bind-address"} - {option}
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        said = await run(
            f"--kubeconfig={plane.kubeconfig}", f"{option}={LOOPBACK}:{port}", f"{other.pop()}=0", "--no-leader-elect"
        )
    assert said.code == 2, said.err
    last = said.err.splitlines()[-1]
    assert option in last
    assert str(port) in last


async def test_zero_turns_the_servers_off(plane: ControlPlane, tmp_path: Path) -> None:
    options = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--no-leader-elect")
    controller = Controller(tmp_path, plane.kubeconfig_for(ACCOUNT), *options)
    try:
        await controller.says("API server reached")
        for page in ("/healthz", "/metrics"):
            assert (await controller.page(page))[0] == 0, f"nobody answers {page}"
        assert await controller.terminated() == 0
    finally:
        controller.process.kill()


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
        "LOG_LEVEL": "warning",
        "LOG_FORMAT": "console",
    }
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


async def test_namespace_may_be_given_twice_and_the_others_are_left_alone(bed: Workspace) -> None:
    await bed.workers("only")
    second, third = f"{bed.namespace}-b", f"{bed.namespace}-c"
    spaces = [bed.api, Api(bed.api.transport, second), Api(bed.api.transport, third)]
    for name in (second, third):
        await bed.api.create(NAMESPACES, {"metadata": {"name": name}})
    for name in (bed.namespace, second, third):
        demo = sample("ds.demo.yaml")
        demo["metadata"]["namespace"] = name
        await bed.plane.run_kubectl("apply", "-f", "-", stdin=str(demo).replace("'", '"'))
    options = (f"--namespace={bed.namespace}", f"--namespace={second}")
    async with running(bed.plane.folder, bed.plane.kubeconfig_for(ACCOUNT), *options):
        for api in spaces[:2]:
            await api.wait_for(PODS, lambda pods: len(pods) == 1, f"a pod in {api.namespace}")
        await bed.kubectl("label", "node", "only", "woken=yes")
        await bed.settled(1)
        assert await spaces[2].list(PODS) == []
    for api in spaces[1:]:
        await api.delete_all(DAEMONSETS)
        await api.delete(NAMESPACES, api.namespace)


async def test_the_pages_for_probes_and_scrapers(plane: ControlPlane) -> None:
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT)) as controller:
        assert await controller.page("/healthz") == (200, "ok")
        assert await controller.page("/readyz") == (200, "ok")
        status, body = await controller.page("/readyz?verbose")
        assert status == 200
        assert "[+]caches ok" in body
        status, body = await controller.page("/metrics")
        assert status == 200
        for name in ("rest_client_requests_total", "workqueue_depth", "kruise_ds_build_info", "process_cpu_seconds"):
            assert name in body, name
