"""What is on this machine: kubectl, and the files by which it finds us."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from typing import Final

from controller.kube.exec_run import outcome
from kubectl_plugin.report.installation.facts import Machine, NoAnswer

PLUGIN: Final = "kubectl-kruise_ds"
COMPLETION: Final = "kubectl_complete-kruise_ds"
SHADOW: Final = "kubectl-kruise-ds"
PATIENCE: Final = 5.0
"""Seconds for kubectl's answer."""


async def look_around(environ: Mapping[str, str] = os.environ) -> Machine:
    """The files are looked for on the PATH of `environ`, as kubectl does."""
    return Machine(
        kubectl=await _kubectl(on_path("kubectl", environ)),
        plugin=on_path(PLUGIN, environ),
        completion=on_path(COMPLETION, environ),
        shadow=on_path(SHADOW, environ),
    )


def on_path(name: str, environ: Mapping[str, str]) -> str:
    """Where it is; empty where it is not."""
    return shutil.which(name, path=environ.get("PATH")) or ""


async def _kubectl(program: str) -> str | NoAnswer:
    if not program:
        return NoAnswer("it is not on the PATH")
    command = (program, "version", "--client", "--output=json")
    try:
        async with asyncio.timeout(PATIENCE):
            _, out, _ = await outcome(*command)
        return str(json.loads(out)["clientVersion"]["gitVersion"])
    except (OSError, TimeoutError):
        return NoAnswer(f"{program} does not answer")
    except (ValueError, KeyError, TypeError):
        return NoAnswer(f"{program} does not say")
