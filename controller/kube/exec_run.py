"""One run of an exec plugin's program, which does not outlive the one who waits for it."""

from __future__ import annotations

import asyncio
import json
import sys
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
    spec = {"interactive": sys.stdout.isatty()} | ({"response": previous_response} if previous_response else {})
    info = json.dumps({"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec})
    program = await asyncio.create_subprocess_exec(
        *provider.args,
        env={**provider.env, "KUBERNETES_EXEC_INFO": info},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, complaint = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(ENDS_WITHIN):
                    await program.wait()
    if program.returncode:
        words = complaint.decode(errors="replace").strip()
        raise RunError(f"{REPORTED}process returned {program.returncode}{f'. {words}' if words else ''}")
    return _status(printed, provider.api_version)


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
