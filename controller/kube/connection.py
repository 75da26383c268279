"""The address of the API server, and the credentials for it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path

from controller.api.objects import Value
from controller.kube.errors import ConfigError


class Credentials:
    """A fixed token, or none. Others change at run time, so `authorization` is called before every request."""

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization

    async def authorization(self) -> str | None:
        """The current `Authorization` header; None if the client certificate suffices. Never raises: if a token could
        not be renewed, the old one gets a 401, and `refresh` then raises the cause."""
        return self._authorization

    async def refresh(self) -> None:
        """Gets new credentials now, after a 401. Raises ConfigError if that is not possible."""
        raise ConfigError("the server refuses our credentials, and there is no way to renew them")

    def renewing(self) -> AbstractAsyncContextManager[None]:
        """The scope in which credentials are used; leaving it cancels a running renewal."""
        return nullcontext()


class Connection(Value):
    server: str
    """`https://host:port`, optionally with a path."""
    credentials: Credentials
    tls: ssl.SSLContext | None = None
    """The client's TLS context; None for plain http."""
    tls_now: Callable[[], ssl.SSLContext] | None = None
    """Called before every request if certificates may rotate; None if `tls` never changes. Only new connections use a
    new context; a watch with the old one ends within ten minutes."""
    server_name: str = ""
    """The name in the server's certificate; empty if it is the host."""
    proxy: str = ""
    namespace: str = "default"
    """That of the kubeconfig's context or, in a cluster, of the pod."""
    context: str = ""
    """The kubeconfig's context; empty if none was needed."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Impersonation headers of every request; a name may occur several times."""
    source: str = ""
    """The origin of all this, for messages: `context kind of /home/me/.kube/config`."""


class TokenFile(Credentials):
    """A token file that is rotated, in a pod by the kubelet."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if the file has no readable token."""
        super().__init__()
        self._path = path
        self._read()

    async def authorization(self) -> str | None:
        with suppress(ConfigError, OSError):  # in the middle of a rotation; the old token is valid for minutes more
            if _stamp(self._path) != self._seen:
                self._read()
        return self._authorization

    async def refresh(self) -> None:
        self._read()

    def _read(self) -> None:
        try:
            seen, token = _stamp(self._path), self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the token file {self._path}: {error}") from error
        if not token:
            raise ConfigError(f"the token file {self._path} is empty")
        if len(token.splitlines()) > 1:
            raise ConfigError(f"the token file {self._path} has several lines")
        self._authorization = f"Bearer {token}"
        self._seen = seen


class ReloadedTLS:
    """A TLS context from rotated files. New files make a new context, as a context cannot drop an authority."""

    def __init__(self, load: Callable[[], ssl.SSLContext], *files: Path) -> None:
        """Raises OSError if a file is missing or `load` does."""
        self._load, self._files = load, files
        self._seen, self._context = list(map(_stamp, files)), load()

    def context(self) -> ssl.SSLContext:
        """The context for the current files; the previous one while they are missing, incomplete or do not match."""
        with suppress(OSError):
            seen = list(map(_stamp, self._files))
            if seen != self._seen:
                self._context = self._load()
                self._seen = seen
        return self._context


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ino


def tls_context(ca_file: str | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """A client TLS context. Without `ca_file`, it uses the system's authorities. Raises OSError for an unusable file.
    Python 3.13's strict X.509 checks are off, because they refuse the authorities of some hosted clusters (no
    Authority Key Identifier). Chain and host name are still checked."""
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
