"""What kubernetes_asyncio, a client of another make, finds in a kubeconfig, we find there too.

Where there is more than one way to log in, kubectl is the judge: tests/plugin/cluster/test_logins.py.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_kube_config

from controller.kube import config
from controller.kube.transport import open_transport
from tests.unit.controller.kube.test_access import kubeconfig

AUTHORITY = trustme.CA()
MINE = AUTHORITY.issue_cert("me.example")
CERTIFICATE, KEY = (pem.bytes().decode() for pem in (MINE.cert_chain_pems[0], MINE.private_key_pem))


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def plugin(**status: str) -> dict[str, Any]:
    """It has to be given by an argument and by a variable."""
    version = "client.authentication.k8s.io/v1"
    printed = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    program = f"import os, sys; sys.stdout.write({printed!r}.replace(sys.argv[1], os.environ['WORD']))"
    env = [{"name": "WORD", "value": "told"}]
    command = {"command": sys.executable, "args": ["-c", program, "untold"], "env": env}
    return {"exec": {"apiVersion": version, "interactiveMode": "Never", **command}}


CERTIFIED = re.compile("^a( plugin's)? certificate")
FILES = {"token": "from-a-file", "me.crt": CERTIFICATE, "me.key": KEY, "ca.crt": AUTHORITY.cert_pem.bytes().decode()}
USERS: dict[str, dict[str, Any]] = {
    "nobody": {},
    "a token": {"token": "t0ken"},
    "a token in a file": {"tokenFile": "token"},
    "a password": {"username": "me", "password": "pä:ss"},
    "a name alone": {"username": "me"},
    "a certificate": {"client-certificate-data": data(CERTIFICATE), "client-key-data": data(KEY)},
    "a certificate in files": {"client-certificate": "me.crt", "client-key": "me.key"},
    "a plugin's token": plugin(token="untold", expirationTimestamp="2100-01-01T00:00:00Z"),
    "a plugin's certificate": plugin(clientCertificateData=CERTIFICATE, clientKeyData=KEY),
    "a plugin's token and certificate": plugin(token="untold", clientCertificateData="", clientKeyData=""),
}


def presented(client: ssl.SSLContext) -> str:
    """The host name in the certificate that a server of `AUTHORITY` is shown; empty where it is shown none."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.verify_mode = ssl.CERT_OPTIONAL
    AUTHORITY.configure_trust(server)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(server)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [server.wrap_bio(here, there, server_side=True), client.wrap_bio(there, here)]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
            if side.server_side:
                answering = side
    names: Any = (answering.getpeercert() or {}).get("subjectAltName", ())
    return "".join(value for _, value in names)


@pytest.mark.parametrize("user", USERS)
async def test_a_kubeconfig_says_the_same_to_another_client(tmp_path: Path, user: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    names = {"tls-server-name": "one.example", "proxy-url": "http://proxy:3128"}
    cluster = {"server": "https://127.0.0.1:1/one/", "certificate-authority": "ca.crt", **names}
    path = kubeconfig(tmp_path / "config", USERS[user], cluster=cluster)
    theirs = Configuration()
    await load_kube_config(path, client_configuration=theirs)
    ours = await config.load(path, environ={})
    async with open_transport(ours):
        assert await ours.credentials.authorization() == theirs.api_key.get("BearerToken")
    assert ours.tls is not None
    assert (ours.server, ours.server_name, ours.proxy) == (theirs.host, theirs.tls_server_name, theirs.proxy)
    assert ours.tls.get_ca_certs() == ssl.create_default_context(cafile=theirs.ssl_ca_cert).get_ca_certs()
    assert presented(ours.tls) == ("me.example" if CERTIFIED.search(user) else "")
