"""Credentials of the controller that change while it runs and are never logged; the plugin with a certificate."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from controller.app import run
from controller.kube.config import in_cluster
from controller.kube.connection import Connection, Credentials, tls_context
from controller.kube.requests import NotConnected, Request, Response, Stream, Transport
from controller.kube.transport import open_transport
from controller.settings import Settings
from controller.wiring import Parts
from tests.beds.api import DAEMONSETS, NODES, PODS, Api, Resource
from tests.beds.audit import NAMESPACE
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.control_plane.access import run_to_end
from tests.beds.control_plane.processes import free_port
from tests.beds.controller.running import SHARED
from tests.beds.installed.process import PATIENCE, Controller
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.nodes.machine import node_manifest
from tests.e2e.conftest import ACCOUNT, bare_plane, installed

API = "client.authentication.k8s.io/v1"
EXPIRY = "2099-01-02T03:04:05Z"
SECRETS = Resource("/api/v1", "secrets", "Secret")


def connection_with(plane: ControlPlane, token: str) -> Connection:
    """By the authority as it is now."""
    return Connection(
        server=plane.url, credentials=Credentials(f"Bearer {token}"), tls=tls_context(str(plane.ca_path))
    )


@asynccontextmanager
async def administrator(plane: ControlPlane) -> AsyncIterator[Api]:
    async with open_transport(connection_with(plane, plane.token)) as transport:
        yield Api(transport)


async def fresh_token(plane: ControlPlane, secret: str) -> str:
    """A token of the controller's account that ends with the Secret that it is bound to."""
    async with administrator(plane) as api:
        await api.create(SECRETS, {"metadata": {"name": secret, "namespace": NAMESPACE}})
    words = ("create", "token", "kruise-ds-controller", "--bound-object-kind=Secret", f"--bound-object-name={secret}")
    done = await plane.run_kubectl("--namespace", NAMESPACE, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def end(plane: ControlPlane, token: str, secret: str) -> None:
    """Delete its Secret, and wait until the server refuses the token, which it goes on to take for ten seconds."""
    async with administrator(plane) as api:
        await api.delete(SECRETS, secret, namespace=NAMESPACE)
    async with open_transport(connection_with(plane, token)) as transport, asyncio.timeout(60):
        while (await transport.exchange(Request(method="GET", path="/api"))).status != 401:  # no event tells
            await asyncio.sleep(0.2)


class ExecPlugin:
    """A program that hands out the credential in a file, and counts its runs in another one."""

    def __init__(self, folder: Path, last: str = 'cat "$here/credential"') -> None:
        """`last`: what it does in the end, as a line of sh."""
        self.path, self._runs, self._credential = folder / "login", folder / "runs", folder / "credential"
        self.path.write_text(f'#!/bin/sh\nhere={folder}\necho $$ >>"$here/runs"\n{last}\n')
        self.path.chmod(0o700)

    def hands_out(self, **status: Any) -> None:
        """From now on; the expiry lies far ahead."""
        whole = {"apiVersion": API, "kind": "ExecCredential", "status": {"expirationTimestamp": EXPIRY, **status}}
        partial = self._credential.with_suffix(".new")
        partial.write_text(json.dumps(whole))
        partial.rename(self._credential)

    @property
    def runs(self) -> list[int]:
        """The process id of each run."""
        return [int(word) for word in self._runs.read_text().split()] if self._runs.exists() else []

    def logs_in(self, kubeconfig: Path) -> Path:
        """The same kubeconfig with this plugin for its user."""
        config = json.loads(kubeconfig.read_text())
        config["users"][0]["user"] = {
            "exec": {"apiVersion": API, "command": str(self.path), "interactiveMode": "Never"}
        }
        path = self.path.with_name("kubeconfig")
        path.write_text(json.dumps(config))
        return path


def nowhere(folder: Path) -> Path:
    """A kubeconfig for a server that is not there."""
    path = folder / "nowhere"
    cluster = {"server": f"https://127.0.0.1:{free_port()}", "insecure-skip-tls-verify": True}
    config = {
        "clusters": [{"name": "none", "cluster": cluster}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "me"}}],
        "current-context": "none",
    }
    path.write_text(json.dumps(config))
    return path


