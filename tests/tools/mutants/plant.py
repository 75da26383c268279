"""Copies of the repository in which faults are planted one after another, and the tests that are run there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from tests.beds.control_plane.processes import temporary_folder
from tests.tools.mutants.faults import ROOT, Fault

PATIENCE = 600.0
"""Seconds for the tests of one fault; they take a few, and on a busy machine some of e2e a minute."""
NEEDED = ("controller", "kubectl_plugin", "manifests", "tests", "docs")


class Outcome(Enum):
    """What the tests made of a fault."""

    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    NOT_RUN = "NOT RUN"
    """The tests could not even be collected, or did not end: that proves nothing about what they assert."""


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of what the tests need, gone at the end of the block."""
    with temporary_folder() as folder:
        for name in NEEDED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ROOT.iterdir():
            if path.is_file():
                shutil.copy2(path, folder / path.name)
        yield folder


def tried(fault: Fault, folder: Path) -> tuple[Outcome, str]:
    """Run its tests on `folder` with the fault in it, and take it out again. Returns also what they printed."""
    path = folder / fault.file
    healthy = path.read_text()
    path.write_text(fault.planted(healthy))
    try:
        return outcome(fault.tests.split(), folder)
    finally:
        path.write_text(healthy)


def outcome(tests: list[str], folder: Path, seconds: float = PATIENCE) -> tuple[Outcome, str]:
    """What these tests say of `folder` as it is, and what they printed; they get so many seconds."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    ours = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / ".hypothesis")}
    try:
        done = subprocess.run(
            command, cwd=folder, env=ours, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome.NOT_RUN, f"no end within {seconds:g} s"
    verdict = {0: Outcome.SURVIVED, 1: Outcome.CAUGHT}.get(done.returncode, Outcome.NOT_RUN)
    return verdict, done.stdout + done.stderr
