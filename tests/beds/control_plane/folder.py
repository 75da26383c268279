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
