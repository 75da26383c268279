"""The real kubectl, pointed at one control plane."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KubectlResult:
    """What one call of kubectl said and how it ended."""

    args: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


async def run_kubectl(
    kubectl: Path,
    *args: str,
    kubeconfig: Path,
    cache: Path,
    stdin: str | None = None,
    seconds: float = 60.0,
    environ: Mapping[str, str] | None = None,
) -> KubectlResult:
    """Run kubectl to its end, with `environ` added to the environment; a return code other than 0 is a result, not an
    error.

    Raises TimeoutError after `seconds`; the process is gone then, as when the caller is cancelled.
    """
    command = (str(kubectl), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache), *args)
    env = {**os.environ, "KUBECTL_KUBERC": "false", **(environ or {})}
    return KubectlResult(args, *await run_to_end(command, env, stdin=stdin, seconds=seconds))


async def run_to_end(
    command: Sequence[str], env: Mapping[str, str], *, stdin: str | None = None, seconds: float = 60.0
) -> tuple[int, str, str]:
    """Run any program without a terminal: its return code, what it wrote, and what it wrote to stderr.

    Raises TimeoutError after `seconds`; the process is gone then, as when the caller is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=env,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(None if stdin is None else stdin.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode(), err.decode()
