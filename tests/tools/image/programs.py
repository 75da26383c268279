"""/opt/kruise-ds as the Containerfile's first stage makes it, but as if it had been made in its place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.tools.image.containerfile import PREFIX, ROOT, perform, stages

INTERPRETER = "/usr/bin/python3.11"
OF_NO_USE = ("bin/activate*", "bin/Activate.ps1", "lib/**/RECORD", "lib/**/direct_url.json", "lib/**/__pycache__")
"""What names the folder that it was made in, or has hashes of what does."""


def install(root: Path, work: Path) -> Path:
    """Put our programs and what they import below `root`, and give their folder; `work` is an empty one."""
    made = perform(stages((ROOT / "Containerfile").read_text())[0], work)
    for pattern in OF_NO_USE:
        for path in list(made.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (made / "bin").iterdir():
        if path.is_symlink():
            path.unlink()
            path.symlink_to(INTERPRETER)
        else:
            path.write_text(path.read_text().replace(str(made), PREFIX))
    (made / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(INTERPRETER)}\ninclude-system-site-packages = false\nversion = 3.11\n"
    )
    placed = root / PREFIX.lstrip("/")
    placed.parent.mkdir(parents=True)
    shutil.move(made, placed)
    return placed


def compiled(folder: Path, root: Path) -> None:
    """Compile what is in `folder` below `root`, as nothing can be written there later; always to the same bytes."""
    command = [sys.executable, "-m", "compileall", "-qf", "--invalidation-mode=unchecked-hash"]
    as_placed = ["-s", str(root), "-p", "/"]
    environ = {**os.environ, "PYTHONHASHSEED": "0"}  # the order of a set's members
    subprocess.run([*command, *as_placed, str(folder)], check=True, env=environ)
