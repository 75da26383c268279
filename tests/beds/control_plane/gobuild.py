"""Building the tools that a go.mod names, with lines of progress and a short account of what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.beds.control_plane.cache import Progress
from tests.beds.control_plane.golang import find_go
from tests.beds.control_plane.processes import die_with_parent
from tests.beds.control_plane.sources import SourceError

EVERY = 15.0  # seconds between two lines of progress


def build(
    module: Path,
    into: Path,
    *,
    packages: Sequence[str] = ("tool",),
    ldflags: str,
    environ: Mapping[str, str],
    progress: Progress,
) -> None:
    """Build `packages` (unless named: every `tool` of `module`/go.mod) into the folder `into`, as Go names them.

    Raises `SourceError` with the last lines of the build. The build ends with this process.
    """
    go = find_go(environ, progress)
    command = [str(go), "build", "-C", str(module), "-v", "-trimpath", "-mod=readonly", "-buildvcs=false"]
    process = subprocess.Popen(
        [*command, "-ldflags", ldflags, "-o", f"{into}{os.sep}", *packages],
        env=_environment(go, environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=die_with_parent(),
    )
    try:
        account = _follow(process, progress)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr:
            process.stderr.close()
    if process.returncode != 0:
        raise SourceError(f"go build ended with {process.returncode}: {account.reason()}")


def _environment(go: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's, but: static binaries, no workspace, and a newer toolchain may be fetched by Go itself."""
    ours = {**environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "auto"}
    ours.pop("GOROOT", None)  # it may belong to another Go than the one that is called
    ours["PATH"] = f"{go.parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
    return ours


@dataclass
class _Account:
    """What `go build -v` has said: a line per module fetched and per package compiled."""

    downloads: int = 0
    packages: int = 0
    last: deque[str] = field(default_factory=lambda: deque(maxlen=12))

    def read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.last.append(line.rstrip())
            if line.startswith("go: downloading"):
                self.downloads += 1
            elif " " not in line:
                self.packages += 1

    def __str__(self) -> str:
        now = f", now {self.last[-1]}" if self.last else ""
        return f"{self.downloads} modules fetched, {self.packages} packages compiled{now}"

    def reason(self) -> str:
        told = [line for line in self.last if " " in line and not line.startswith("go: downloading")]
        return "; ".join(told[-4:]) or "it gave no reason"


def _follow(process: subprocess.Popen[str], progress: Progress) -> _Account:
    account, begun = _Account(), time.monotonic()
    reader = threading.Thread(target=account.read, args=(process.stderr,), daemon=True)
    reader.start()
    while reader.is_alive():  # it ends with the pipe, so nothing that was said is lost
        reader.join(EVERY)
        progress(f"go build, {time.monotonic() - begun:.0f} s: {account}")
    process.wait()
    return account
