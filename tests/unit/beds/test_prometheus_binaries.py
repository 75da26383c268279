"""Finding prometheus and promtool: on the PATH both or neither, in the cache only what is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.beds.control_plane.sources import Unavailable
from tests.beds.prometheus.binaries import Binaries, obtain


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_both_on_the_path_are_taken(tmp_path: Path) -> None:
    both = Binaries(executable(tmp_path / "prometheus"), executable(tmp_path / "promtool"))
    assert obtain(environ={"PATH": str(tmp_path), "HOME": str(tmp_path)}) == both


def test_of_what_is_cached_the_newest_that_is_whole_is_taken(tmp_path: Path) -> None:
    cache = tmp_path / ".cache/kruise-ds/prometheus"
    both = Binaries(executable(cache / "2.42.0/prometheus"), executable(cache / "2.42.0/promtool"))
    executable(cache / "3.0.0/prometheus")
    executable(cache / ".3.1.0.partial-x/prometheus")
    executable(cache / ".3.1.0.partial-x/promtool")
    assert obtain(environ={"PATH": "", "HOME": str(tmp_path)}) == both


def test_where_nothing_gives_them_every_source_says_why(tmp_path: Path) -> None:
    executable(tmp_path / "promtool")
    with pytest.raises(Unavailable) as refused:  # no apt-get either
        obtain(environ={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    reasons = str(refused.value).splitlines()[1:]
    assert [reason.partition(":")[0] for reason in reasons] == [
        "  - the PATH",
        "  - the cache",
        "  - Debian's package prometheus",
    ]
    assert "no prometheus" in reasons[0]
