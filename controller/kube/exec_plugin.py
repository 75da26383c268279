"""Credentials from a kubeconfig's exec plugin (cloud vendors' logins), kept fresh for as long as we run."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Protocol

from controller.kube.errors import ConfigError

PATIENCE = 60.0
"""Seconds that a plugin may take; one that waits for a person at a keyboard never ends here."""
SKEW = 60.0
"""Seconds before its expiry at which a token is renewed."""
LEAST_PAUSE = 10.0
"""Seconds between two runs, whatever the plugin says about expiry."""


class Loader(Protocol):
    """What is used of the kubeconfig reader. The attributes exist once a plugin has set them."""

    token: str
    exec_plugin_expiry: datetime
    cert_file: str
    key_file: str

    async def load_from_exec_plugin(self) -> bool: ...


class ExecPlugin:
    """Runs the plugin again shortly before its token expires, and when the server refuses us.

    Meanwhile, and when the plugin fails, the old token stays in use. A plugin that hands out a client
    certificate gets it into `tls`, for the connections that are opened from then on.
    """

    def __init__(
        self, loader: Loader, tls: ssl.SSLContext | None, source: str, clock: Callable[[], float] = time.time
    ) -> None:
        """`loader` has run its plugin already."""
        self._loader, self._tls, self._source, self._clock = loader, tls, source, clock
        self._one_run = asyncio.Lock()
        self._last_run = clock()
        self._runs = 0

    async def authorization(self) -> str | None:
        if self._due():
            async with self._one_run:
                if self._due():
                    with suppress(ConfigError):  # the old token may do; if not, 401 leads to `refresh`, which tells
                        await self._run()
        return getattr(self._loader, "token", None)

    async def refresh(self) -> None:
        runs = self._runs
        async with self._one_run:
            if runs == self._runs:  # else somebody has just done it
                await self._run()

    def _due(self) -> bool:
        expiry: datetime | None = getattr(self._loader, "exec_plugin_expiry", None)
        now = self._clock()
        return expiry is not None and now >= expiry.timestamp() - SKEW and now >= self._last_run + LEAST_PAUSE

    async def _run(self) -> None:
        self._last_run = self._clock()
        expiry = vars(self._loader).pop("exec_plugin_expiry", None)  # with one that lies ahead, it would not run
        try:
            async with asyncio.timeout(PATIENCE):
                await self._loader.load_from_exec_plugin()
        except Exception as error:  # whatever a missing program or its odd output makes the reader raise
            if expiry is not None:
                self._loader.exec_plugin_expiry = expiry
            words = " ".join(str(error).split()) or f"no answer within {PATIENCE:g} s"
            raise ConfigError(f"{self._source}: cannot renew the credentials: {words}") from error
        self._runs += 1
        if self._tls and getattr(self._loader, "cert_file", None):
            self._tls.load_cert_chain(self._loader.cert_file, self._loader.key_file)
