"""HTTPS whose certificate is renewed in place, asked with real connections on the loopback interface."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from controller.observe.http import server_tls, serving
from controller.settings import Address

NAMES = ("old", "new")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pairs, old.crt and old.key, new.crt and new.key."""
    folder, authority = tmp_path_factory.mktemp("pairs"), trustme.CA()
    for name in NAMES:
        pair = authority.issue_cert("metrics.example")
        pair.cert_chain_pems[0].write_to_path(str(folder / f"{name}.crt"))
        pair.private_key_pem.write_to_path(str(folder / f"{name}.key"))
    return folder


async def ok(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def put(made: Path, name: str, *, chain: Path | None = None, key: Path | None = None) -> None:
    """As a new volume looks: other files under the same names, with times of their own."""
    for there, suffix in ((chain, "crt"), (key, "key")):
        if there is not None:
            fresh = there.with_suffix(".fresh")
            shutil.copy(made / f"{name}.{suffix}", fresh)
            if there.exists():
                os.utime(fresh, ns=(0, there.stat().st_mtime_ns + 1))
            fresh.replace(there)


async def shown(port: int | None, server_hostname: str | None = "metrics.example") -> bytes:
    """The certificate that a new connection gets, as DER."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=server_hostname)
    try:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        return certificate
    finally:
        writer.close()
        await writer.wait_closed()


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


@pytest.mark.parametrize("hostname", ["metrics.example", "127.0.0.1"], ids=["with a name", "by address, without SNI"])
async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(
    made: Path, tmp_path: Path, hostname: str
) -> None:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    put(made, "old", chain=chain, key=key)
    tls = server_tls(chain, key)
    async with serving(Address(host="127.0.0.1", port=0), {"/": ok}, option="", tls=tls) as port:
        assert await shown(port, hostname) == der(made / "old.crt")
        put(made, "new", chain=chain)
        assert await shown(port, hostname) == der(made / "old.crt"), "halfway: the key is not there yet"
        put(made, "new", key=key)
        assert await shown(port, hostname) == der(made / "new.crt")
        chain.unlink()
        assert await shown(port, hostname) == der(made / "new.crt"), "and while there is none"


def test_files_that_are_missing_or_do_not_fit_are_refused_at_once(made: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.crt"):
        server_tls(made / "none.crt", made / "old.key")
    with pytest.raises(ssl.SSLError):
        server_tls(made / "old.crt", made / "new.key")


def test_a_key_with_a_password_is_refused_without_a_prompt(made: Path) -> None:
    key = serialization.load_pem_private_key((made / "old.key").read_bytes(), password=None)
    locked = made / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(OSError, match="wants a password"):
        server_tls(made / "old.crt", locked)
