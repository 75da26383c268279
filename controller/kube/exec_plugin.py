"""Credentials from a kubeconfig's exec plugin (cloud vendors' logins), kept fresh for as long as we run."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from controller.kube.errors import ConfigError

PATIENCE = 60.0
"""Seconds that a plugin may take; one that waits for a person at a keyboard never ends here."""
SKEW = 60.0
"""Seconds before its expiry at which a token is renewed."""
LEAST_PAUSE = 10.0
"""Seconds between two runs, whatever the plugin says about expiry."""

REPORTED = "exec: "
"""How the reader begins what it has to say about a plugin."""


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
        self,
        loader: Loader,
        tls: ssl.SSLContext | None,
        source: str,
        clock: Callable[[], float] = time.time,
        *,
        settings: Mapping[str, Any],
    ) -> None:
        """`loader` has run its plugin already, as `settings` (the kubeconfig's `exec`) say."""
        self._loader, self._tls, self._source, self._clock = loader, tls, source, clock
        self._settings = settings
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
        expiry: datetime | None = getattr(self._loader, "exec_plugin_expiry", None)
        if expiry is not None and expiry.timestamp() <= self._clock():
            words = f"{_named(self._settings)} hands out a credential that expired at {expiry:%Y-%m-%dT%H:%M:%SZ}"
            raise ConfigError(f"{self._source}: {words}", hint="log in again")

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
            if failed := plugin_failed(error, self._settings, self._source):
                raise failed from error
            words = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"{self._source}: cannot renew the credentials: {words}") from error
        self._runs += 1
        if self._tls and getattr(self._loader, "cert_file", None):
            self._tls.load_cert_chain(self._loader.cert_file, self._loader.key_file)


def plugin_failed(error: Exception, settings: Mapping[str, Any], source: str) -> ConfigError | None:
    """What a failed run means; None where it was not the plugin that failed. `settings`: the kubeconfig's `exec`."""
    hint = next(iter(str(settings.get("installHint") or "").strip().splitlines()), "")
    if isinstance(error, TimeoutError):
        return ConfigError(f"{source}: {_named(settings)} did not end within {PATIENCE:g} s")
    if isinstance(error, OSError) and error.filename == settings.get("command"):
        installed = not isinstance(error, FileNotFoundError)
        why = f"cannot be run: {error.strerror}" if installed else "is not installed"
        return ConfigError(f"{source}: {_named(settings)} {why}", hint=hint)
    words = " ".join(str(error).split())
    if words.startswith(REPORTED):
        return ConfigError(
            f"{source}: {_named(settings)} failed: {words.removeprefix(REPORTED)}", hint="log in again"
        )
    return None


def _named(settings: Mapping[str, Any]) -> str:
    return f'its exec plugin "{settings.get("command")}"'
