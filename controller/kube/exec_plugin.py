"""Credentials from a kubeconfig's exec plugin (cloud vendors' logins), kept fresh for as long as we run."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from controller.kube.errors import ConfigError
from controller.kube.exec_run import Credential, Program

SKEW = 60.0
"""Seconds before its expiry at which a token is renewed."""
LEAST_PAUSE = 10.0
"""Seconds between two runs, whatever the plugin says about expiry."""


class ExecPlugin:
    """Runs the plugin again shortly before its token expires, and when the server refuses us.

    Nobody waits for a run while the old token is good, so a slow plugin costs no leader its Lease; and whoever stops
    waiting does not end the run that others wait for; leaving `renewing` does. When a run fails, the old token stays
    in use.
    """

    def __init__(
        self,
        program: Program,
        credential: Credential,
        tls_with: Callable[[Credential], ssl.SSLContext],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`program` has handed out `credential`. `tls_with` makes our side of TLS, and may raise OSError."""
        self._program, self._credential, self._tls_with, self._clock = program, credential, tls_with, clock
        self._tls = tls_with(credential)
        self._last_run = clock()
        self._scope: asyncio.TaskGroup | None = None
        self._renewal: asyncio.Task[ConfigError | None] | None = None

    async def authorization(self) -> str | None:
        renewal = self._renewing() if self._due() else self._renewal
        if renewal is not None and not renewal.done() and self._has_expired():
            await asyncio.shield(renewal)  # failed, the old token may do; if not, 401 leads to `refresh`, which tells
        return self._credential.authorization

    async def refresh(self) -> None:
        if (failed := await asyncio.shield(self._renewing())) is not None:
            raise failed
        if (expiry := self._credential.expiry) is not None and self._has_expired():
            words = f"hands out a credential that expired at {datetime.fromtimestamp(expiry, UTC):%Y-%m-%dT%H:%M:%SZ}"
            raise ConfigError(f"{self._program.source}: {self._program.name} {words}", hint="log in again")

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
        connection stays with the one that opened it."""
        return self._tls

    def _has_expired(self) -> bool:
        return self._credential.expiry is not None and self._clock() >= self._credential.expiry

    def _due(self) -> bool:
        expiry, now = self._credential.expiry, self._clock()
        return expiry is not None and now >= expiry - SKEW and now >= self._last_run + LEAST_PAUSE

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
            credential = await self._program.run()
            if credential.certificate:
                self._tls = self._tls_with(credential)
        except ConfigError as failed:
            return failed
        except Exception as error:  # whatever odd output breaks, and a certificate that does not fit its key
            words = " ".join(str(error).split()) or type(error).__name__
            return ConfigError(f"{self._program.source}: cannot renew the credentials: {words}")
        self._credential = credential
        return None
