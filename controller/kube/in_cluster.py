"""The connection of a pod: its service account, found where the kubelet puts it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from controller.kube.connection import Connection, TokenFile, tls_context
from controller.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """Raises ConfigError when this is not a pod with a service account.

    Token and CA are read again when the kubelet has rotated them, new connections use them; both come in one
    projected volume, so the token's change tells of both.
    """
    host, port = environ.get(HOST, ""), environ.get(PORT, "") or "443"
    if not host:
        raise ConfigError(f"not in a cluster: {HOST} is not set")
    ca_file = folder / "ca.crt"
    try:
        tls = tls_context(str(ca_file))
    except OSError as error:
        raise ConfigError(f"cannot read the cluster's CA {ca_file}: {error}") from error

    def load_ca() -> None:
        with suppress(OSError, ssl.SSLError):  # half written: the next rotation brings it, the old one still holds
            tls.load_verify_locations(ca_file)

    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=tls,
        credentials=TokenFile(folder / "token", on_change=load_ca),
        namespace=_namespace(folder),
        source="the service account of this pod",
    )


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
