"""The connection of a pod: its service account, found where the kubelet puts it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from controller.kube.connection import Connection, RotatedTLS, TokenFile, tls_context
from controller.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection of this pod. Raises ConfigError if this is no pod with a service account.

    Token and CA are read again when the kubelet has rotated them; either may change without the other.
    """
    host, port = environ.get(HOST, ""), environ.get(PORT, "") or "443"
    if not host:
        raise ConfigError(f"not in a cluster: {HOST} is not set")
    ca_file = folder / "ca.crt"
    try:
        authority = RotatedTLS(partial(tls_context, str(ca_file)), ca_file)
    except OSError as error:
        raise ConfigError(f"cannot read the cluster's CA {ca_file}: {error}") from error

    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        tls=authority.context(),
        tls_now=authority.context,
        credentials=TokenFile(folder / "token"),
        namespace=_namespace(folder),
        source="the service account of this pod",
    )


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
