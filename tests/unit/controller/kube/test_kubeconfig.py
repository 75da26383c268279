"""Which entries of the kubeconfigs the flags choose, and what they replace in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.kube.errors import ConfigError
from controller.kube.kubeconfig import Access, ClusterAndUser, choose, impersonation

DEV = {"certificate-authority": "pki/ca.crt", "tls-server-name": "dev.example"}
TWO = {
    "current-context": "dev",
    "contexts": [
        {"name": "dev", "context": {"cluster": "dev", "user": "alice", "namespace": "infra"}},
        {"name": "prod", "context": {"cluster": "prod", "user": "bob"}},
        {"name": "none", "context": None},
    ],
    "clusters": [
        {"name": "dev", "cluster": {"server": "https://dev:6443", **DEV}},
        {"name": "prod", "cluster": {"server": "https://prod", "certificate-authority-data": "eA=="}},
    ],
    "users": [
        {"name": "alice", "user": {"client-certificate": "a.crt", "client-key": "/abs/a.key", "as": "root"}},
        {"name": "bob", "user": {"exec": {"command": "bin/login"}, "tokenFile": "token"}},
    ],
}


NO_FLAGS = Access()


def chosen(access: Access = NO_FLAGS, **files: dict[str, Any]) -> ClusterAndUser:
    return choose({f"/{folder}/config": file for folder, file in (files or {"home": TWO}).items()}, access)


WITHOUT = {**TWO, "current-context": ""}
OTHER = Access(cluster="prod", user="bob")
ALONE = Access(server="https://10.0.0.1:6443", token="t")


@pytest.mark.parametrize(
    ("access", "files", "found", "source"),
    [
        (NO_FLAGS, {"home": TWO}, ("dev", "infra", "https://dev:6443", False), "context dev of /home/config"),
        (
            Access(context="prod"),
            {"home": TWO},
            ("prod", "default", "https://prod", True),
            "context prod of /home/config",
        ),
        (
            OTHER,
            {"home": TWO},
            ("dev", "infra", "https://prod", True),
            "context dev of /home/config with cluster prod, user bob",
        ),
        (OTHER, {"home": WITHOUT}, ("", "default", "https://prod", True), "/home/config with cluster prod, user bob"),
        (
            ALONE,
            {},
            ("", "default", "https://10.0.0.1:6443", False),
            "the command line with server https://10.0.0.1:6443",
        ),
    ],
    ids=["current context", "another context", "its cluster and user replaced", "no context", "flags alone"],
)
def test_what_is_chosen_and_how_its_source_is_named(
    access: Access, files: dict[str, Any], found: tuple[str, str, str, bool], source: str
) -> None:
    it = choose({f"/{folder}/config": file for folder, file in files.items()}, access)
    assert (it.context, it.namespace, it.cluster["server"], "exec" in it.user) == found
    assert it.source == source


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (Access(context="dve"), 'no context "dve" in /home/config; there are: dev, prod, none'),
        (Access(cluster="x"), 'no cluster "x" in /home/config; there are: dev, prod'),
        (Access(user="x"), 'no user "x" in /home/config; there are: alice, bob'),
        (Access(context="none"), "context none of /home/config: its cluster names no server"),
    ],
    ids=["context", "cluster", "user", "a context without a cluster"],
)
def test_an_unknown_name_is_answered_with_those_that_there_are(access: Access, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        chosen(access)
    assert str(raised.value) == words


def test_without_a_context_a_cluster_or_server_is_needed() -> None:
    with pytest.raises(ConfigError, match="names no current-context; choose one with --context"):
        chosen(Access(user="bob"), home=WITHOUT)


def test_of_several_files_the_first_entry_wins() -> None:
    other = {**TWO, "current-context": "prod", "clusters": [{"name": "dev", "cluster": {"server": "https://no"}}]}
    assert chosen(one=TWO, two=other).cluster["server"] == "https://dev:6443"
    with pytest.raises(
        ConfigError, match=r"no context \"x\" in /one/config:/two/config; there are: dev, prod, none$"
    ):
        chosen(Access(context="x"), one=TWO, two=other)


def test_relative_paths_belong_to_the_folder_of_the_file_that_has_them() -> None:
    clusters = {"current-context": "dev", "contexts": TWO["contexts"], "clusters": TWO["clusters"]}
    it = chosen(one=clusters, two={"users": TWO["users"]})
    assert it.cluster["certificate-authority"] == "/one/pki/ca.crt"
    assert (it.user["client-certificate"], it.user["client-key"]) == ("/two/a.crt", "/abs/a.key")
    it = chosen(Access(context="prod"), one=clusters, two={"users": TWO["users"]})
    assert (it.user["tokenFile"], it.user["exec"]["command"]) == ("/two/token", "/two/bin/login")


def test_an_exec_plugin_without_a_folder_is_looked_up_on_the_path() -> None:
    users = {"users": [{"name": "bob", "user": {"exec": {"command": "login"}}}]}
    assert chosen(Access(context="prod"), home={**TWO, **users}).user["exec"]["command"] == "login"


def test_another_server_keeps_the_authority_and_drops_the_old_name() -> None:
    it = chosen(Access(server="https://other:1"))
    assert it.cluster == {"server": "https://other:1", "certificate-authority": "/home/pki/ca.crt"}
    assert it.source == "context dev of /home/config with server https://other:1"
    it = chosen(Access(server="https://other:1", tls_server_name="dev.example"))
    assert it.cluster["tls-server-name"] == "dev.example"


def test_another_authority_replaces_data_and_takes_insecurity_back(tmp_path: Path) -> None:
    insecure = {"server": "https://dev", "insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}
    file = {**TWO, "clusters": [{"name": "dev", "cluster": insecure}]}
    it = chosen(Access(certificate_authority=str(tmp_path / "ca")), home=file)
    assert it.cluster == {
        "server": "https://dev",
        "insecure-skip-tls-verify": False,
        "certificate-authority": str(tmp_path / "ca"),
    }


def test_insecurity_drops_the_authority_and_excludes_another_one() -> None:
    it = chosen(Access(insecure_skip_tls_verify=True))
    assert "certificate-authority" not in it.cluster
    assert it.cluster["insecure-skip-tls-verify"] is True
    with pytest.raises(ConfigError, match="exclude each other"):
        chosen(Access(insecure_skip_tls_verify=True, certificate_authority="ca"))


def test_a_client_certificate_replaces_that_of_the_user(tmp_path: Path) -> None:
    inside = {"users": [{"name": "bob", "user": {"client-certificate-data": "eA==", "client-key-data": "eQ=="}}]}
    crt, key = str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")
    access = Access(context="prod", client_certificate=crt, client_key=key)
    assert chosen(access, home={**TWO, **inside}).user == {"client-certificate": crt, "client-key": key}


def test_a_token_replaces_every_other_credential_but_not_whom_to_act_as() -> None:
    assert chosen(Access(token="t")).user == {"token": "t", "as": "root"}
    assert chosen(Access(token="t", context="prod")).user == {"token": "t"}


def test_the_chosen_entries_are_copies() -> None:
    before = repr(TWO)
    chosen(Access(server="https://x", token="t", tls_server_name="y"))
    assert repr(TWO) == before


@pytest.mark.parametrize(
    ("access", "url"),
    [
        (Access(server="10.0.0.1:6443"), "http://10.0.0.1:6443"),
        (Access(server="10.0.0.1:6443", insecure_skip_tls_verify=True), "https://10.0.0.1:6443"),
        (Access(server="[::1]:6443", certificate_authority="/ca"), "https://[::1]:6443"),
    ],
)
def test_a_bare_host_means_http_unless_something_speaks_of_tls(access: Access, url: str) -> None:
    assert choose({}, access).cluster["server"] == url
    assert chosen(msgspec.structs.replace(access, context="none")).cluster["server"] == url


@pytest.mark.parametrize("server", ["ftp://x", "https://", "https://x:port", "https://x:99999", "http://[::1"])
def test_a_server_that_is_no_url_is_quoted(server: str) -> None:
    with pytest.raises(ConfigError, match="is no URL like https://host:6443"):
        choose({}, Access(server=server))


def test_over_plain_http_no_credentials_are_sent_but_whom_to_act_as() -> None:
    assert chosen(Access(server="http://dev:8001")).user == {"as": "root"}
    assert chosen(Access(server="dev:8001", context="prod", token="t"), home=without_authority()).user == {}
    assert choose({}, Access(server="http://dev:8001", token="t")).user == {}


def without_authority() -> dict[str, Any]:
    return {**TWO, "clusters": [{"name": "prod", "cluster": {"server": "https://prod"}}]}


# as whom it acts

FILE = {"token": "t", "as": "alice", "as-uid": "7", "as-groups": ["dev", "ops"]}


@pytest.mark.parametrize(
    ("user", "access", "headers"),
    [
        ({"token": "t"}, Access(), []),
        (FILE, Access(), ["User alice", "Group dev", "Group ops", "Uid 7"]),
        (
            {"as": "alice", "as-user-extra": {"Scopes/a b": ["x", "y"]}},
            Access(),
            ["User alice", "Extra-Scopes%2Fa%20b x", "Extra-Scopes%2Fa%20b y"],
        ),
        (FILE, Access(as_user="bob"), ["User bob", "Group dev", "Group ops", "Uid 7"]),
        (FILE, Access(as_groups=("qa",), as_uid="8"), ["User alice", "Group qa", "Uid 8"]),
    ],
)
def test_each_flag_replaces_its_own_field_of_the_file(
    user: dict[str, Any], access: Access, headers: list[str]
) -> None:
    assert [f"{name} {value}" for name, value in impersonation(user, access)] == [
        f"Impersonate-{one}" for one in headers
    ]


@pytest.mark.parametrize("access", [Access(as_groups=("dev",)), Access(as_uid="7")], ids=["group", "uid"])
def test_a_group_or_uid_alone_is_no_identity(access: Access) -> None:
    with pytest.raises(ConfigError, match="needs a user to act as"):
        impersonation({}, access)
