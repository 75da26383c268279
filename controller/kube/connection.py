"""Where the API server is and who we are to it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import Protocol

from controller.api.base import Value
from controller.kube.errors import ConfigError


class Credentials(Protocol):
    """Who we are. Tokens change while we run: ask again for every request."""

    async def authorization(self) -> str | None:
        """The `Authorization` header now, or None where the client certificate speaks. Never raises: an old
        token that could not be renewed is answered with a 401, and then `refresh` says why."""
        ...

    async def refresh(self) -> None:
        """The server has refused us: get new credentials now. Raises ConfigError when that is not possible."""
        ...

    def renewing(self) -> AbstractAsyncContextManager[None]:
        """The scope in which they are asked for: what is on its way to renew them ends with it."""
        ...


class Connection(Value):
    """Everything `open_transport` needs."""

    server: str
    """`https://host:port`, perhaps with a path."""
    credentials: Credentials
    tls: ssl.SSLContext | None = None
    """None for plain http."""
    tls_now: Callable[[], ssl.SSLContext] | None = None
    """Asked for every request where certificates are rotated while we run; None: `tls` stays what it is. A context
    that has changed gets connections of its own; a watch that is open under the old one ends within ten minutes."""
    server_name: str = ""
    """The name in the server's certificate, where it is not the host."""
    proxy: str = ""
    namespace: str = "default"
    """The namespace of the kubeconfig's context, or our own in the cluster."""
    context: str = ""
    """The kubeconfig's context; empty where none was needed."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers of every request that make us somebody else; a name may occur several times."""
    source: str = ""
    """Where all this was found, for people: `context kind of /home/me/.kube/config`."""


class Fixed:
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
    """A token in a file that somebody rotates (the kubelet, in a cluster)."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError when there is no readable token."""
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._authorization = ""
        self._read()

    async def authorization(self) -> str | None:
        with suppress(ConfigError, OSError):  # in the middle of a rotation; the old token is good for minutes
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


class AuthorityFile:
    """Our side of TLS by an authority in a file that somebody rotates. A new file makes a new context, because one
    that has learnt an authority never forgets it."""

    def __init__(self, path: Path) -> None:
        """Raises OSError when it holds no certificate."""
        self._path = path
        self._seen = _stamp(path)
        self._context = tls_context(str(path))

    def context(self) -> ssl.SSLContext:
        """By the file as it is now; while it is half written or away, as it was."""
        with suppress(OSError):
            seen = _stamp(self._path)
            if seen != self._seen:
                self._context = tls_context(str(self._path))
                self._seen = seen
        return self._context


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ino


def tls_context(ca_file: str | None = None, *, verify: bool = True) -> ssl.SSLContext:
    """Our side of TLS; `ca_file` None means the system's authorities. Raises OSError for a bad file.

    The strict X.509 checks that Python 3.13 switched on are off: they refuse the authorities of some hosted
    clusters (no Authority Key Identifier). Chain and host name are checked as ever.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
