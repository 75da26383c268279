"""Child processes that cannot outlive us: a log each, a process group each, ended by id."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
POLL = 0.03  # seconds between two looks at something that cannot be waited for


class ProcessError(Exception):
    """A process ended, or did not get ready in time; the message ends with the tail of its log."""


def die_with_parent() -> Callable[[], None] | None:
    """For `preexec_fn`: the kernel kills the child when the thread that starts it ends, even by SIGKILL.

    Start children from the main thread, then: one that starts in a worker thread dies with that thread.
    None where the system has no such thing; there only a clean end takes the children along.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we could ask
            os._exit(1)

    return ask


class Process:
    """A started child; `folder`/`name`.log takes its output, and a second start under that name appends."""

    def __init__(
        self, name: str, command: Sequence[str | Path], *, folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = tuple(str(word) for word in command)
        self.log = folder / f"{name}.log"
        with open(self.log, "ab") as log:
            self._child = subprocess.Popen(
                self.command,
                cwd=folder,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # the terminal's Ctrl-C is for us, who then end the children in order
                preexec_fn=die_with_parent(),
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the signal's number when one ended it."""
        return self._child.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send one signal; nothing happens when the process has ended."""
        self._child.send_signal(number)

    async def ended(self) -> int:
        """Wait for its end and give the return code."""
        while (code := self.returncode) is None:  # works in any event loop, unlike a child watcher
            await asyncio.sleep(POLL)
        return code

    async def stop(self, grace: float = 0.0) -> None:
        """End it: SIGTERM and up to `grace` seconds, then SIGKILL. Never leaves it running, even cancelled."""
        try:
            if grace > 0 and self.returncode is None:
                self.signal(signal.SIGTERM)
                self.signal(signal.SIGCONT)  # a frozen process would not see the first
                async with asyncio.timeout(grace):
                    await self.ended()
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """End it and its process group at once and reap it."""
        if self.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()

    async def until(self, ready: Callable[[], Awaitable[bool]], *, what: str, seconds: float) -> None:
        """Wait until `ready()`; raises `ProcessError` when the process ends first or the time is up."""
        begun = time.monotonic()
        while not await ready():
            if self.returncode is not None:
                raise ProcessError(f"{self.name} ended with {self.returncode} before {what}{self.tail()}")
            if time.monotonic() - begun > seconds:
                raise ProcessError(f"{self.name}: not {what} after {seconds:g} s{self.tail()}")
            await asyncio.sleep(POLL)

    def tail(self, lines: int = 15) -> str:
        """The end of its log, for an error message."""
        last = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "".join(f"\n  | {line}" for line in [f"… {self.log}:", *last])
