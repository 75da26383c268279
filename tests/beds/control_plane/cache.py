"""The cache folder: what stands in it under its final name is whole, and only one run fills it at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
