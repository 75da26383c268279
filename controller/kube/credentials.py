"""Runs a kubeconfig's exec plugins and renews their credentials. No program outlives the task that waits for it."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import signal
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from controller.api.objects import Value, View, epoch, rfc3339
from controller.kube.connection import Credentials
from controller.kube.errors import ConfigError
from controller.kube.kubeconfig import KubeconfigEntry

PLUGIN_SECONDS = 60.0
"""The limit without a terminal, in seconds; a plugin that waits for input would never end."""
ENDS_WITHIN = 1.0
"""Seconds to wait for a killed program to end."""
CLUSTER_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a kubeconfig cluster that is passed to its plugin."""
CLUSTER_FIELDS: Final = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
MODES: Final = ("Never", "IfAvailable", "Always")


class Credential(Value):
    authorization: str | None = None
    certificate: Mapping[str, str] = {}
    """Certificate and key, as fields of a kubeconfig user; empty if there are none."""
    expiry: float | None = None
    """In seconds since 1970; None if not known."""


class Console(Value):
    """The standard streams of a command run by a user."""

    err: int
    """The descriptor of standard error."""
    types: bool
    """Whether standard input is a terminal."""
    terminal: bool
    """Whether standard input or standard error is a terminal."""


class _Status(View):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(View):
    api_version: str
    kind: str
    status: _Status


class Program:
    """An exec plugin. `settings` is the `exec` of a kubeconfig user, `cluster` the cluster used with it. With a
    `console`, the plugin writes to its standard error and, at a terminal, may ask and has no time limit. Without one,
    as in a controller, its standard error is dropped. `seconds` overrides the limit; `inf` means none."""

    def __init__(
        self,
        settings: KubeconfigEntry,
        source: str,
        cluster: KubeconfigEntry | None = None,
        *,
        console: Console | None = None,
        seconds: float | None = None,
    ) -> None:
        self.name = f'its exec plugin "{settings.get("command")}"'
        self.source = source
        self._settings, self._cluster, self._console = settings, cluster or {}, console
        self._at_terminal = console is not None and console.terminal
        self.seconds = seconds or (math.inf if self._at_terminal else PLUGIN_SECONDS)

    async def run(self) -> Credential:
        """Runs the plugin once. Raises ConfigError if it fails; malformed settings or output may raise anything."""
        try:
            async with asyncio.timeout(None if self.seconds == math.inf else self.seconds):
                return _credential(self._status(await self._printed()))
        except TimeoutError as error:
            raise self._failed(f"did not end within {self.seconds:g} s") from error
        except OSError as error:
            if error.filename != self._settings.get("command"):
                raise
            installed = not isinstance(error, FileNotFoundError)
            hint = next(iter(str(self._settings.get("installHint") or "").strip().splitlines()), "")
            why = f"cannot be run: {error.strerror}" if installed else "is not installed"
            raise self._failed(why, hint=hint) from error

    async def _printed(self) -> bytes:
        for key in ("command", "apiVersion"):
            if not self._settings.get(key):
                raise self._broken(f"malformed request. missing key '{key}'")
        version, asks = self._settings["apiVersion"], self._asks()
        spec: KubeconfigEntry = {"interactive": asks}
        if self._settings.get("provideClusterInfo"):
            spec["cluster"] = _cluster_info(self._cluster)
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        variables = {variable["name"]: variable["value"] for variable in self._settings.get("env") or ()}
        code, printed, _ = await run_program(
            str(self._settings["command"]),
            *(self._settings.get("args") or ()),
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if asks else DEVNULL,
            stderr=DEVNULL if self._console is None else self._console.err,
            at_terminal=self._at_terminal,
        )
        if code:
            raise self._broken(f"process returned {code}")
        return printed

    def _status(self, printed: bytes) -> _Status:
        version = self._settings["apiVersion"]
        try:
            credential = msgspec.json.decode(printed, type=_ExecCredential)
        except (msgspec.MsgspecError, ValueError) as error:
            raise self._broken("malformed response", quoting=str(error)) from error
        status = credential.status
        if credential.api_version != version:
            returned = f"it returned {credential.api_version}"
            raise self._broken(f"plugin api version does not match {version}", quoting=returned)
        if status.expiration_timestamp and epoch(status.expiration_timestamp) is None:
            raise self._broken("malformed response. status: expirationTimestamp is no RFC 3339 time")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._broken("malformed response. status: a certificate or a key, not both")
        if not (status.token or status.client_certificate_data):
            raise self._broken("malformed response. status: neither a token nor a certificate")
        return status

    def _asks(self) -> bool:
        """Whether the plugin may read standard input. Raises ConfigError if it must but cannot."""
        mode = self._settings.get("interactiveMode")
        if not mode and self._settings["apiVersion"] != "client.authentication.k8s.io/v1":
            mode = "IfAvailable"  # the default of the versions before
        if mode not in MODES:
            raise self._failed(f"needs interactiveMode: one of {', '.join(MODES)}")
        types = self._console is not None and self._console.types
        if mode == "Always" and not types:
            raise self._failed("has interactiveMode Always, and standard input is not a terminal")
        return types and mode != "Never"

    def _broken(self, words: str, *, quoting: str = "") -> ConfigError:
        return self._failed(f"failed: {words}", quoting=quoting, hint="log in again")

    def _failed(self, words: str, *, quoting: str = "", hint: str = "") -> ConfigError:
        return ConfigError(f"{self.source}: {self.name} {words}", quoting=quoting, hint=hint)


