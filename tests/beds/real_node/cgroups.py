"""The cgroups of the nodes, in every hierarchy, and a guard that removes them however a test ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FREEZER = Path("/sys/fs/cgroup/freezer")
PREFIX = "kruise-ds-"
POLL, PATIENCE = 0.02, 180.0
COPIED = ("cpuset.cpus", "cpuset.mems")
"""What a new cgroup has not, and without which no process may enter it."""
SHARES = "16384"
"""Of the processor: with the usual 1024 all that runs in it would weigh as much as one process of the machine."""


def hierarchies() -> list[Path]:
    """All that are mounted, the one of version 2 beside those of version 1 too: the container runtime uses it."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(words[1]) for words in mounts if words[2] in ("cgroup", "cgroup2")]


def make(name: str) -> None:
    """A cgroup and those above it."""
    for hierarchy in hierarchies():
        folder = hierarchy
        for part in Path(name).parts:
            above, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            for setting in COPIED:
                if (folder / setting).exists() and not (folder / setting).read_text().strip():
                    (folder / setting).write_text((above / setting).read_text())
            if (folder / "cpu.shares").exists():
                (folder / "cpu.shares").write_text(SHARES)


def entering(name: str) -> list[str]:
    """The beginning of a command line: the rest of it runs in the cgroup."""
    enter = 'for tasks in "$@"; do shift; [ "$tasks" = -- ] && break; echo $$ >"$tasks"; done; exec "$@"'
    return ["sh", "-ec", enter, "sh", *(f"{folder / name}/cgroup.procs" for folder in hierarchies()), "--"]


def freeze(name: str) -> None:
    """All processes in it and below, between two instructions; nothing can end them until `thaw`."""
    (FREEZER / name / "freezer.state").write_text("FROZEN")


def thaw(name: str) -> None:
    """All of it, whichever part was frozen."""
    for folder in below(FREEZER / name):
        with contextlib.suppress(OSError):  # it went in the meantime
            (folder / "freezer.state").write_text("THAWED")


def processes(name: str) -> set[int]:
    """Of the cgroup and those below it."""
    found: set[int] = set()
    for hierarchy in hierarchies():
        for folder in below(hierarchy / name):
            with contextlib.suppress(OSError):
                found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
    return found


def remains(name: str) -> bool:
    return any((hierarchy / name).exists() for hierarchy in hierarchies())


def remove(name: str) -> None:
    """End whatever runs in it and below, and remove them all; TimeoutError when the kernel does not let go."""
    deadline = time.monotonic() + PATIENCE
    while remains(name):
        thaw(name)
        for pid in processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for hierarchy in hierarchies():
            for folder in below(hierarchy / name):
                with contextlib.suppress(OSError):  # a process is still on its way out
                    folder.rmdir()
        if time.monotonic() > deadline:
            raise TimeoutError(f"cgroup {name} is still there, with processes {processes(name)}")
        time.sleep(POLL)


def below(folder: Path) -> Iterator[Path]:
    """What lies deepest comes first, and the folder itself last."""
    return (Path(path) for path, _, _ in os.walk(folder, topdown=False))


@contextmanager
def guarded(name: str) -> Iterator[None]:
    """A cgroup that goes at the end, with all that runs in it: also when this process is killed, or it is frozen."""
    make(name)
    guard = subprocess.Popen([sys.executable, __file__, name], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate()


if __name__ == "__main__":
    sys.stdin.read()  # ends when the one who has started us lets go of the pipe, or ends
    remove(sys.argv[1])
