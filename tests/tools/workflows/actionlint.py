"""actionlint, from the cache or built from the published module that go.mod here names."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.beds.control_plane import gobuild
from tests.beds.control_plane.cache import Progress, cache_home, filled_whole, locked

MODULE = Path(__file__).parent


def say(line: str) -> None:
    print(f"actionlint: {line}", file=sys.stderr, flush=True)


def pinned_version() -> str:
    found = re.search(r"^\s*github\.com/rhysd/actionlint (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError("tests/tools/workflows/go.mod does not require github.com/rhysd/actionlint")
    return found[1]


def obtain_actionlint(*, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Path:
    """The path of the program; raises `SourceError` where it is not in the cache and cannot be built."""
    folder = cache_home(environ) / "actionlint" / pinned_version()
    program = folder / "actionlint"
    with locked(folder, progress):
        if not os.access(program, os.X_OK):
            progress(f"building {folder.name} from source: once, about 20 seconds on two cores")
            with filled_whole(folder) as partial:
                gobuild.build(MODULE, partial, ldflags="-s -w", environ=environ, progress=progress)
    return program