async def test_an_exec_plugin_that_hangs_at_the_start_does_not_hold_up_sigterm(tmp_path: Path) -> None:
    plugin = ExecPlugin(tmp_path, "exec sleep 60")
    controller = Controller(tmp_path, plugin.logs_in(nowhere(tmp_path)), "--no-leader-elect")
    try:
        await controller.until(lambda: bool(plugin.runs), "runs the plugin", PATIENCE)
        began = time.monotonic()
        assert await controller.terminated() == 0
        assert time.monotonic() - began < 10.0, "long before the plugin would, and sooner than any stop has to"
        assert [line["msg"] for line in controller.lines] == ["stopped"]
    finally:
        controller.process.kill()
        for run_ in plugin.runs:
            with suppress(ProcessLookupError):
                os.kill(run_, signal.SIGKILL)


@pytest.mark.parametrize(
    ("status", "last"),
    [
        pytest.param({"token": "tok-4hQ9xVb2\nX-Other: tok-7Lm3"}, "", id="a token of two lines"),
        pytest.param({"token": {"value": "tok-4hQ9xVb2"}}, "", id="a token that is no text"),
        pytest.param({"clientCertificateData": "crt-4hQ9xVb2", "clientKeyData": "key-7Lm3"}, "", id="no certificate"),
        pytest.param({"token": "tok-4hQ9xVb2", "expirationTimestamp": "next week"}, "", id="an odd expiry"),
        pytest.param({"token": "t"}, "echo tok-4hQ9xVb2 is refused >&2; exit 1", id="a failure in its own words"),
        pytest.param({"token": "t"}, "echo tok-4hQ9xVb2", id="no JSON"),
        pytest.param({"token": "t"}, """echo '{"apiVersion":"4hQ9xVb2","kind":"","status":{}}'""", id="a version"),
        pytest.param({"token": "t"}, """echo tok-4hQ9xVb2 >&2; cat "$here/credential\"""", id="a word beside it"),
    ],
)
async def test_what_an_exec_plugin_says_is_not_logged_at_debug(
    tmp_path: Path, status: dict[str, Any], last: str
) -> None:
    plugin = ExecPlugin(tmp_path, *([last] if last else []))
    plugin.hands_out(**status)
    controller = Controller(tmp_path, plugin.logs_in(nowhere(tmp_path)), "--no-leader-elect")
    try:
        told = ("cannot connect", "API server not reached")
        await controller.until(lambda: any(map(controller.said, told)), "says how far it has come", PATIENCE)
    finally:
        controller.process.kill()
    assert plugin.runs
    text = controller.process.log.read_text()
    assert [words for words in ("4hQ9xVb2", "7Lm3", EXPIRY) if words in text] == []


class Listening:
    """A transport that remembers how its requests went: the status, or why there was none."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.heard: list[int | str] = []

    async def exchange(self, request: Request) -> Response:
        with self._failures():
            response = await self._transport.exchange(request)
        self.heard.append(response.status)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        with self._failures():
            async with self._transport.stream(request) as stream:
                self.heard.append(stream.status)
                yield stream

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except NotConnected as error:
            self.heard.append(str(error))
            raise


class Volume:
    """The projected volume of a service account: a link to the newest directory, renamed onto the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "namespace").write_text(NAMESPACE)
        for name in ("token", "ca.crt"):
            (folder / name).symlink_to(f"..data/{name}")
        self._turn = 0

    def project(self, token: str, authority: bytes) -> None:
        self._turn += 1
        made = self.folder / f"..{self._turn}"
        made.mkdir()
        (made / "token").write_text(token)
        (made / "ca.crt").write_bytes(authority)
        (self.folder / "..next").symlink_to(made.name)
        (self.folder / "..next").rename(self.folder / "..data")


@asynccontextmanager
async def in_a_pod(plane: ControlPlane, volume: Volume, *, elect: bool = True) -> AsyncIterator[Listening]:
    """The controller with nothing but what a pod has."""
    parts = urlsplit(plane.url)
    environ = {"KUBERNETES_SERVICE_HOST": str(parts.hostname), "KUBERNETES_SERVICE_PORT": str(parts.port)}
    connection, stop = in_cluster(environ, volume.folder), asyncio.Event()
    settings = Settings(metrics_address=None, health_address=None, lease_namespace=NAMESPACE, leader_elect=elect)
    async with open_transport(connection) as transport, asyncio.TaskGroup() as group:
        listening = Listening(transport)
        assembled = Parts(settings, listening, refresh=connection.credentials.refresh)
        group.create_task(run(settings, assembled, stop, SHARED))
        yield listening
        stop.set()


