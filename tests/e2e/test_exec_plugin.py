"""A kubeconfig with an exec plugin: its token is renewed while the controller runs, and none is logged."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.beds.api import PODS
from tests.beds.control_plane import ControlPlane
from tests.beds.control_plane.ports import free_port
from tests.beds.installed.process import PATIENCE, Controller, running
from tests.beds.installed.workspace import Workspace
from tests.e2e.api_proxy import proxy_to
from tests.e2e.conftest import ACCOUNT
from tests.e2e.tokens import end, fresh_token

API = "client.authentication.k8s.io/v1"
EXPIRY = "2099-01-02T03:04:05Z"


class Plugin:
    """A program that hands out the credential in a file, and counts its runs in another one."""

    def __init__(self, folder: Path, last: str = 'cat "$here/credential"') -> None:
        """`last`: what it does in the end, as a line of sh."""
        self.path, self.runs_at, self._credential = folder / "login", folder / "runs", folder / "credential"
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
        return [int(word) for word in self.runs_at.read_text().split()] if self.runs_at.exists() else []

    async def has_begun(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.runs:  # what another process does sets no event here
                await asyncio.sleep(0.02)

    def end(self) -> None:
        """End all runs that have not ended."""
        for run in self.runs:
            with suppress(ProcessLookupError):
                os.kill(run, signal.SIGKILL)

    def logs_in(self, kubeconfig: Path) -> Path:
        """The same kubeconfig with this plugin for its user."""
        config = json.loads(kubeconfig.read_text())
        settings = {"apiVersion": API, "command": str(self.path), "interactiveMode": "Never"}
        config["users"][0]["user"] = {"exec": settings}
        path = self.path.with_name("kubeconfig")
        path.write_text(json.dumps(config))
        return path


def nowhere(folder: Path) -> Path:
    """A kubeconfig for a server that nobody is."""
    path = folder / "nowhere"
    cluster = {"server": f"https://127.0.0.1:{free_port()}", "insecure-skip-tls-verify": True}
    config: Mapping[str, Any] = {
        "clusters": [{"name": "none", "cluster": cluster}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "me"}}],
        "current-context": "none",
    }
    path.write_text(json.dumps(config))
    return path


@pytest.mark.real
async def test_a_plugin_runs_again_when_its_token_ends_and_nobody_notices(
    plane: ControlPlane, bed: Workspace, tmp_path: Path
) -> None:
    plugin, tokens = Plugin(tmp_path), [await fresh_token(plane, f"login-{turn}") for turn in (1, 2)]
    plugin.hands_out(token=tokens[0])
    async with proxy_to(plane, ACCOUNT, "exec") as proxy:
        await proxy.open()
        kubeconfig = plugin.logs_in(proxy.kubeconfig)
        namespace = "--leader-elect-namespace=kruise-ds-system"
        secrets = (*tokens, *(token.rpartition(".")[2] for token in tokens))
        async with running(tmp_path, kubeconfig, namespace, elect=True, secrets=secrets) as controller:
            await controller.leads()
            assert len(plugin.runs) == 1
            await bed.workers("one", "two")
            await bed.apply_sample("ds.demo.yaml")
            before = await bed.serves("one", "two")

            plugin.hands_out(token=tokens[1])
            await end(plane, tokens[0], "login-1")
            await bed.api.delete(PODS, before["one"]["metadata"]["name"])
            await bed.api.wait_for(
                PODS,
                lambda pods: len(pods) == 2 and before["one"]["metadata"]["uid"] not in str(pods),
                "the pod of node one is replaced, over the watches of the old token",
            )
            assert len(plugin.runs) > 1, "with another token"

            await proxy.shut()
            await proxy.open()
            await bed.workers("three")
            after = await bed.serves("one", "two", "three")
            assert after["two"]["metadata"]["uid"] == before["two"]["metadata"]["uid"]
            assert not controller.said("leadership lost")
            assert await controller.terminated() == 0


async def test_a_plugin_that_hangs_at_the_start_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, "exec sleep 60")
    controller = Controller(tmp_path, plugin.logs_in(nowhere(tmp_path)), "--no-leader-elect")
    try:
        await plugin.has_begun()
        began = time.monotonic()
        assert await controller.terminated() == 0
        assert time.monotonic() - began < 10.0, "long before the plugin would, and sooner than any stop has to"
        assert [line["msg"] for line in controller.lines] == ["stopped"]
    finally:
        controller.process.kill()
        plugin.end()


CREDENTIALS: dict[str, dict[str, Any]] = {
    "a token": {"token": "tok-4hQ9xVb2"},
    "a token of two lines": {"token": "tok-4hQ9xVb2\nX-Other: tok-7Lm3"},
    "a token that is no text": {"token": {"value": "tok-4hQ9xVb2"}},
    "a certificate that is none": {"clientCertificateData": "crt-4hQ9xVb2", "clientKeyData": "key-7Lm3"},
    "a certificate without its key": {"clientCertificateData": "crt-4hQ9xVb2"},
    "a token with an odd expiry": {"token": "tok-4hQ9xVb2", "expirationTimestamp": "next week"},
    "nothing of use": {"password": "tok-4hQ9xVb2"},
}


@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_nothing_that_a_plugin_hands_out_reaches_the_log_at_debug(tmp_path: Path, kind: str) -> None:
    plugin = Plugin(tmp_path)
    plugin.hands_out(**CREDENTIALS[kind])
    controller = Controller(tmp_path, plugin.logs_in(nowhere(tmp_path)), "--no-leader-elect")
    try:
        await controller.until(
            lambda: bool(controller.said("cannot connect") or controller.said("API server not reached")),
            "says how far it has come",
            PATIENCE,
        )
    finally:
        controller.process.kill()
    assert plugin.runs
    text = controller.process.log.read_text()
    for words in ("4hQ9xVb2", "7Lm3", EXPIRY):
        assert words not in text, kind
