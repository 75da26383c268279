"""The controller as a process of its own, by its real command line."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.beds.control_plane import Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port

COMMAND = Path(sys.executable).with_name("kruise-ds-controller")
POLL = 0.03
PATIENCE = 60.0
"""Seconds for what takes one or two: the machine may be busy."""

DUMPED = b"Timeout ("
"""What follows are the stacks of a leader that was blocked for too long: the last that it says."""
PLAIN = b"kruise-ds-controller: "
"""What a process says that cannot log any more, or not yet."""

_numbers = itertools.count(1)


class Controller:
    """One process; all that it logs is kept. `port` and `metrics_port` are its own."""

    def __init__(self, folder: Path, kubeconfig: Path, *options: str) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        command: list[str | Path] = [
            COMMAND,
            f"--kubeconfig={kubeconfig}",
            f"--health-probe-bind-address={LOOPBACK}:{self.port}",
            f"--metrics-bind-address={LOOPBACK}:{self.metrics_port}",
            "--log-format=json",
            "--log-level=debug",
            *options,
        ]
        self.process = Process(f"controller-{next(_numbers)}", command, folder=folder)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it has logged so far; a line that is no JSON object fails the test, but for plain last words."""
        whole = self.process.log.read_bytes().splitlines(keepends=True)
        said = itertools.takewhile(lambda line: not line.startswith(DUMPED), whole)
        logged = (line for line in said if line.endswith(b"\n") and not line.startswith(PLAIN))
        return [msgspec.json.decode(line, type=dict[str, Any]) for line in logged]

    def said(self, words: str) -> list[dict[str, Any]]:
        """The lines whose message has these words."""
        return [line for line in self.lines if words in line["msg"]]

    async def says(self, words: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for a line whose message has these words."""
        await self.until(lambda: bool(self.said(words)), f"says {words!r}", seconds)
        return self.said(words)[-1]

    async def leads(self, seconds: float = PATIENCE) -> None:
        """Wait until it says that it is the leader."""
        await self.until(lambda: self.is_leader, "leads", seconds)

    @property
    def is_leader(self) -> bool:
        """Whether it has ever said so; a standby says who else is."""
        return any(not line["msg"].startswith("standing by") for line in self.said(" leads"))

    async def until(self, holds: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for something that it logs; raises TimeoutError that ends with the tail of its log."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():  # what another process does sets no event here
                    await asyncio.sleep(POLL)
        except TimeoutError:
            words = f"not in {seconds:.1f} s: {self.process.name} {what}{self.process.tail()}"
            raise TimeoutError(words) from None

    async def page(self, path: str) -> tuple[int, str]:
        """Status and body of `/healthz`, `/readyz` or `/metrics`; status 0: no answer."""
        port = self.metrics_port if path.startswith("/metrics") else self.port
        return await get(f"http://{LOOPBACK}:{port}{path}", seconds=PATIENCE)

    async def ready(self) -> None:
        """Wait until its caches are full."""

        async def is_ready() -> bool:
            return (await self.page("/readyz"))[0] == 200

        await self.process.until(is_ready, what="ready", seconds=PATIENCE)

    async def metric(self, line: str) -> float:
        """The value of the sample that `line` names, labels included; 0 when there is none."""
        status, body = await self.page("/metrics")
        assert status == 200, f"{self.process.name} shows no metrics: {body}{self.process.tail()}"
        return next((float(found.split()[-1]) for found in body.splitlines() if found.startswith(f"{line} ")), 0.0)

    async def terminated(self) -> int:
        """Send SIGTERM and give the exit code; it has 20 s."""
        self.process.signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            return await self.process.ended()

    async def killed(self) -> None:
        self.process.signal(signal.SIGKILL)
        await self.process.ended()


@asynccontextmanager
async def running(
    folder: Path, kubeconfig: Path, *options: str, elect: bool = False, secrets: tuple[str, ...] = ()
) -> AsyncIterator[Controller]:
    """A ready controller; at the end it has leaked none of `secrets` into its log."""
    controller = Controller(folder, kubeconfig, "--leader-elect" if elect else "--no-leader-elect", *options)
    try:
        await controller.ready()
        yield controller
    finally:
        controller.process.kill()
    assert controller.lines, "it logs something, and all of it is JSON"
    for secret in secrets:
        assert secret not in controller.process.log.read_text(), f"{controller.process.name} logs a token"
