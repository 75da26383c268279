"""The Containerfile as data, and its first stage performed in a folder instead of a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PREFIX: Final = "/opt/kruise-ds"
INTERPRETERS: Final = "/usr/bin"
"""Where the image has its Python."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: `word` in capitals, and all that follows it on one line."""

    word: str
    rest: str


def stages(text: str) -> list[list[Step]]:
    """The instructions of each stage, its FROM first."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found: list[list[Step]] = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append(Step(word, rest.strip()))
    return found


def perform(stage: list[Step], folder: Path) -> Path:
    """Do what a builder would do with `stage`, with `folder` for the root; gives the folder that stands for PREFIX.

    `python` is the interpreter that runs this, in an environment of its own. AssertionError: a step failed.
    """
    source, prefix = folder / "source", folder / PREFIX.lstrip("/")
    source.mkdir()
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    environ = {**os.environ, "PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for step in stage:
        if step.word == "ENV":
            environ |= dict(pair.split("=", 1) for pair in step.rest.split())
        elif step.word == "COPY":
            _copy(step.rest.split(), source)
        elif step.word == "RUN":
            command = step.rest.replace(PREFIX, str(prefix)).replace(INTERPRETERS, str(_interpreters()))
            done = subprocess.run(["sh", "-ec", command], cwd=source, env=environ, capture_output=True, text=True)
            assert done.returncode == 0, f"RUN {step.rest}: {done.stderr}"
    return prefix


def _interpreters() -> Path:
    """The image's own path where a whole Python of that version is there, else that of the one that runs this."""
    try:
        subprocess.run([f"{INTERPRETERS}/python3.11", "-c", "import ssl"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return Path(sys.base_prefix) / "bin"
    return Path(INTERPRETERS)


def _copy(words: list[str], into: Path) -> None:
    *names, target = words
    for name in names:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, into / target, ignore=ignore, dirs_exist_ok=True)
        else:
            shutil.copyfile(ROOT / name, into / target / name)
