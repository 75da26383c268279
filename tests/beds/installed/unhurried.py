"""The plugin as a program that waits for every answer, as it would get them at once on a machine that is not busy.

For what it only asks beside its work it has a second (`reads.HURRY`), and does without where no answer comes in time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_CODE: Final = """
from kubectl_plugin.cluster import reads
from kubectl_plugin.main import main
reads.HURRY = 60.0
main()
"""
PROGRAM: Final = (sys.executable, "-c", _CODE)
"""In place of `python -m kubectl_plugin`."""


def programs_in(folder: Path) -> Path:
    """Put it there under the name by which kubectl finds it; returns the folder."""
    program = folder / "kubectl-kruise_ds"
    program.write_text(f"#!{sys.executable}{_CODE}")
    program.chmod(0o755)
    return folder
