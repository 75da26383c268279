"""A temporary folder that also goes away when the run that made it was killed: the next run sweeps it."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "kruise-ds-control-plane-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder and remove it at the end, with those of runs that no longer live."""
    _sweep()
    unseen = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    with open(unseen / "owner.lock", "w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)  # the kernel lets go of it when we end, however we end
        folder = unseen.rename(unseen.with_name(unseen.name[1:]))  # no other run finds it before it has its lock
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner.lock"):
        try:
            with open(lock, "r+") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # its owner lives, or another run was faster
