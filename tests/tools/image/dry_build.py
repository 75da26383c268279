"""The Containerfile's build, performed without a container engine (`make test-image`, about a minute: it fetches)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.tools.image.containerfile import ROOT, perform, stages

BUILD, FINAL = stages((ROOT / "Containerfile").read_text())
USERS = ((65532, 65532), (1_000_680_000, 0))
"""That of the image, and one as OpenShift gives them to a namespace: without a name, in the group of root."""
UNCHECKED = b"\x01\x00\x00\x00"
"""The flags of compiled code that holds its source's hash, and is never compared with it (PEP 552)."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where user `nobody` gets in: pytest's own folders are closed to others again by each run that starts."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the image's Python is 3.11, and its paths say so")
def test_the_build_gives_programs_that_run_from_a_read_only_root(folder: Path) -> None:
    prefix = perform(BUILD, folder)
    programs = {path.name for path in (prefix / "bin").iterdir()}
    assert {"kruise-ds-controller", "kubectl-kruise_ds", "kubectl_complete-kruise_ds"} <= programs
    assert not {name for name in programs if name.startswith("pip")}
    compiled = list((prefix / "lib").rglob("*.pyc"))
    assert compiled
    assert [path for path in compiled if path.read_bytes()[4:8] != UNCHECKED] == [], "valid whatever the times say"
    for path in [prefix, *prefix.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    before = sorted(path.relative_to(prefix) for path in prefix.rglob("*"))
    environ = {"PATH": f"{prefix / 'bin'}:/usr/bin:/bin", "HOME": "/nonexistent"}
    for pair in " ".join(step.rest for step in FINAL if step.word == "ENV").split():
        name, _, value = pair.partition("=")
        environ.setdefault(name, value)
    users: list[dict[str, Any]] = [{"user": user, "group": group, "extra_groups": []} for user, group in USERS]
    commands = (["kruise-ds-controller", "--help"], ["kubectl-kruise_ds", "version", "--client"])
    for command, as_user in product(commands, users if _others_may_run(prefix) else [{}]):
        done = subprocess.run(
            [str(prefix / "bin" / command[0]), *command[1:]],
            cwd="/",
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            **as_user,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stderr == "", command
        assert done.stdout, command
    assert sorted(path.relative_to(prefix) for path in prefix.rglob("*")) == before, "something was written"


def _others_may_run(prefix: Path) -> bool:
    """Whether we can become another user, and that one can reach the interpreter, which may be in root's folder."""
    interpreter = (prefix / "bin" / "python").resolve()
    return os.geteuid() == 0 and all(path.stat().st_mode & 0o005 == 0o005 for path in interpreter.parents)
