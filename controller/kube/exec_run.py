"""Runs the program of an exec plugin, or another one. No program outlives the task that waits for it."""

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

import msgspec

from controller.api.base import Value, View
from controller.api.meta import epoch
from controller.kube.errors import ConfigError
from controller.kube.kubeconfig import KubeconfigEntry

PLUGIN_SECONDS = 60.0
"""Seconds that a plugin may take. One that waits for a person at a keyboard would never end."""
ENDS_WITHIN = 1.0
"""Seconds to wait for the end of a program that was killed."""


class Credential(Value):
    """The output of a plugin: a token, or else a client certificate."""

    authorization: str | None = None
    """The `Authorization` header; None: there is no token."""
    certificate: Mapping[str, str] = {}
    """The certificate and its key, as fields of a user in a kubeconfig; empty: there is none."""
    expiry: float | None = None
    """When it expires (seconds since 1970); None: not known."""


class _Status(View):
    """The `status` of the ExecCredential that a plugin prints."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class Program:
    """An exec plugin. `settings` is the `exec` of a user in a kubeconfig."""

    def __init__(self, settings: KubeconfigEntry, source: str) -> None:
        self.name = f'its exec plugin "{settings.get("command")}"'
        self.source = source
        self._settings = settings

    async def run(self) -> Credential:
        """Run the plugin once. Raises ConfigError when it fails; odd settings or odd output may raise anything."""
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                return _credential(await self._status())
        except TimeoutError as error:
            raise self._failed(f"did not end within {PLUGIN_SECONDS:g} s") from error
        except OSError as error:
            if error.filename != self._settings.get("command"):
                raise
            installed = not isinstance(error, FileNotFoundError)
            hint = next(iter(str(self._settings.get("installHint") or "").strip().splitlines()), "")
            why = f"cannot be run: {error.strerror}" if installed else "is not installed"
            raise self._failed(why, hint) from error

    async def _status(self) -> _Status:
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
        try:
            status = msgspec.convert(credential["status"], _Status)
        except msgspec.ValidationError as error:
            raise self._broken(f"malformed response. status: {error}") from error
        if status.expiration_timestamp and epoch(status.expiration_timestamp) is None:
            raise self._broken("malformed response. status: expirationTimestamp is no RFC 3339 time")
        return status

    def _broken(self, words: str) -> ConfigError:
        return self._failed(f"failed: {words}", "log in again")

    def _failed(self, words: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self.source}: {self.name} {words}", hint=hint)


def _credential(status: _Status) -> Credential:
    expiry = epoch(status.expiration_timestamp)
    if status.token:
        return Credential(authorization=f"Bearer {status.token}", expiry=expiry)
    if not (status.client_certificate_data and status.client_key_data):
        return Credential()
    files = {"client-certificate": status.client_certificate_data, "client-key": status.client_key_data}
    data = {f"{field}-data": base64.b64encode(text.encode()).decode() for field, text in files.items()}
    return Credential(certificate=data, expiry=expiry)


async def run_program(
    *words: str, env: Mapping[str, str] | None = None, asks: bool = False
) -> tuple[int, bytes, bytes]:
    """Run a program to its end; returns its exit code, stdout and stderr. When the caller is cancelled, the program
    is killed together with its process group.

    With `asks` the program may ask a person at our terminal. Such a program must stay in our own process group,
    because the terminal listens to no other; then only the program itself is killed.
    """
    stdin, group = (None, None) if asks else (DEVNULL, 0)

    async def start() -> Process | Exception:
        try:
            return await asyncio.create_subprocess_exec(
                *words, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE, process_group=group
            )
        except (
            Exception
        ) as error:  # whatever it is: it is raised outside of the scope, which would wrap it in a group
            return error

    async with asyncio.TaskGroup() as scope:
        starting = scope.create_task(start())
        try:
            program = await asyncio.shield(starting)
            printed, complaint = (b"", b"") if isinstance(program, Exception) else await program.communicate()
        except BaseException as error:  # cancelled too: the program does not outlive the call
            await _end(starting, alone=asks)
            if not isinstance(error, Exception):
                raise
            program = error
    if isinstance(program, Exception):
        raise program
    return program.returncode or 0, printed, complaint


async def _end(starting: asyncio.Task[Process | Exception], *, alone: bool) -> None:
    """Kill the program. Its start is finished first, however often the caller is cancelled: when a start is
    interrupted, asyncio ends that program alone, and waits for all that share its pipes."""
    while not starting.done():
        with suppress(asyncio.CancelledError):  # the caller raises it
            await asyncio.wait([starting])
    program = starting.result()
    if isinstance(program, Exception):
        return
    with suppress(ProcessLookupError):
        if alone or sys.platform == "win32":
            program.kill()
        else:
            os.killpg(program.pid, signal.SIGKILL)  # it may have ended, and a program that it started may not
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDS_WITHIN):
            await program.wait()
