"""A pod's service account: its server, its token, and an authority that is rotated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.kube.connection import Connection
from controller.kube.errors import ConfigError
from controller.kube.in_cluster import in_cluster

# self-signed, valid for a hundred years; nobody has the keys
CA = """\
-----BEGIN CERTIFICATE-----
MIIBcjCCARmgAwIBAgIUdrddl/lYGPqrkBEqgAhvPueDjwYwCgYIKoZIzj0EAwIw
DjEMMAoGA1UEAwwDb25lMCAXDTI2MTEyMTExMDQwMFoYDzIxMjYxMDI4MTEwNDAw
WjAOMQwwCgYDVQQDDANvbmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARgBSmP
+pyX3etqCPfBFseZeOAdN4DBzz/zdcHo3mJJmbly9OnQf3zusSH5CKL0QcYvUKV5
/lP0AwwLrk5dlSKQo1MwUTAdBgNVHQ4EFgQUAFezZHJrE0EeE4c+1uPo45cu4Zow
HwYDVR0jBBgwFoAUAFezZHJrE0EeE4c+1uPo45cu4ZowDwYDVR0TAQH/BAUwAwEB
/zAKBggqhkjOPQQDAgNHADBEAiAHLMKKpAASqMWpfgzuU4F5pYZ3VCcfxHBhsjlT
28BdQgIgT1PY+d1DdQZ/d9SUQo8iAhhu+f4/nH/iPZM2Rss2cjc=
-----END CERTIFICATE-----
"""
OTHER_CA = """\
-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUcaRcc1hRu+8T3dL2ay8uxscyWDUwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTIxMTEwNDAwWhgPMjEyNjEwMjgxMTA0
MDBaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
yTpRY/EML8Kjf6s/ln5Ky/lpcyAmaXso2ApkqbVROCeMV3k+Xh7cAL+rOAjjqnrk
HfYr6kmxTS29dFk5Ky88U6NTMFEwHQYDVR0OBBYEFP1adbjz3XAUDdJxM0jSQbmG
mUNBMB8GA1UdIwQYMBaAFP1adbjz3XAUDdJxM0jSQbmGmUNBMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhALlpWfHuY6kdHwHTt66ZifILwyx2gSpw
6CV48F3bWtGsAiAgApCH2HRQNdR+bIawbF3rgdlxWkv1NuQzU0O1wFgQYw==
-----END CERTIFICATE-----
"""
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
    assert connection.tls is not None
    assert len(connection.tls.get_ca_certs()) == 1


def test_an_ipv6_host_is_put_in_brackets(folder: Path) -> None:
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, folder).server == "https://[fd00::1]:443"


async def test_a_rotated_token_is_used(folder: Path) -> None:
    connection = in_cluster(POD, folder)
    (folder / "next").write_text("n3xt")
    (folder / "next").rename(folder / "token")
    assert await connection.credentials.authorization() == "Bearer n3xt"


def project(folder: Path, name: str, authority: str) -> None:
    """As the kubelet swaps a projected volume: a new directory, and one link that is renamed onto the old one."""
    (folder / name).mkdir()
    (folder / name / "ca.crt").write_text(authority)
    (folder / name / "token").write_text("t0ken")
    (folder / "next").symlink_to(name)
    (folder / "next").rename(folder / "..data")


def trusted(connection: Connection) -> list[str]:
    """The common names of the authorities that are trusted now."""
    assert connection.tls_now is not None
    authorities: list[Any] = connection.tls_now().get_ca_certs()
    return [value for found in authorities for ((_, value),) in found["subject"]]


def test_a_rotated_authority_is_trusted_and_the_old_one_no_longer(tmp_path: Path) -> None:
    for name in ("ca.crt", "token"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    project(tmp_path, "first", CA)
    connection = in_cluster(POD, tmp_path)
    assert trusted(connection) == ["one"]
    project(tmp_path, "both", CA + OTHER_CA)
    assert sorted(trusted(connection)) == ["one", "other"]
    project(tmp_path, "second", OTHER_CA)
    assert trusted(connection) == ["other"]


def test_a_half_written_authority_leaves_the_old_one_until_it_is_whole(folder: Path) -> None:
    connection = in_cluster(POD, folder)
    (folder / "ca.crt").write_text(OTHER_CA[:80])
    assert trusted(connection) == ["one"]
    (folder / "ca.crt").unlink()
    assert trusted(connection) == ["one"]
    (folder / "ca.crt").write_text(OTHER_CA)
    assert trusted(connection) == ["other"]


def test_an_authority_that_stays_keeps_its_context_and_so_its_connections(folder: Path) -> None:
    connection = in_cluster(POD, folder)
    assert connection.tls_now is not None
    assert connection.tls_now() is connection.tls_now()


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_what_is_missing_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ConfigError, match=missing):
        in_cluster(POD, folder)


def test_outside_a_cluster_it_says_so(folder: Path) -> None:
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster({}, folder)
