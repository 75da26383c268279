"""Credentials from the exec plugin of a kubeconfig (the login of a cloud vendor), renewed for as long as we run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from controller.api.meta import rfc3339
from controller.kube.errors import ConfigError
from controller.kube.exec_run import Credential, Program

SKEW = 60.0
"""Seconds before its expiry at which a token is renewed, so that clocks may differ a little."""
LEAST_PAUSE = 10.0
"""Seconds between two runs at least, whatever expiry the plugin returns."""


class ExecPlugin:
    """Runs the plugin again shortly before its token expires, and when the server answers 401.

    While the old token is valid, no request waits for a run, so a slow plugin cannot cost a leader its Lease. A run
    continues when a task that waits for it is cancelled; it ends when `renewing` is left. When a run fails, the old
    token stays in use.
    """

    def __init__(
        self,
        program: Program,
        credential: Credential,
        tls_with: Callable[[Credential], ssl.SSLContext],
        clock: Callable[[], float],
    ) -> None:
        """`credential` is what `program` returned first. `tls_with` makes our side of TLS, and may raise OSError."""
        self._program, self._credential, self._tls_with, self._clock = program, credential, tls_with, clock
        self._tls = tls_with(credential)
        self._last_run = clock()
        self._scope: asyncio.TaskGroup | None = None
        self._renewal: asyncio.Task[ConfigError | None] | None = None

    async def authorization(self) -> str | None:
        renewal = self._renewing() if self._due() else self._renewal
        if renewal is not None and not renewal.done() and self._has_expired():
            await asyncio.shield(renewal)  # if it fails, the old token is tried; a 401 then leads to `refresh`
        return self._credential.authorization

    async def refresh(self) -> None:
        if (failed := await asyncio.shield(self._renewing())) is not None:
            raise failed
        if (expiry := self._credential.expiry) is not None and self._has_expired():
            words = f"hands out a credential that expired at {rfc3339(expiry)}"
            raise ConfigError(f"{self._program.source}: {self._program.name} {words}", hint="log in again")

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as self._scope:
                yield
                if self._renewal is not None:
                    self._renewal.cancel()
        except BaseExceptionGroup as left:  # one error, from the block: a renewal never raises
            raise left.exceptions[0] from left.exceptions[0].__cause__

    def tls(self) -> ssl.SSLContext:
        """Our side of TLS with the newest client certificate. Each new certificate makes another context, because a
        connection keeps the context that opened it."""
        return self._tls

    def _has_expired(self) -> bool:
        return self._credential.expiry is not None and self._clock() >= self._credential.expiry

    def _due(self) -> bool:
        expiry, now = self._credential.expiry, self._clock()
        return expiry is not None and now >= expiry - SKEW and now >= self._last_run + LEAST_PAUSE

    def _renewing(self) -> asyncio.Task[ConfigError | None]:
        """The run that is under way, or a new one."""
        if self._renewal is None or self._renewal.done():
            assert self._scope is not None, "only asked inside `renewing`"
            self._last_run = self._clock()
            self._renewal = self._scope.create_task(self._attempt(), name="exec-plugin")
        return self._renewal

    async def _attempt(self) -> ConfigError | None:
        """Renew the credential; returns why that failed. If nobody waits for the result, the next 401 reports it."""
        try:
            credential = await self._program.run()
            if credential.certificate:
                self._tls = self._tls_with(credential)
        except ConfigError as failed:
            return failed
        except Exception as error:  # odd output may break anything; a certificate may not fit its key
            words = " ".join(str(error).split()) or type(error).__name__
            return ConfigError(f"{self._program.source}: cannot renew the credentials", quoting=words)
        self._credential = credential
        return None
