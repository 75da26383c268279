"""A program that a go.mod of its own names as its `tool`: the one in the cache, else built once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.beds.control_plane import gobuild
from tests.beds.control_plane.cache import Progress, cache_home, filled_whole, locked
from tests.beds.control_plane.sources import Source, SourceError, first_of


class GoToolUnavailable(Exception):
    """The program is neither in the cache nor can it be built; the message says why, in one line."""


def obtain_go_tool(
    module: Path, name: str, *, environ: Mapping[str, str] = os.environ, progress: Progress | None = None
) -> Path:
    """The path of the program `name` that `module`/go.mod pins; raises `GoToolUnavailable`."""
    say = progress or (lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True))
    program = cache_home(environ) / name / _pinned(module / "go.mod") / name
    cache = Source("the cache", lambda: _cached(program))
    found, _ = first_of([cache])
    if found is None:
        with locked(program.parent, say):  # another run may have filled it while we waited
            build = Source("the Go build", lambda: _built(module, program, environ, say))
            found, failures = first_of([cache, build])
        if found is None:
            raise GoToolUnavailable(f"{name} cannot be had: {'; '.join(failures)}")
    return found


def _pinned(module: Path) -> str:
    """The version of the module whose command is the one `tool`, such as `v0.8.0`."""
    text = module.read_text()
    (tool,) = re.findall(r"^tool (\S+)$", text, re.MULTILINE)
    required = dict(re.findall(r"^\s*(\S+) (v\S+)", text, re.MULTILINE))
    holding = [one for one in required if f"{tool}/".startswith(f"{one}/")]
    if not holding:
        raise LookupError(f"{module} does not require the module of {tool}")
    return str(required[max(holding, key=len)])


def _cached(program: Path) -> Path:
    if not os.access(program, os.X_OK):
        raise SourceError(f"there is no {program}")
    return program


def _built(module: Path, program: Path, environ: Mapping[str, str], progress: Progress) -> Path:
    progress(f"building {program.name} {program.parent.name} from source: once, some minutes on two cores")
    with filled_whole(program.parent) as partial:
        gobuild.build(module, partial, ldflags="-s -w", environ=environ, progress=progress)
        _cached(partial / program.name)
    return _cached(program)
