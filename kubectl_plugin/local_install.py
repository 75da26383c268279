"""The local installation: kubectl, and the plugin's files on the PATH."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from typing import Final

from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.host import Host
from kubectl_plugin.rollout.installation import Machine

PLUGIN: Final = "kubectl-kruise_ds"
COMPLETION: Final = "kubectl_complete-kruise_ds"
SHADOW: Final = "kubectl-kruise-ds"
KUBECTL_SECONDS: Final = 5.0


async def look_around(host: Host) -> Machine:
    return Machine(
        kubectl=await _kubectl(host),
        plugin=on_path(PLUGIN, host.environ),
        completion=on_path(COMPLETION, host.environ),
        shadow=on_path(SHADOW, host.environ),
    )


def on_path(name: str, environ: Mapping[str, str]) -> str:
    """The path of the program; empty if it is not on the PATH."""
    return shutil.which(name, path=environ.get("PATH")) or ""


async def _kubectl(host: Host) -> str | NoAnswer:
    program = on_path("kubectl", host.environ)
    if not program:
        return NoAnswer("it is not on the PATH")
    command = (program, "version", "--client", "--output=json")
    try:
        async with asyncio.timeout(KUBECTL_SECONDS):
            _, out, _ = await host.run_program(*command)
        return str(json.loads(out)["clientVersion"]["gitVersion"])
    except (OSError, TimeoutError):
        return NoAnswer(f"{program} does not answer")
    except (ValueError, KeyError, TypeError):
        return NoAnswer(f"{program} does not say")
