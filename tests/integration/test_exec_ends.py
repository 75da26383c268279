"""Exec plugins of a kubeconfig end with who waits for them, and what they have started ends too."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import sys
from collections import UserDict
from collections.abc import ItemsView, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.credentials import run_program
from controller.kube.transport import open_transport
from tests.unit.controller.kube.test_access import kubeconfig

VERSION = "client.authentication.k8s.io/v1"


HANGS = """
import os, pathlib, subprocess, sys, time
runs = pathlib.Path(sys.argv[1])
credential = '{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "t"}}' % sys.argv[2]
with runs.open("a") as file:
    file.write(f"{os.getpid()}\\n")
if pathlib.Path(sys.argv[1] + ".hangs").exists():
    held = os.open(sys.argv[1] + ".held", os.O_WRONLY)
    subprocess.Popen(["sleep", "300"], pass_fds=[held])
    os.write(held, b"!")
    if pathlib.Path(sys.argv[1] + ".leaves").exists():
        sys.exit()
    time.sleep(300)
print(credential)
"""


class Hanging:
    """A plugin that never ends once it is set to hang; the program that it has started does not either."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        os.mkfifo(folder / "runs.held")
        self._held = os.open(folder / "runs.held", os.O_RDONLY | os.O_NONBLOCK)
        self.args = ["-c", HANGS, str(self._runs), VERSION]
        self.kubeconfig = kubeconfig(
            folder / "config",
            {
                "exec": {
                    "apiVersion": VERSION,
                    "interactiveMode": "Never",
                    "command": sys.executable,
                    "args": self.args,
                }
            },
        )

    def hang(self, *, leaves: bool = False) -> None:
        """`leaves`: itself it ends, and only what it has started does not."""
        self._runs.with_name("runs.hangs").touch()
        if leaves:
            self._runs.with_name("runs.leaves").touch()

    @property
    def processes(self) -> list[int]:
        """One for each run."""
        return [int(word) for word in self._runs.read_text().split()] if self._runs.exists() else []

    async def began(self, runs: int) -> int:
        """Wait until it has run so often; returns the last process."""
        async with asyncio.timeout(60):
            while len(self.processes) < runs:  # what another process does sets no event here
                await asyncio.sleep(0.01)
        await self._says(b"!")
        return self.processes[-1]

    def has_started_its_own(self) -> None:
        """Wait for it, with the loop and everybody in it."""
        while self._read() != b"!":
            select.select([self._held], [], [], 60)

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        os.close(self._held)

    async def is_gone(self) -> None:
        """No process has the pipe any more that plugin and program held."""
        await self._says(b"")

    async def _says(self, expected: bytes) -> None:
        async with asyncio.timeout(60):
            while self._read() != expected:  # what another process does sets no event here
                await asyncio.sleep(0.01)

    def _read(self) -> bytes | None:
        try:
            return os.read(self._held, 1)
        except BlockingIOError:
            return None


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Hanging]:
    made = Hanging(tmp_path)
    yield made
    made.close()


async def test_a_plugin_that_hangs_ends_with_the_connection(plugin: Hanging) -> None:
    connection = await config.load(plugin.kubeconfig, environ={})
    plugin.hang()
    before = asyncio.all_tasks()
    async with open_transport(connection):
        waiting = asyncio.create_task(connection.credentials.refresh())
        process = await plugin.began(2)
    assert not lives(process)
    await plugin.is_gone()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert asyncio.all_tasks() == before


async def test_a_plugin_that_hangs_ends_with_who_waits_for_the_first_credential(plugin: Hanging) -> None:
    plugin.hang()
    loading = asyncio.create_task(config.load(plugin.kubeconfig, environ={}))
    process = await plugin.began(1)
    loading.cancel()
    await asyncio.wait([loading])
    assert not lives(process)
    await plugin.is_gone()


async def test_what_a_plugin_has_started_ends_though_the_plugin_has_ended_before(plugin: Hanging) -> None:
    """It holds the pipe from which the credential is read."""
    plugin.hang(leaves=True)
    loading = asyncio.create_task(config.load(plugin.kubeconfig, environ={}))
    await plugin.began(1)
    loading.cancel()
    await asyncio.wait([loading])
    await plugin.is_gone()


async def test_a_program_whose_output_cannot_be_read_is_an_error_of_the_system(
    plugin: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.hang()

    async def unreadable(self: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        await plugin.began(1)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(asyncio.subprocess.Process, "communicate", unreadable)
    with pytest.raises(OSError, match="Input/output error"):
        await run_program(sys.executable, *plugin.args)
    await plugin.is_gone()


class Environment(UserDict[str, str]):
    """Knows whether a program has been started with it."""

    started = False

    def items(self) -> ItemsView[str, str]:
        self.started = True
        return super().items()


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancelled_start_of_a_program_ends_what_it_has_started(plugin: Hanging, turns: int) -> None:
    """At whichever turn of the loop, and though the loop is slow, so that the program is ahead of it."""
    plugin.hang()
    environment = Environment(os.environ)
    running = asyncio.create_task(run_program(sys.executable, *plugin.args, env=environment))
    for _ in range(turns):
        await asyncio.sleep(0)
    if environment.started:
        plugin.has_started_its_own()
    running.cancel()
    await asyncio.wait([running], timeout=60)
    assert running.cancelled()
    await plugin.is_gone()


@pytest.mark.parametrize("words", [(sys.executable, "-c", "a\0b"), ("", "x=\0")])
async def test_a_program_that_cannot_start_raises_its_own_error_without_a_group(
    words: tuple[str, ...],
) -> None:
    with pytest.raises((ValueError, OSError)):
        await run_program(*words)
