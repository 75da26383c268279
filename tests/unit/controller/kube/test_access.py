"""How a kubeconfig, flags, the environment and a pod become an access to a server."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
import trustme

from controller.kube import config
from controller.kube.config import in_cluster
from controller.kube.connection import Connection
from controller.kube.errors import ConfigError
from controller.kube.kubeconfig import Access


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
    assert (connection.context, connection.source) == ("one", f"context one of {path}")
    assert (connection.namespace, connection.impersonation) == ("infra", (("Impersonate-User", "alice"),))
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
    for asked_for in ((path, None), (None, "one")):
        assert (await config.load(*asked_for, environ=environ)).server == "https://127.0.0.1:1"
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


CA, OTHER_CA = (trustme.CA(organization_name=name).cert_pem.bytes().decode() for name in ("one", "other"))
POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "namespace").write_text("kruise-ds-system\n")
    (tmp_path / "ca.crt").write_text(CA)
    return tmp_path


async def test_a_pod_finds_its_server_and_its_service_account(folder: Path) -> None:
    connection = in_cluster(POD, folder)
    assert connection.server == "https://10.96.0.1:6443"
    assert connection.namespace == "kruise-ds-system"
    assert await connection.credentials.authorization() == "Bearer t0ken"
    assert trusted(connection) == ["one"]
    for port in ({}, {"KUBERNETES_SERVICE_PORT": ""}):
        assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", **port}, folder).server == "https://[fd00::1]:443"
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster({}, folder)


def project(folder: Path, name: str, authority: str) -> None:
    """As the kubelet swaps a projected volume: a new directory, and one link that is renamed onto the old one."""
    (folder / name).mkdir()
    (folder / name / "ca.crt").write_text(authority)
    (folder / name / "token").write_text(f"of the {name}")
    (folder / "next").symlink_to(name)
    (folder / "next").rename(folder / "..data")


def trusted(connection: Connection) -> list[str]:
    """The organizations of the authorities that are trusted now."""
    assert connection.tls_now is not None
    assert connection.tls_now() is connection.tls_now(), "the context, and so connections, stay while the files do"
    authorities: list[Any] = connection.tls_now().get_ca_certs()
    return [value for found in authorities for ((key, value),) in found["subject"] if key == "organizationName"]


async def test_a_rotated_token_and_authority_are_used_and_the_old_ones_no_longer(tmp_path: Path) -> None:
    for name in ("ca.crt", "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    project(tmp_path, "first", CA)
    connection = in_cluster(POD, tmp_path)
    assert trusted(connection) == ["one"]
    project(tmp_path, "both", CA + OTHER_CA)
    assert sorted(trusted(connection)) == ["one", "other"]
    project(tmp_path, "second", OTHER_CA)
    assert trusted(connection) == ["other"]
    assert await connection.credentials.authorization() == "Bearer of the second"


def test_a_half_written_authority_leaves_the_old_one_until_it_is_whole(folder: Path) -> None:
    connection = in_cluster(POD, folder)
    (folder / "ca.crt").write_text(OTHER_CA[:80])
    assert trusted(connection) == ["one"]
    (folder / "ca.crt").unlink()
    assert trusted(connection) == ["one"]
    (folder / "ca.crt").write_text(OTHER_CA)
    assert trusted(connection) == ["other"]


def too_many_files(**_: Any) -> NoReturn:
    raise OSError(errno.EMFILE, "too many open files")


def test_a_new_authority_that_could_not_be_read_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = in_cluster(POD, folder)
    (folder / "ca.crt").write_text(OTHER_CA)
    with monkeypatch.context() as patched:
        patched.setattr(ssl, "create_default_context", too_many_files)
        assert trusted(connection) == ["one"]
    assert trusted(connection) == ["other"]


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_what_is_missing_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ConfigError, match=missing):
        in_cluster(POD, folder)


@pytest.mark.parametrize(("token", "words"), [(" \n", "is empty"), ("a\nb", "has several lines")])
def test_a_token_file_holds_one_token(folder: Path, token: str, words: str) -> None:
    (folder / "token").write_text(token)
    with pytest.raises(ConfigError, match=f"token {words}$"):
        in_cluster(POD, folder)


NOW = 1_000_000_000.0
TRUSTED: dict[str, object] = {"certificate-authority-data": base64.b64encode(CA.encode()).decode()}
"""An authority of its own: to read all those of the system takes its time."""


def kubeconfig(
    path: Path,
    user: Mapping[str, object],
    *,
    name: str = "one",
    server: str = "https://127.0.0.1:1",
    current: str | None = None,
    cluster: Mapping[str, object] | None = None,
) -> str:
    context = {"cluster": f"cluster-{name}", "user": f"user-{name}", "namespace": "infra"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": f"cluster-{name}", "cluster": {"server": server, **(cluster or TRUSTED)}}],
        "users": [{"name": f"user-{name}", "user": user}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name if current is None else current,
    }
    path.write_text(json.dumps(document))
    return str(path)


async def authorization(path: str, context: str | None = None) -> str | None:
    connection = await config.load(path, context, environ={}, clock=lambda: NOW)
    return await connection.credentials.authorization()


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ({"token": "written", "exec": {"command": "/nonexistent"}}, "Bearer written"),
        ({"token": "written", "tokenFile": "token"}, "Bearer of-the-file"),
        ({"tokenFile": "token", "exec": {"command": "/nonexistent"}}, "Bearer of-the-file"),
        ({"token": "written", "tokenFile": "missing"}, "Bearer written"),
    ],
)
async def test_of_several_tokens_one_is_sent(tmp_path: Path, user: dict[str, object], sent: str) -> None:
    """The one that kubectl sends; see tests/plugin/cluster/test_logins.py."""
    (tmp_path / "token").write_text("of-the-file")
    assert await authorization(kubeconfig(tmp_path / "config", user)) == sent


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


@pytest.mark.parametrize(
    ("cluster", "verified"),
    [(None, (ssl.CERT_REQUIRED, True)), ({"insecure-skip-tls-verify": True}, (ssl.CERT_NONE, False))],
)
async def test_tls_checks_chain_and_name_unless_insecure(
    tmp_path: Path, cluster: dict[str, object] | None, verified: tuple[ssl.VerifyMode, bool]
) -> None:
    tls = (await config.load(kubeconfig(tmp_path / "config", {"token": "t"}, cluster=cluster), environ={})).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == verified
    assert not tls.verify_flags & ssl.VERIFY_X509_STRICT


async def test_several_files_are_one_and_the_first_current_context_wins(tmp_path: Path) -> None:
    one = kubeconfig(tmp_path / "one", {"token": "first"}, name="one")
    two = kubeconfig(tmp_path / "two", {"token": "second"}, name="two")
    environ = {"KUBECONFIG": f"/dev/null:{one}:{two}:{tmp_path / 'missing'}"}
    first = await config.load(environ=environ)
    assert await first.credentials.authorization() == "Bearer first"
    second = await config.load(context="two", environ=environ)
    assert await second.credentials.authorization() == "Bearer second"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
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


def id_token(expiry: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expiry, "name": "ÿþý?>"}).encode()).rstrip(b"=").decode()
    return f"e30.{claims}.c2ln"


def oidc(expiry: float) -> dict[str, object]:
    return {"auth-provider": {"name": "oidc", "config": {"id-token": id_token(expiry), "refresh-token": "r"}}}


async def test_an_auth_provider_is_refused_with_advice_but_a_valid_oidc_token(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", oidc(NOW + 60))
    assert await authorization(path) == f"Bearer {id_token(NOW + 60)}"
    refused: list[tuple[dict[str, object], str]] = [
        (oidc(NOW - 60), r"OIDC token has expired.*kubelogin"),
        ({"auth-provider": {"name": "gcp", "config": {}}}, r"'gcp' is not supported.*exec plugin"),
    ]
    for user, words in refused:
        with pytest.raises(ConfigError, match=words):
            await authorization(kubeconfig(tmp_path / "config", user))


@pytest.mark.parametrize("text", [None, "", "\n", "---\n# nothing\n"], ids=["/dev/null", "empty", "blank", "comment"])
async def test_a_file_in_which_nothing_is_written_says_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    named = str(path) if text is not None else "/dev/null"
    for environ, kubeconfig_flag in (({"KUBECONFIG": named}, None), ({}, named)):
        access = Access(kubeconfig=kubeconfig_flag, server="http://127.0.0.1:1")
        connection = await config.connection_for(access, environ=environ)
        assert connection.server == "http://127.0.0.1:1"
        assert connection.source == "the command line with server http://127.0.0.1:1"
        with pytest.raises(ConfigError, match=f"^kubeconfig {named} is empty$"):
            await config.connection_for(Access(kubeconfig=kubeconfig_flag), environ=environ)


async def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """As in `--kubeconfig <(command)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    path = kubeconfig(tmp_path / "config", {"token": "t0ken"})
    written = asyncio.get_running_loop().run_in_executor(None, lambda: pipe.write_bytes(Path(path).read_bytes()))
    connection = await config.connection_for(Access(kubeconfig=str(pipe)), environ={})
    await written
    assert await connection.credentials.authorization() == "Bearer t0ken"


async def test_a_colon_belongs_to_a_files_name_and_separates_the_variable(tmp_path: Path) -> None:
    """As for kubectl: its flag names one file."""
    odd = kubeconfig(tmp_path / "a:b", {"token": "odd"})
    plain = kubeconfig(tmp_path / "plain", {"token": "plain"}, name="two")
    assert (await config.load(odd, environ={})).source == f"context one of {odd}"
    environ = {"KUBECONFIG": f"{tmp_path / 'missing'}:{plain}"}
    assert (await config.load(environ=environ)).source == f"context two of {plain}"
    with pytest.raises(ConfigError, match="does not exist"):
        await config.load(f"{plain}:{plain}", environ={})


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://me:secret@127.0.0.1:1080", "a socks5 proxy cannot be used"),
        ("SOCKS5://127.0.0.1:1080", "a socks5 proxy cannot be used"),
        ("proxy.example:3128", "no URL of a proxy, such as http://proxy:3128"),
        ("ftp://proxy.example", "no URL of a proxy, such as http://proxy:3128"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_refused_by_its_field(tmp_path: Path, proxy: str, words: str) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "t"}, cluster={"proxy-url": proxy})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    assert str(raised.value) == f"context one of {path}: proxy-url: {words}"
    assert ("ssh -L" in raised.value.hint) is ("socks" in words)
