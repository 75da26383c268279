"""Where the API server is found, and who we are to it. Kubeconfigs are written to a temporary folder."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.access import Access
from controller.kube.errors import ConfigError
from controller.kube.exec_plugin import ExecPlugin
from controller.kube.in_cluster import in_cluster
from tests.pure.kube.test_in_cluster import CA, POD

NOW = 1_000_000_000.0


def kubeconfig(
    path: Path,
    user: dict[str, object],
    *,
    name: str = "one",
    server: str = "https://127.0.0.1:1",
    current: str | None = None,
    cluster: dict[str, object] | None = None,
    asks_for: str | None = None,
) -> str:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": f"cluster-{name}", "cluster": {"server": server, **(cluster or {})}}],
                "users": [{"name": f"user-{name}", "user": user}],
                "contexts": [
                    {
                        "name": name,
                        "context": {
                            "cluster": f"cluster-{name}",
                            "user": asks_for or f"user-{name}",
                            "namespace": "infra",
                        },
                    }
                ],
                "current-context": name if current is None else current,
            }
        )
    )
    return str(path)


async def authorization(path: str, context: str | None = None) -> str | None:
    connection = await config.load(path, context, environ={}, clock=lambda: NOW)
    return await connection.credentials.authorization()


async def test_a_token_in_the_file(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t0ken"})
    connection = await config.load(path, environ={})
    assert (connection.server, connection.namespace) == ("https://127.0.0.1:1", "infra")
    assert connection.source == f"context one of {path}"
    assert await connection.credentials.authorization() == "Bearer t0ken"


async def test_name_and_password(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"username": "me", "password": "pw"})
    assert await authorization(path) == "Basic " + base64.b64encode(b"me:pw").decode()


async def test_a_token_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    path = kubeconfig(tmp_path / "config", {"tokenFile": "token"})
    connection = await config.load(path, environ={})
    assert await connection.credentials.authorization() == "Bearer old"
    (tmp_path / "next").write_text("new\n")
    (tmp_path / "next").rename(tmp_path / "token")
    assert await connection.credentials.authorization() == "Bearer new"
    (tmp_path / "token").unlink()
    assert await connection.credentials.authorization() == "Bearer new", "a token that is gone for a moment"
    with pytest.raises(ConfigError, match="cannot read the token file"):
        await connection.credentials.refresh()


async def test_proxy_and_server_name_come_along(tmp_path: Path) -> None:
    extra: dict[str, object] = {"proxy-url": "http://proxy:3128", "tls-server-name": "kubernetes.default"}
    path = kubeconfig(tmp_path / "config", {"token": "t"}, cluster=extra)
    connection = await config.load(path, environ={})
    assert (connection.proxy, connection.server_name) == ("http://proxy:3128", "kubernetes.default")


async def test_tls_checks_chain_and_name_but_not_strictly_and_insecure_checks_nothing(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t"}, server="https://127.0.0.1:1")
    tls = (await config.load(path, environ={})).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert not tls.verify_flags & ssl.VERIFY_X509_STRICT

    insecure: dict[str, object] = {"insecure-skip-tls-verify": True}
    path = kubeconfig(tmp_path / "config", {"token": "t"}, server="https://127.0.0.1:1", cluster=insecure)
    tls = (await config.load(path, environ={})).tls
    assert tls is not None
    assert tls.verify_mode == ssl.CERT_NONE


async def test_several_files_are_one_and_the_first_current_context_wins(tmp_path: Path) -> None:
    one = kubeconfig(tmp_path / "one", {"token": "first"}, name="one")
    two = kubeconfig(tmp_path / "two", {"token": "second"}, name="two")
    environ = {"KUBECONFIG": f"{one}:{two}:{tmp_path / 'missing'}"}
    first = await config.load(environ=environ)
    assert await first.credentials.authorization() == "Bearer first"
    second = await config.load(context="two", environ=environ)
    assert await second.credentials.authorization() == "Bearer second"


async def test_what_was_asked_for_wins_over_the_cluster_we_are_in(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t"})
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": path}
    assert (await config.load(path, environ=environ)).server == "https://127.0.0.1:1"
    assert (await config.load(context="one", environ=environ)).server == "https://127.0.0.1:1"
    with pytest.raises(ConfigError, match="cluster's CA"):
        await config.load(environ=environ)  # in a cluster, it seems, but without a service account


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "form of a kubeconfig"),
        ("- a\n- b\n", "form of a kubeconfig"),
        ("a: [", "config"),
        ('{"contexts": [], "clusters": [], "users": []}', "names no current-context"),
        ('{"current-context": "gone", "contexts": [], "clusters": [], "users": []}', "gone"),
    ],
    ids=["empty", "a list", "no YAML", "no context", "unknown context"],
)
async def test_a_file_that_does_not_do_is_named_in_one_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        await config.load(str(path), environ={})
    assert str(path) in str(raised.value)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


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


async def test_the_plugin_prefers_a_kubeconfig_to_the_pod_it_runs_in_and_the_controller_the_pod(
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


async def test_in_a_pod_the_flags_change_who_asks_and_how_the_server_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "ca.crt").write_text(CA)
    monkeypatch.setattr(config, "in_cluster", lambda environ: in_cluster(environ, tmp_path))
    environ = {**POD, "KUBECONFIG": str(tmp_path / "missing")}
    plain = await config.connection_for(Access(), environ=environ)
    assert (await plain.credentials.authorization(), plain.impersonation) == ("Bearer of-the-pod", ())
    flags = Access(token="mine", as_user="alice", tls_server_name="kubernetes", insecure_skip_tls_verify=True)
    connection = await config.connection_for(flags, environ=environ)
    assert (connection.server, connection.server_name) == ("https://10.96.0.1:6443", "kubernetes")
    assert await connection.credentials.authorization() == "Bearer mine"
    assert connection.impersonation == (("Impersonate-User", "alice"),)
    assert plain.tls is not None
    assert connection.tls is not None
    assert (plain.tls.verify_mode, connection.tls.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)


async def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", certificate_authority=str(tmp_path / "ca.crt"))
    with pytest.raises(ConfigError, match=r"the command line: no such file: .*ca\.crt"):
        await config.connection_for(access, environ={"KUBECONFIG": str(tmp_path / "missing")})


async def test_a_token_that_would_break_its_header_is_refused_and_not_shown(tmp_path: Path) -> None:
    access = Access(server="https://127.0.0.1:1", token="t0k\nen")
    with pytest.raises(ConfigError, match="holds a line break") as raised:
        await config.connection_for(access, environ={"KUBECONFIG": str(tmp_path / "missing")})
    assert "t0k" not in str(raised.value)


async def test_no_file_and_no_such_context_and_no_such_user_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere does not exist"):
        await config.load(str(tmp_path / "nowhere"), environ={})
    path = kubeconfig(tmp_path / "config", {"token": "t"})
    with pytest.raises(ConfigError, match=f'no context "other" in {path}; there are: one$'):
        await config.load(path, "other", environ={})
    path = kubeconfig(tmp_path / "config", {"token": "t"}, asks_for="nobody")
    with pytest.raises(ConfigError, match=r'no user "nobody" in .*; there are: user-one$'):
        await config.load(path, environ={})


def id_token(expiry: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expiry, "name": "ÿþý?>"}).encode()).rstrip(b"=").decode()
    return f"e30.{claims}.c2ln"


def oidc(expiry: float) -> dict[str, object]:
    return {"auth-provider": {"name": "oidc", "config": {"id-token": id_token(expiry), "refresh-token": "r"}}}


async def test_an_oidc_token_is_used_while_it_lasts_and_then_refused_with_advice(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", oidc(NOW + 60))
    assert await authorization(path) == f"Bearer {id_token(NOW + 60)}"
    path = kubeconfig(tmp_path / "config", oidc(NOW - 60))
    with pytest.raises(ConfigError, match=r"OIDC token has expired.*kubelogin"):
        await authorization(path)


async def test_other_auth_providers_are_refused_with_advice(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"auth-provider": {"name": "gcp", "config": {}}})
    with pytest.raises(ConfigError, match=r"'gcp' is not supported.*exec plugin"):
        await authorization(path)


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


LIGHT = """
import sys
import aiohttp
before = set(sys.modules)
from controller.kube.config import kubeconfig_reader
reader = kubeconfig_reader()
assert reader.KubeConfigLoader and reader.KubeConfigMerger
left = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
assert not left, f"still in sys.modules: {left}"
heavy = [name for name in ("urllib3", "multiprocessing.pool", "dateutil") if name in set(sys.modules) - before]
assert not heavy, f"imported too: {heavy}"
import kubernetes_asyncio.client
assert kubernetes_asyncio.client.V1Pod, "a later import must get the real package"
"""


def test_only_the_reader_of_the_package_is_imported_and_no_hollow_package_stays_behind() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True, timeout=60)


def test_where_the_package_is_loaded_already_its_own_reader_is_used() -> None:
    script = """
import kubernetes_asyncio.client
from controller.kube.config import kubeconfig_reader
assert kubeconfig_reader().Configuration is kubernetes_asyncio.client.Configuration
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
