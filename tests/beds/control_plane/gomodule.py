"""Files of a published Go module, such as CRDs: none of them is kept here, but in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.beds.control_plane.golang import find_go
from tests.beds.control_plane.sources import Progress, SourceError, Unavailable, cache_home, filled_whole, locked, say

SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class GoModule:
    """`sum` is that of a go.sum; `wanted` are files and folders by their paths in the module."""

    path: str
    version: str
    sum: str
    wanted: tuple[str, ...]

    def obtain(self, *, environ: Mapping[str, str] = os.environ, progress: Progress = say) -> Path:
        """A folder that has what is wanted, by the same paths; raises Unavailable."""
        folder = cache_home(environ) / "modules" / f"{self.path.replace('/', '-')}@{self.version}"
        with locked(folder, progress):
            if all((folder / one).exists() for one in self.wanted):
                return folder
            try:
                there = self._downloaded(folder.parent, environ, progress)
            except SourceError as reason:
                raise Unavailable(f"{self.path} {self.version} cannot be had: {reason}") from reason
            with filled_whole(folder) as partial:
                for one in self.wanted:
                    _copy(there / one, partial / one)
        return folder

    def _downloaded(self, where: Path, environ: Mapping[str, str], progress: Progress) -> Path:
        go = find_go(environ, progress)
        progress(f"fetching {self.path} {self.version}: once, some seconds")
        command = [str(go), "mod", "download", "-json", f"{self.path}@{self.version}"]
        ours = {**environ, "GOWORK": "off", "GO111MODULE": "on", "GOFLAGS": "-mod=mod"}
        done = subprocess.run(command, cwd=where, env=ours, capture_output=True, text=True, timeout=SECONDS)
        told: Any = msgspec.json.decode(done.stdout or "{}")
        if done.returncode != 0:
            raise SourceError(f"go mod download: {told.get('Error') or done.stderr.strip()}")
        if told["Sum"] != self.sum:
            raise SourceError(f"it is another one than it was: {told['Sum']}")
        return Path(told["Dir"])


def _copy(source: Path, target: Path) -> None:
    """Without the modes of the module cache, where nothing may be written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir()
        for one in source.iterdir():
            _copy(one, target / one.name)
    else:
        shutil.copyfile(source, target)
