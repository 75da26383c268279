"""The connection that kubectl with the same flags would use."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.access import Access
from controller.kube.errors import ConfigError
from tests.unit.controller.kube.test_config import kubeconfig
from tests.unit.controller.kube.test_in_cluster import CA, POD


async def test_a_server_and_a_token_need_no_kubeconfig(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", token="t0ken", as_user="alice", as_groups=("dev", "ops"))
    connection = await config.connection_for(access, environ={"KUBECONFIG": str(tmp_path / "missing")})
    assert (connection.server, connection.namespace, connection.context) == ("https://127.0.0.1:1", "default", "")
    assert await connection.credentials.authorization() == "Bearer t0ken"
    assert connection.impersonation == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
    )


async def test_a_kubeconfig_that_was_asked_for_must_be_there_even_with_a_server(tmp_path: Path) -> None:
    access = Access(kubeconfig=str(tmp_path / "missing"), server="https://127.0.0.1:1")
    with pytest.raises(ConfigError, match="missing does not exist") as raised:
        await config.connection_for(access, environ={})
    assert "--kubeconfig" in raised.value.hint


async def test_the_flags_and_the_context_reach_the_connection(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t", "as": "alice"})
    connection = await config.connection_for(Access(kubeconfig=path), environ={})
    assert (connection.context, connection.impersonation) == ("one", (("Impersonate-User", "alice"),))
    connection = await config.connection_for(Access(kubeconfig=path, token="mine", as_user="bob"), environ={})
    assert await connection.credentials.authorization() == "Bearer mine"
    assert connection.impersonation == (("Impersonate-User", "bob"),)


async def test_the_plugin_prefers_a_kubeconfig_and_the_controller_the_pod(
    tmp_path: Path,
) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t"})
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": path}
    assert (await config.connection_for(Access(), environ=environ)).server == "https://127.0.0.1:1"
    with pytest.raises(ConfigError, match="cluster's CA"):
        await config.load(environ=environ)  # in a cluster, it seems, but without a service account
    environ["KUBECONFIG"] = str(tmp_path / "missing")
    with pytest.raises(ConfigError, match="cluster's CA"):
        await config.connection_for(Access(), environ=environ)
    with pytest.raises(ConfigError, match="missing does not exist"):
        await config.connection_for(Access(context="one"), environ=environ)


async def test_in_a_pod_the_flags_change_who_asks_and_how_the_server_is_believed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "ca.crt").write_text(CA)
    environ = {**POD, "KUBECONFIG": str(tmp_path / "missing")}
    plain = await config.connection_for(Access(), environ=environ, service_account=tmp_path)
    assert (await plain.credentials.authorization(), plain.impersonation) == ("Bearer of-the-pod", ())
    flags = Access(token="mine", as_user="alice", tls_server_name="kubernetes", insecure_skip_tls_verify=True)
    connection = await config.connection_for(flags, environ=environ, service_account=tmp_path)
    assert (connection.server, connection.server_name) == ("https://10.96.0.1:6443", "kubernetes")
    assert await connection.credentials.authorization() == "Bearer mine"
    assert connection.impersonation == (("Impersonate-User", "alice"),)
    assert plain.tls is not None
    assert connection.tls is not None
    assert (plain.tls.verify_mode, connection.tls.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)


async def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", certificate_authority=str(tmp_path / "ca.crt"))
    for path in (str(tmp_path / "missing"), "/dev/null"):
        with pytest.raises(ConfigError, match=r"^the command line: no such file: .*ca\.crt"):
            await config.connection_for(access, environ={"KUBECONFIG": path})


async def test_a_token_that_would_break_its_header_is_refused_and_not_shown(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", token="t0k\nen")
    with pytest.raises(ConfigError, match="holds a line break") as raised:
        await config.connection_for(access, environ={"KUBECONFIG": str(tmp_path / "missing")})
    assert "t0k" not in str(raised.value)
