"""Credentials from a kubeconfig's exec plugin (cloud vendors' logins), kept fresh for as long as we run."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Protocol

from controller.kube.errors import ConfigError
from controller.kube.exec_run import REPORTED

PATIENCE = 60.0
"""Seconds that a plugin may take; one that waits for a person at a keyboard never ends here."""
SKEW = 60.0
"""Seconds before its expiry at which a token is renewed."""
LEAST_PAUSE = 10.0
"""Seconds between two runs, whatever the plugin says about expiry."""


class KubeconfigLoader(Protocol):
    """What is used of the kubeconfig reader. The attributes exist once a plugin has set them."""

    token: str
    exec_plugin_expiry: datetime
    cert_file: str
    key_file: str

    async def load_from_exec_plugin(self) -> bool: ...


class ExecPlugin:
    """Runs the plugin again shortly before its token expires, and when the server refuses us.

    Nobody waits for a run while the old token is good, so a slow plugin costs no leader its Lease; and whoever stops
    waiting does not end the run that others wait for; leaving `renewing` does. When a run fails, the old token stays
    in use.
    """

    def __init__(
        self,
        loader: KubeconfigLoader,
        tls: ssl.SSLContext | None,
        source: str,
        clock: Callable[[], float] = time.time,
        *,
        settings: Mapping[str, Any],
        tls_with: Callable[[str, str], ssl.SSLContext | None] = lambda _certificate, _key: None,
    ) -> None:
        """`loader` has run its plugin already, as `settings` (the kubeconfig's `exec`) say.

        `tls_with` makes our side of TLS with a client certificate and key that the plugin has handed out (paths).
        """
        self._loader, self._tls, self._source, self._clock = loader, tls, source, clock
        self._settings, self._tls_with = settings, tls_with
        self._last_run = clock()
        self._scope: asyncio.TaskGroup | None = None
        self._renewal: asyncio.Task[ConfigError | None] | None = None
        self._running_out: datetime | None = None
        """When the old token expires, while a run is on its way to another one."""

    async def authorization(self) -> str | None:
        renewal = self._renewing() if self._due() else self._renewal
        if renewal is not None and not renewal.done() and self._has_expired():
            await asyncio.shield(renewal)  # failed, the old token may do; if not, 401 leads to `refresh`, which tells
        return getattr(self._loader, "token", None)

    async def refresh(self) -> None:
        if (failed := await asyncio.shield(self._renewing())) is not None:
            raise failed
        if self._has_expired():
            words = (
                f"{_named(self._settings)} hands out a credential that expired at {self._expiry:%Y-%m-%dT%H:%M:%SZ}"
            )
            raise ConfigError(f"{self._source}: {words}", hint="log in again")

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as self._scope:
                yield
                if self._renewal is not None:
                    self._renewal.cancel()
        except BaseExceptionGroup as left:  # what left the block, and nothing else: no renewal raises
            raise left.exceptions[0] from left.exceptions[0].__cause__

    def tls(self) -> ssl.SSLContext:
        """Our side of TLS with the newest client certificate: another one each time that it changes, because a
        connection stays with the one that opened it. For a server over https."""
        assert self._tls is not None, "only asked for https"
        return self._tls

    @property
    def _expiry(self) -> datetime | None:
        return self._running_out or getattr(self._loader, "exec_plugin_expiry", None)

    def _has_expired(self) -> bool:
        return self._expiry is not None and self._clock() >= self._expiry.timestamp()

    def _due(self) -> bool:
        expiry, now = self._expiry, self._clock()
        return expiry is not None and now >= expiry.timestamp() - SKEW and now >= self._last_run + LEAST_PAUSE

    def _renewing(self) -> asyncio.Task[ConfigError | None]:
        """The run that is on its way, or a new one."""
        if self._renewal is None or self._renewal.done():
            assert self._scope is not None, "only asked inside `renewing`"
            self._last_run = self._clock()
            self._renewal = self._scope.create_task(self._attempt(), name="exec-plugin")
        return self._renewal

    async def _attempt(self) -> ConfigError | None:
        """Why it failed, for those who wait; where nobody does, the next 401 tells."""
        try:
            await self._run()
        except ConfigError as failed:
            return failed
        return None

    async def _run(self) -> None:
        expiry = vars(self._loader).pop("exec_plugin_expiry", None)  # with one that lies ahead, it would not run
        self._running_out = expiry
        try:
            async with asyncio.timeout(PATIENCE):
                await self._loader.load_from_exec_plugin()
            if self._tls and getattr(self._loader, "cert_file", None):
                self._tls = self._tls_with(self._loader.cert_file, self._loader.key_file) or self._tls
        except Exception as error:  # whatever a missing program or its odd output makes the reader raise
            if expiry is not None:
                self._loader.exec_plugin_expiry = expiry
            if failed := plugin_failed(error, self._settings, self._source):
                raise failed from error
            words = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"{self._source}: cannot renew the credentials: {words}") from error
        finally:
            self._running_out = None


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
