"""Where the API server is, and the credentials with which it is reached."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from controller.api.objects import Value
from controller.kube.errors import ConfigError


class Credentials(Protocol):
    """Tokens change while the process runs, so `authorization` is asked before every request."""

    async def authorization(self) -> str | None:
        """The `Authorization` header now; None if the client certificate is enough. Never raises: if a token could
        not be renewed, the old one gets a 401, and then `refresh` says why."""
        ...

    async def refresh(self) -> None:
        """Get new credentials now, because the server answered 401. Raises ConfigError when that is not possible."""
        ...

    def renewing(self) -> AbstractAsyncContextManager[None]:
        """The scope in which credentials are used. Leaving it ends a renewal that is still running."""
        ...


class Connection(Value):
    """Everything `open_transport` needs."""

    server: str
    """`https://host:port`, perhaps with a path."""
    credentials: Credentials
    tls: ssl.SSLContext | None = None
    """Our side of TLS; None for plain http."""
    tls_now: Callable[[], ssl.SSLContext] | None = None
    """Called before every request if certificates are rotated while we run; None: `tls` never changes. A new context
    gets new connections; a watch under the old one ends within ten minutes."""
    server_name: str = ""
    """The name in the server's certificate if it is not the host; empty: it is."""
    proxy: str = ""
    namespace: str = "default"
    """The namespace of the kubeconfig's context, or our own in the cluster."""
    context: str = ""
    """The kubeconfig's context; empty if none was needed."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers of every request for impersonation; a name may occur several times."""
    source: str = ""
    """Where all this was read, for messages: `context kind of /home/me/.kube/config`."""


class StaticAuth:
    """Credentials that never change: a token, a password, or none."""

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization

    async def authorization(self) -> str | None:
        return self._authorization

    async def refresh(self) -> None:
        raise ConfigError("the server refuses our credentials, and there is no way to renew them")

    def renewing(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class TokenFile:
    """Credentials from a token file that is rotated, in a pod by the kubelet."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if the file holds no readable token."""
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._authorization = ""
        self._read()

    async def authorization(self) -> str | None:
        with suppress(ConfigError, OSError):  # in the middle of a rotation; the old token is valid for minutes more
            if _stamp(self._path) != self._seen:
                self._read()
        return self._authorization

    async def refresh(self) -> None:
        self._read()

    def renewing(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def _read(self) -> None:
        try:
            seen, token = _stamp(self._path), self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the token file {self._path}: {error}") from error
        if not token:
            raise ConfigError(f"the token file {self._path} is empty")
        self._authorization = f"Bearer {token}"
        self._seen = seen


class ReloadedTLS:
    """The TLS context of the client, by files that are rotated. New files make a new context, because a context never
    forgets an authority."""

    def __init__(self, load: Callable[[], ssl.SSLContext], *files: Path) -> None:
        """Raises OSError if a file is missing or `load` does."""
        self._load, self._files = load, files
        self._seen, self._context = list(map(_stamp, files)), load()

    def context(self) -> ssl.SSLContext:
        """The context for the files as they are now; while one is missing or half written, or they do not fit, the
        previous one."""
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
    """Our side of TLS. `ca_file` None: the authorities of the system. Raises OSError for a file that cannot be used.

    The strict X.509 checks that Python 3.13 switched on are off, because they refuse the authorities of some hosted
    clusters (no Authority Key Identifier). The chain and the host name are checked.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
