"""Where programs come from: the cache folder, of which what stands under its final name is whole and which one run
fills at a time; sources tried in order, with the reasons of those that had nothing; Debian's packages, unpacked
into a folder and not installed, which needs no rights."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

Found = TypeVar("Found", covariant=True)


class SourceError(Exception):
    """A source cannot give what is asked; the message is one short reason for people."""


class Unavailable(Exception):
    """A program or a file of another project cannot be had; the message says why, with a line for each source."""

    def __init__(self, what: str, failures: Sequence[str] = ()) -> None:
        lines = "".join(f"\n  - {failure}" for failure in failures)
        super().__init__(f"{what} cannot be had; tried in this order:{lines}" if failures else what)


@dataclass(frozen=True, slots=True)
class Source(Generic[Found]):
    """One place to get something from; `fetch` raises `SourceError` when it has nothing."""

    name: str
    fetch: Callable[[], Found]


def first_of(
    sources: Sequence[Source[Found]], progress: Callable[[str], None] | None = None
) -> tuple[Found | None, list[str]]:
    """Try `sources` in order: the first find or None, and one line of reason for each that failed before it."""
    failures: list[str] = []
    for source in sources:
        try:
            return source.fetch(), failures
        except SourceError as failure:
            failures.append(f"{source.name}: {failure}")
            if progress is not None:
                progress(failures[-1])
    return None, failures


Progress = Callable[[str], None]


def say(line: str) -> None:
    """The usual `Progress`: one line on stderr, at once, so that a long build is seen to live."""
    print(f"control plane: {line}", file=sys.stderr, flush=True)


def cache_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CACHE_HOME/kruise-ds`; as XDG asks, a variable that is empty or relative does not count."""
    named = environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "kruise-ds"


@contextmanager
def locked(folder: Path, progress: Progress = say) -> Iterator[None]:
    """Hold the one right to fill `folder`, across processes; says so when it has to wait for another run."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another run is filling {folder}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def filled_whole(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `folder` when the block ends well, and vanishes when it does not.

    Call it under `locked(folder)`: it sweeps what runs that were killed have left beside `folder`.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.partial-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        if folder.exists():  # only ever one that lacks something: whole ones are found before this
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


PATIENCE = 180.0
"""Seconds for one call of apt: 19 MB, or all lists of packages."""


def unpack(
    packages: Sequence[str], into: Path, progress: Progress, environ: Mapping[str, str] = os.environ
) -> Mapping[str, str]:
    """Download `packages`, without what they depend on, unpack them into `into`, and give their versions by name.

    Raises `SourceError`.
    """
    with tempfile.TemporaryDirectory(prefix="kruise-ds-debian-") as temporary:
        folder = Path(temporary)
        progress(f"downloading {', '.join(packages)} from Debian: once")
        _download(packages, folder, environ)
        versions = {}
        run = partial(_run, folder=folder, environ=environ)
        for archive in folder.glob("*.deb"):
            name = run("dpkg-deb", "--field", str(archive), "Package").strip()
            versions[name] = run("dpkg-deb", "--field", str(archive), "Version").strip()
            run("dpkg-deb", "--extract", str(archive), str(into))
        return versions


def _download(packages: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    """Where the machine's lists do not have them, with lists of our own."""
    as_we_are = "-oAPT::Sandbox::User=root"  # the folder is ours alone, and apt's own user may not look into it
    try:
        _run("apt-get", as_we_are, "--quiet", "download", *packages, folder=folder, environ=environ)
    except SourceError:
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True)
        own = [f"-oDir::State::Lists={lists}", f"-oDir::Cache={folder / 'cache'}"]
        _run("apt-get", *own, "--quiet", "update", folder=folder, environ=environ)
        _run("apt-get", as_we_are, *own, "--quiet", "download", *packages, folder=folder, environ=environ)


def _run(*command: str, folder: Path, environ: Mapping[str, str]) -> str:
    program = shutil.which(command[0], path=environ.get("PATH", ""))
    try:
        if program is None:
            raise FileNotFoundError("not on the PATH")
        done = subprocess.run(
            [program, *command[1:]],
            env=environ,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise SourceError(f"{command[0]}: {said[-1]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"{command[0]}: {error}") from error
    return done.stdout
