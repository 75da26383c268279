"""One run of an exec plugin's program, or of another one, which does not outlive the one who waits for it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from controller.api.base import Value
from controller.api.meta import epoch
from controller.kube.errors import ConfigError

PATIENCE = 60.0
"""Seconds that a plugin may take; one that waits for a person at a keyboard never ends here."""
ENDS_WITHIN = 1.0
"""Seconds for which the end of a program that was killed is waited for."""


class Credential(Value):
    """What a plugin has handed out: a token, or else a client certificate."""

    authorization: str | None = None
    """The header."""
    certificate: Mapping[str, str] = {}
    """With its key, as fields of a kubeconfig's user."""
    expiry: float | None = None
    """Seconds since 1970."""


class Program:
    """The exec plugin that `settings`, a kubeconfig's `exec`, tell of."""

    def __init__(self, settings: Mapping[str, Any], source: str) -> None:
        self.name = f'its exec plugin "{settings.get("command")}"'
        self.source = source
        self._settings = settings

    async def run(self) -> Credential:
        """Raises ConfigError when it fails, and whatever odd settings or odd output break."""
        try:
            async with asyncio.timeout(PATIENCE):
                return _credential(await self._status())
        except TimeoutError as error:
            raise self._failed(f"did not end within {PATIENCE:g} s") from error
        except OSError as error:
            if error.filename != self._settings.get("command"):
                raise
            installed = not isinstance(error, FileNotFoundError)
            hint = next(iter(str(self._settings.get("installHint") or "").strip().splitlines()), "")
            why = f"cannot be run: {error.strerror}" if installed else "is not installed"
            raise self._failed(why, hint) from error

    async def _status(self) -> Any:
        for key in ("command", "apiVersion"):
            if not self._settings.get(key):
                raise self._broken(f"malformed request. missing key '{key}'")
        version = self._settings["apiVersion"]
        asks = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": asks}}
        variables = {one["name"]: one["value"] for one in self._settings.get("env") or ()}
        environ = {**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        words = (str(self._settings["command"]), *(self._settings.get("args") or ()))
        code, printed, complaint = await run_program(*words, env=environ, asks=asks)
        if code:
            told = " ".join(complaint.decode(errors="replace").split())
            raise self._broken(f"process returned {code}{f'. {told}' if told else ''}")
        try:
            credential = json.loads(printed)
        except ValueError as error:
            raise self._broken(f"failed to decode process output: {error}") from error
        for key in ("apiVersion", "kind", "status"):
            if key not in credential:
                raise self._broken(f"malformed response. missing key '{key}'")
        if credential["apiVersion"] != version:
            raise self._broken(f"plugin api version {credential['apiVersion']} does not match {version}")
        return credential["status"]

    def _broken(self, words: str) -> ConfigError:
        return self._failed(f"failed: {words}", "log in again")

    def _failed(self, words: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.source}: {self.name} {words}", hint=hint)


def _credential(status: Any) -> Credential:
    expiry = epoch(status.get("expirationTimestamp"))
    if status.get("token"):
        return Credential(authorization=f"Bearer {status['token']}", expiry=expiry)
    if not (status.get("clientCertificateData") and status.get("clientKeyData")):
        return Credential()
    files = {"client-certificate": status["clientCertificateData"], "client-key": status["clientKeyData"]}
    data = {f"{field}-data": base64.b64encode(text.encode()).decode() for field, text in files.items()}
    return Credential(certificate=data, expiry=expiry)


async def run_program(
    *words: str, env: Mapping[str, str] | None = None, asks: bool = False
) -> tuple[int, bytes, bytes]:
    """Run a program to its end; returns its exit code, and what it printed to stdout and stderr. When the caller is
    cancelled, the program is killed, and with it whatever it has started in its process group.

    `asks`: it may ask a person at our terminal. Such a one has to stay in our own group of processes, because the
    terminal listens to no other, and so it is ended alone.
    """
    stdin, group = (None, None) if asks else (DEVNULL, 0)
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(*words, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE, process_group=group)
    )
    try:
        program = await asyncio.shield(starting)
        printed, complaint = await program.communicate()
    except BaseException:
        await _end(starting, alone=asks)
        raise
    return program.returncode or 0, printed, complaint


async def _end(starting: asyncio.Task[Process], *, alone: bool) -> None:
    """The start is carried to its end first, however often the caller is cancelled: where a start is cut off, asyncio
    ends the program alone, and waits for those that have its pipes."""
    while not starting.done():
        with suppress(asyncio.CancelledError):  # the caller raises it
            await asyncio.wait([starting])
    if starting.exception() is not None:
        return
    program = starting.result()
    with suppress(ProcessLookupError):
        if alone or sys.platform == "win32":
            program.kill()
        else:
            os.killpg(program.pid, signal.SIGKILL)  # also where it has ended and one that it has started has not
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDS_WITHIN):
            await program.wait()
