"""The Containerfile as data, and its first stage performed in a folder instead of a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

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


def config_of(stage: list[Step], **arguments: str) -> dict[str, Any]:
    """What the last stage says of containers, in the words of an image's config; `arguments` are those of ARG."""
    given = dict(pair.split("=", 1) for step in stage if step.word == "ARG" for pair in [step.rest]) | arguments

    def pairs(word: str) -> dict[str, str]:
        words = [part for step in stage if step.word == word for part in shlex.split(step.rest)]
        return {name: Template(value).substitute(given) for name, value in (part.split("=", 1) for part in words)}

    def last(word: str) -> str:
        return next(step.rest for step in reversed(stage) if step.word == word)

    return {
        "User": last("USER"),
        "WorkingDir": last("WORKDIR"),
        "Env": [f"{name}={value}" for name, value in pairs("ENV").items()],
        "Entrypoint": json.loads(last("ENTRYPOINT")),
        "ExposedPorts": {f"{port}/tcp": {} for port in last("EXPOSE").split()},
        "Labels": pairs("LABEL"),
    }


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