def _credential(status: _Status) -> Credential:
    files = {"client-certificate": status.client_certificate_data, "client-key": status.client_key_data}
    return Credential(
        authorization=f"Bearer {status.token}" if status.token else None,
        certificate={f"{field}-data": _base64(text.encode()) for field, text in files.items() if text},
        expiry=epoch(status.expiration_timestamp),
    )


def _cluster_info(cluster: KubeconfigEntry) -> KubeconfigEntry:
    """`spec.cluster` of the plugin's ExecCredential, from a kubeconfig cluster."""
    info = {field: cluster[field] for field in CLUSTER_FIELDS if cluster.get(field)}
    authority = cluster.get("certificate-authority-data")
    if not authority and cluster.get("certificate-authority"):
        authority = _base64(Path(cluster["certificate-authority"]).read_bytes())
    if authority:
        info["certificate-authority-data"] = authority
    extensions = {extension["name"]: extension["extension"] for extension in cluster.get("extensions") or ()}
    return {**info, "config": extensions.get(CLUSTER_EXTENSION)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def run_program(
    *words: str,
    env: Mapping[str, str] | None = None,
    stdin: int | None = DEVNULL,
    stderr: int = PIPE,
    at_terminal: bool = False,
) -> tuple[int, bytes, bytes]:
    """Runs a program to its end; returns its exit code, stdout and, by default, stderr. `stdin` None is inherited.
    On cancellation, its process group is killed. A program that interacts `at_terminal` stays in the caller's process
    group, the only one that may read from the terminal, and is killed alone."""
    group = None if at_terminal else 0

    async def start() -> Process | Exception:
        try:
            return await asyncio.create_subprocess_exec(
                *words, env=env, stdin=stdin, stdout=PIPE, stderr=stderr, process_group=group
            )
        except Exception as error:  # raised outside of the scope, which would wrap it in a group
            return error

    async with asyncio.TaskGroup() as scope:
        starting = scope.create_task(start())
        try:
            program = await asyncio.shield(starting)
            printed, complaint = (b"", b"") if isinstance(program, Exception) else await program.communicate()
        except BaseException as error:  # cancelled too: the program does not outlive the call
            await _end(starting, alone=at_terminal)
            if not isinstance(error, Exception):
                raise
            program = error
    if isinstance(program, Exception):
        raise program
    return program.returncode or 0, printed, complaint or b""


async def _end(starting: asyncio.Task[Process | Exception], *, alone: bool) -> None:
    """Kills the program. Waits for its start to finish, however often the caller is cancelled: asyncio would kill the
    process alone if its start is interrupted, and wait for all others that share its pipes."""
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


SKEW = 60.0
"""Seconds before its expiry at which a token is renewed, to allow for clock skew."""
LEAST_PAUSE = 10.0
"""Minimum seconds between two runs, whatever expiry the plugin returns."""


class ExecPlugin(Credentials):
    """Runs the plugin again shortly before its token expires, and after a 401. Requests do not wait for a run while
    the old token is valid, so a slow plugin cannot cost a leader its Lease. A run outlives a cancelled waiter, and
    ends when `renewing` is left. If it fails, the old token stays in use."""

    def __init__(
        self,
        program: Program,
        credential: Credential,
        tls: ssl.SSLContext,
        tls_with: Callable[[Credential], Awaitable[ssl.SSLContext]],
        clock: Callable[[], float],
    ) -> None:
        """`credential` and `tls` are of the first run; `tls_with` makes later contexts, and may raise OSError."""
        self._program, self._credential, self._tls, self._tls_with = program, credential, tls, tls_with
        self._clock = clock
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
        """With the newest client certificate. Each makes a new context, as open connections keep theirs."""
        return self._tls

    def _has_expired(self) -> bool:
        return self._credential.expiry is not None and self._clock() >= self._credential.expiry

    def _due(self) -> bool:
        expiry, now = self._credential.expiry, self._clock()
        return expiry is not None and now >= expiry - SKEW and now >= self._last_run + LEAST_PAUSE

    def _renewing(self) -> asyncio.Task[ConfigError | None]:
        if self._renewal is None or self._renewal.done():
            assert self._scope is not None, "only asked inside `renewing`"
            self._last_run = self._clock()
            self._renewal = self._scope.create_task(self._attempt(), name="exec-plugin")
        return self._renewal

    async def _attempt(self) -> ConfigError | None:
        """Renews the credential; returns why that failed. If no task awaits the result, the next 401 reports it."""
        try:
            credential = await self._program.run()
            if credential.certificate:
                self._tls = await self._tls_with(credential)
        except ConfigError as failed:
            return failed
        except Exception as error:  # malformed output may raise any error; a certificate may not fit its key
            words = " ".join(str(error).split()) or type(error).__name__
            return ConfigError(f"{self._program.source}: cannot renew the credentials", quoting=words)
        self._credential = credential
        return None
