"""Child processes that cannot outlive us: a log each, a process group each, ended by id. With loopback ports that
stay free, and a temporary folder that the next run sweeps where the run that made it was killed."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

LOWEST = 20_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")

_given: set[int] = set()
_claims: list[int] = []
"""The file of which this process has locked one byte for each of its ports. Closing it would let go of them all."""


def free_port(draw: Callable[[int, int], int] = random.randrange, ephemeral: Path = EPHEMERAL) -> int:
    """A TCP port of 127.0.0.1 that no process listens on, and that is given out once only while this process lives.

    Another run at the same time is given others: between this and the server's start, or while a server is down,
    nothing else keeps a port. It lies below the range that the kernel hands to outgoing connections: while a
    server is down, a client that keeps dialling a port of that range can be given the same port and end up
    talking to itself. `ephemeral`: the file that names that range.
    """
    for _ in range(200):
        port = draw(LOWEST, _first_ephemeral(ephemeral))
        if port in _given or not _claimed(port):
            continue
        _given.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on 127.0.0.1")


def _claimed(port: int) -> bool:
    """Whether the port is this process's own now. The kernel lets go of it when the process ends, however it ends."""
    if not _claims:
        path = Path(tempfile.gettempdir(), f"kruise-ds-ports-{os.getuid()}")
        _claims.append(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
    try:
        fcntl.lockf(_claims[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _first_ephemeral(ephemeral: Path) -> int:
    try:
        first = int(ephemeral.read_text().split()[0])
    except (OSError, ValueError):
        return 32_768
    return first if first > LOWEST + 1000 else 32_768


PREFIX = "kruise-ds-control-plane-"


@contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[Path]:
    """Yield a new folder and remove it at the end, with those of runs that no longer live.

    `within` is where all temporary files are, unless it says another place.
    """
    place = within or Path(tempfile.gettempdir())
    _sweep(place)
    unseen = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=place))
    with open(unseen / "owner.lock", "w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)  # the kernel lets go of it when we end, however we end
        folder = unseen.rename(unseen.with_name(unseen.name[1:]))  # no other run finds it before it has its lock
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    for lock in place.glob(f"{PREFIX}*/owner.lock"):
        try:
            with open(lock, "r+") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # its owner lives, or another run was faster


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
