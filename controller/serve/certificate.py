"""The TLS certificate of a server: two files that are renewed while it runs."""

from __future__ import annotations

import ssl
from pathlib import Path

from controller.kube.connection import RotatedTLS


class Certificate:
    """A chain and its key, both PEM. They are checked for each connection, because cert-manager, or whoever writes
    the Secret, renews them in place.

    While the two do not match, as in the middle of a renewal, the last matching ones are used. Making it raises
    OSError or `ssl.SSLError` (a kind of it) if there are none.
    """

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain, self._key = chain, key
        self._now = RotatedTLS(self._load, chain, key)
        self.context = self._load()
        """The context for a server; each connection gets the certificate that is in the files then."""
        self.context.sni_callback = self._shown

    def _shown(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._now.context()

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._chain, self._key, password=_no_password)
        return context


def _no_password() -> str:
    raise OSError("the key wants a password: nobody is there to type it")
