"""Exec plugins of a kubeconfig that run, and what is said when they do not do. They are Python one-liners."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.credentials import ExecPlugin, Program
from controller.kube.errors import ConfigError, redacted
from tests.unit.controller.kube.test_access import NOW, kubeconfig

PLUGIN = """
import json, pathlib, sys
counter = pathlib.Path(sys.argv[1])
runs = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(runs))
if pathlib.Path(sys.argv[1] + ".broken").exists():
    sys.exit("please log in again")
status = {"token": f"run-{runs}", "expirationTimestamp": "2100-01-01T00:00:00Z"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""
EXPIRY = 4_102_444_800.0  # 2100-01-01
VERSION = "client.authentication.k8s.io/v1"
SETTINGS = {"apiVersion": VERSION, "interactiveMode": "IfAvailable"}


def with_plugin(folder: Path) -> str:
    args = ["-c", PLUGIN, str(folder / "runs")]
    return kubeconfig(folder / "config", {"exec": {**SETTINGS, "command": sys.executable, "args": args}})


async def test_an_exec_plugin_runs_once_and_again_before_its_token_expires(tmp_path: Path) -> None:
    now = [NOW]
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: now[0])
    assert isinstance(connection.credentials, ExecPlugin)
    async with connection.credentials.renewing():
        assert await connection.credentials.authorization() == "Bearer run-1"
        now[0] = EXPIRY - 61
        assert await connection.credentials.authorization() == "Bearer run-1"
        now[0] = EXPIRY - 59
        assert await connection.credentials.authorization() == "Bearer run-1", "good for another minute: nobody waits"
        await connection.credentials.refresh()
        assert await connection.credentials.authorization() == "Bearer run-2"
        assert await connection.credentials.authorization() == "Bearer run-2", "not more often than every ten seconds"
    assert (tmp_path / "runs").read_text() == "2", "whoever is refused meanwhile waits for the run that is on its way"


KNOWS = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": "+".join(sorted(info["spec"]))}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


@pytest.mark.parametrize(("asked", "told"), [({}, ""), ({"provideClusterInfo": True}, "cluster+")])
async def test_only_a_plugin_that_asks_for_it_learns_of_the_cluster(
    tmp_path: Path, asked: dict[str, bool], told: str
) -> None:
    settings = {**SETTINGS, **asked, "command": sys.executable, "args": ["-c", KNOWS]}
    connection = await config.load(kubeconfig(tmp_path / "config", {"exec": settings}), environ={})
    assert await connection.credentials.authorization() == f"Bearer {told}interactive"


async def test_a_plugin_that_fails_later_leaves_the_old_token(tmp_path: Path) -> None:
    now = [NOW]
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: now[0])
    async with connection.credentials.renewing():
        (tmp_path / "runs.broken").touch()
        now[0] = EXPIRY - 30
        assert await connection.credentials.authorization() == "Bearer run-1"
        with pytest.raises(ConfigError, match=r"context one.*process returned 1$"):
            await connection.credentials.refresh()


PRINTS = "import sys; print(sys.argv[1]); sys.exit(sys.argv[2] or 0)"
PYTHON = {**SETTINGS, "command": sys.executable}
MISSING = {**SETTINGS, "command": "no-such-login"}
MALFORMED = "failed: malformed response"
MODES = "needs interactiveMode: one of Never, IfAvailable, Always"


def printing(printed: str, complaint: str = "") -> dict[str, object]:
    return {**PYTHON, "args": ["-c", PRINTS, printed, complaint]}


def credential(**status: str) -> dict[str, object]:
    return printing(json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}))


@pytest.mark.parametrize(
    ("settings", "logged", "quoting", "hint"),
    [
        (printing("", "no\n  realm"), "failed: process returned 1", "", "log in again"),
        (printing("{"), MALFORMED, "Input data was truncated", "log in again"),
        (printing("{}"), MALFORMED, "Object missing required field `apiVersion`", "log in again"),
        (
            printing('{"apiVersion": "v0", "kind": "", "status": {}}'),
            f"failed: plugin api version does not match {VERSION}",
            "it returned v0",
            "log in again",
        ),
        (credential(), f"{MALFORMED}. status: neither a token nor a certificate", "", "log in again"),
        (
            credential(token="t", clientKeyData="k"),
            f"{MALFORMED}. status: a certificate or a key, not both",
            "",
            "log in again",
        ),
        ({"apiVersion": VERSION}, "failed: malformed request. missing key 'command'", "", "log in again"),
        ({**SETTINGS, "command": "/etc/passwd"}, "cannot be run: Permission denied", "", ""),
        (MISSING, "is not installed", "", ""),
        ({**MISSING, "installHint": "brew install login\n\nor else"}, "is not installed", "", "brew install login"),
        ({"apiVersion": VERSION, "command": "login"}, MODES, "", ""),
        ({**MISSING, "interactiveMode": "Sometimes"}, MODES, "", ""),
        (
            {**MISSING, "interactiveMode": "Always"},
            "has interactiveMode Always, and standard input is not a terminal",
            "",
            "",
        ),
    ],
    ids=[
        "an exit code",
        "no JSON",
        "no credential",
        "another version",
        "an empty one",
        "half a pair",
        "no command",
        "no program",
        "not installed",
        "not installed, with a hint",
        "no mode",
        "an unknown mode",
        "no terminal",
    ],
)
async def test_what_is_wrong_with_a_plugin_is_said_and_its_words_not_logged(
    tmp_path: Path, settings: dict[str, object], logged: str, quoting: str, hint: str
) -> None:
    path = kubeconfig(tmp_path / "config", {"exec": settings})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    words = f'context one of {path}: its exec plugin "{settings.get("command")}" {logged}'
    assert str(raised.value) == (f"{words}: {quoting}" if quoting else words)
    assert (redacted(raised.value), raised.value.hint) == (words, hint)


async def test_a_certificate_too_is_known_to_expire() -> None:
    status = {"clientCertificateData": "crt", "clientKeyData": "key", "expirationTimestamp": "2100-01-01T00:00:00Z"}
    assert (await Program(credential(**status), "context one").run()).expiry == EXPIRY


async def test_an_expired_exec_credential_is_named_once_the_server_refuses(tmp_path: Path) -> None:
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: EXPIRY + 1)
    words = "hands out a credential that expired at 2100-01-01T00:00:00Z"
    async with connection.credentials.renewing():
        with pytest.raises(ConfigError, match=words) as raised:
            await connection.credentials.refresh()
        assert raised.value.hint == "log in again"
        assert await connection.credentials.authorization() == "Bearer run-2", "the server has the last word"


async def test_a_plugin_may_complain_at_length(tmp_path: Path) -> None:
    """More than a pipe holds, before it says anything else."""
    program = f"import sys; sys.stderr.write('x' * 10**6); {PLUGIN}"
    settings = {**PYTHON, "args": ["-c", program, str(tmp_path / "runs")]}
    connection = await config.load(kubeconfig(tmp_path / "config", {"exec": settings}), environ={})
    assert await connection.credentials.authorization() == "Bearer run-1"
