"""Exec plugins of a kubeconfig: when they run, and what is said when they do not do. They are Python one-liners."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.errors import ConfigError
from controller.kube.exec_plugin import ExecPlugin
from tests.pure.kube.test_config import NOW, kubeconfig

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


def with_plugin(folder: Path) -> str:
    args = ["-c", PLUGIN, str(folder / "runs")]
    api_version = "client.authentication.k8s.io/v1"
    return kubeconfig(
        folder / "config", {"exec": {"apiVersion": api_version, "command": sys.executable, "args": args}}
    )


async def test_an_exec_plugin_runs_once_and_again_shortly_before_its_token_expires(tmp_path: Path) -> None:
    now = [NOW]
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: now[0])
    assert isinstance(connection.credentials, ExecPlugin)
    assert await connection.credentials.authorization() == "Bearer run-1"
    now[0] = EXPIRY - 61
    assert await connection.credentials.authorization() == "Bearer run-1"
    now[0] = EXPIRY - 59
    assert await connection.credentials.authorization() == "Bearer run-2"
    assert await connection.credentials.authorization() == "Bearer run-2", "not more often than every ten seconds"


async def test_an_exec_plugin_runs_again_when_the_server_refuses_its_token(tmp_path: Path) -> None:
    connection = await config.load(with_plugin(tmp_path), environ={})
    await connection.credentials.refresh()
    assert await connection.credentials.authorization() == "Bearer run-2"


async def test_a_plugin_that_fails_later_leaves_the_old_token_and_says_why_when_refused(tmp_path: Path) -> None:
    now = [NOW]
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: now[0])
    (tmp_path / "runs.broken").touch()
    now[0] = EXPIRY - 30
    assert await connection.credentials.authorization() == "Bearer run-1"
    with pytest.raises(ConfigError, match=r"context one.*please log in again"):
        await connection.credentials.refresh()


async def test_a_plugin_that_fails_at_the_start_is_one_line(tmp_path: Path) -> None:
    path = with_plugin(tmp_path)
    (tmp_path / "runs.broken").touch()
    with pytest.raises(ConfigError, match="please log in again"):
        await config.load(path, environ={})


async def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    missing = {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-login"}
    path = kubeconfig(tmp_path / "config", {"exec": missing})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    assert str(raised.value) == f'context one of {path}: its exec plugin "no-such-login" is not installed'
    assert raised.value.hint == ""
    path = kubeconfig(tmp_path / "config", {"exec": {**missing, "installHint": "brew install login\n\nor else"}})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    assert raised.value.hint == "brew install login"


async def test_an_exec_plugin_whose_credential_has_expired_is_named_once_the_server_refuses(tmp_path: Path) -> None:
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: EXPIRY + 1)
    with pytest.raises(ConfigError, match=r"hands out a credential that expired at 2100-01-01T00:00:00Z") as raised:
        await connection.credentials.refresh()
    assert raised.value.hint == "log in again"
    assert await connection.credentials.authorization() == "Bearer run-2", "the server has the last word"
