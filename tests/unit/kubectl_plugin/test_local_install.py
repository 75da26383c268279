"""What is found on this machine: kubectl's version, and the files by which it finds us."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kubectl_plugin.commands.doctor import look_around
from kubectl_plugin.errors import NoAnswer
from kubectl_plugin.host import Host
from kubectl_plugin.rollout.installation import Machine
from tests.beds.virtual_time import virtually


def program(folder: Path, name: str, script: str = "") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


async def test_nothing_there(tmp_path: Path) -> None:
    found = await look_around(Host({"PATH": str(tmp_path)}))
    assert found == Machine(NoAnswer("it is not on the PATH"), plugin="", completion="", shadow="")


class Hanging(Host):
    """Each of its programs runs until nobody waits for it any longer."""

    left = False

    async def run_program(self, *command: str) -> tuple[int, bytes, bytes]:
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True
        raise AssertionError


def test_a_kubectl_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    path, host = program(tmp_path, "kubectl"), Hanging({"PATH": str(tmp_path)})
    assert virtually(look_around(host)).kubectl == NoAnswer(f"{path} does not answer")
    assert host.left