async def works(plane: ControlPlane, node: str) -> None:
    """A node joins, and gets its pod: watches and writes both go on."""
    async with administrator(plane) as api:
        await api.create(NODES, node_manifest(node, {}, [], {}, "2026-11-22T00:00:00Z"))
        await api.wait_for(PODS, lambda pods: any(node in str(pod["spec"]) for pod in pods), f"a pod for {node}")


@pytest.mark.real
async def test_a_rotated_token_and_authority_cost_nothing_but_a_new_connection(
    complete_binaries: Binaries, tmp_path: Path
) -> None:
    async with bare_plane(complete_binaries, [ACCOUNT]) as plane:
        await installed(plane, "overlays/default")
        async with administrator(plane) as api:
            await api.create(DAEMONSETS, sample("ds.demo.yaml"))
        volume = Volume(tmp_path / "serviceaccount")
        first, old_authority = await fresh_token(plane, "first"), plane.ca_path.read_bytes()
        volume.project(first, old_authority)
        async with in_a_pod(plane, volume) as listening:
            await works(plane, "before")
            volume.project(await fresh_token(plane, "second"), old_authority)
            await end(plane, first, "first")
            await works(plane, "with-another-token")
            assert 401 not in listening.heard

        volume.project(ACCOUNT.token, old_authority)  # one that outlives the key of the next authority
        async with in_a_pod(plane, volume, elect=False) as listening:  # it would end without a server
            await works(plane, "with-a-token-that-lasts")
            await plane.kill_apiserver()
            for file in (plane.ca_path, plane.ca_path.with_suffix(".key")):
                file.unlink()
            await plane.start_apiserver()
            async with asyncio.timeout(60):
                while not any("certificate verify failed" in str(heard) for heard in listening.heard):
                    await asyncio.sleep(0.05)
            volume.project(ACCOUNT.token, plane.ca_path.read_bytes())
            await works(plane, "with-another-authority")
            assert 401 not in listening.heard


@pytest.mark.real
async def test_the_server_knows_the_plugin_by_the_name_in_its_certificate(
    plane: ControlPlane, clients: trustme.CA, bed: Workspace, tmp_path: Path
) -> None:
    """A certificate of an authority that the server does not know is refused."""
    who, own, key, alien = "carol", *(tmp_path / name for name in ("own.crt", "own.key", "alien.crt"))
    pair = clients.issue_cert(f"{who}.example.com", common_name=who)
    pair.cert_chain_pems[0].write_to_path(str(own))
    pair.private_key_pem.write_to_path(str(key))
    other = trustme.CA().issue_cert(f"{who}.example.com", common_name=who)
    other.private_key_and_cert_chain_pem.write_to_path(str(alien))
    await bed.apply_sample("ds.demo.yaml")

    async def pause(*flags: str) -> tuple[int, str, str]:
        server = (f"--server={plane.url}", f"--certificate-authority={plane.ca_path}")
        command = (sys.executable, "-m", "kubectl_plugin", "pause", "demo", "-n", bed.namespace, *server, *flags)
        return await run_to_end(command, {"PATH": ""})

    flags = (f"--client-certificate={own}", f"--client-key={key}")
    code, _, err = await pause(*flags)
    assert (code, f'User "{who}" cannot get resource "daemonsets"' in err) == (1, True), err
    await bed.kubectl("create", "clusterrolebinding", who, "--clusterrole=cluster-admin", f"--user={who}")
    code, _, err = await pause(*flags)
    assert code == 0, err
    found = await bed.api.get(DAEMONSETS, "demo")
    assert json.loads(found["metadata"]["annotations"]["kruise-ds/last-action"])["by"] == who
    code, _, err = await pause(f"--client-certificate={alien}", f"--client-key={alien}")
    assert (code, "must be logged in" in err) == (1, True), err
