"""One run of an exec plugin's program, or of another one, which does not outlive the one who waits for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

REPORTED = "exec: "
"""How everything begins that is to be said about a run that failed."""
ENDS_WITHIN = 1.0
"""Seconds for which the end of a program that was killed is waited for."""


class Provider(Protocol):
    """What the kubeconfig reader has made of the `exec` of a user."""

    api_version: str
    args: list[str]
    env: Mapping[str, str]


class RunError(Exception):
    """The message begins with `REPORTED`."""


async def run_plugin(provider: Provider, previous_response: str | None = None) -> Any:
    """The status of the credential that the program prints: in place of the reader's own `ExecProvider.run`, which
    leaves a program behind that hangs, one for every run, and waits for ever where much is written to stderr.
    """
    asks = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    spec = {"interactive": asks} | ({"response": previous_response} if previous_response else {})
    info = json.dumps({"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec})
    code, printed, complaint = await outcome(
        *provider.args, env={**provider.env, "KUBERNETES_EXEC_INFO": info}, asks=asks
    )
    if code:
        words = complaint.decode(errors="replace").strip()
        raise RunError(f"{REPORTED}process returned {code}{f'. {words}' if words else ''}")
    return _status(printed, provider.api_version)


async def outcome(*words: str, env: Mapping[str, str] | None = None, asks: bool = False) -> tuple[int, bytes, bytes]:
    """The exit code, and what was printed to stdout and stderr. When nobody waits any longer, the program ends, and
    with it whatever it has started and not let go.

    `asks`: it may ask a person at our terminal. Such a one has to stay in our own group of processes, because the
    terminal listens to no other, and so it is ended alone.
    """
    stdin, group = (None, None) if asks else (DEVNULL, 0)
    program = await asyncio.create_subprocess_exec(
        *words, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE, process_group=group
    )
    try:
        printed, complaint = await program.communicate()
    except BaseException:
        _end(program, alone=asks)
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_WITHIN):
                await program.wait()
        raise
    return program.returncode or 0, printed, complaint


def _end(program: Process, *, alone: bool) -> None:
    """Also where it has ended already and one that it has started has not."""
    with suppress(ProcessLookupError):
        if alone or sys.platform == "win32":
            program.kill()
        else:
            os.killpg(program.pid, signal.SIGKILL)


def _status(printed: bytes, api_version: str) -> Any:
    try:
        credential = json.loads(printed)
    except ValueError as error:
        raise RunError(f"{REPORTED}failed to decode process output: {error}") from error
    for key in ("apiVersion", "kind", "status"):
        if key not in credential:
            raise RunError(f"{REPORTED}malformed response. missing key '{key}'")
    if credential["apiVersion"] != api_version:
        raise RunError(f"{REPORTED}plugin api version {credential['apiVersion']} does not match {api_version}")
    return credential["status"]
