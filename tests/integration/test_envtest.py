"""The published archives are taken only whole and only as what the index says they are."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
from pathlib import Path

import pytest

from tests.beds.control_plane import envtest
from tests.beds.control_plane.sources import SourceError

VERSION = "v1.36.3"


def publish(root: Path, members: dict[str, bytes], *, sha512: str = "") -> str:
    """Write an archive with `members` and an index that names it; give the index's URL."""
    archive = root / f"envtest-{VERSION}-{envtest.this_platform()}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    sha512 = sha512 or hashlib.sha512(archive.read_bytes()).hexdigest()
    index = root / "index.yaml"
    entry = f"    {archive.name}:\n      hash: {sha512}\n      selfLink: {archive.as_uri()}\n"
    index.write_text(f"releases:\n  {VERSION}:\n{entry}")
    return index.as_uri()


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def fetch(index: str, into: Path, *, version: str = VERSION, patience: float = 5.0) -> None:
    envtest.download(version, into, lambda line: None, index=index, patience=patience)


def test_the_binaries_are_executable_and_nothing_else_is_unpacked(tmp_path: Path, into: Path) -> None:
    names = ["controller-tools/envtest/etcd", "../../kubectl", "controller-tools/README"]
    index = publish(tmp_path, dict.fromkeys(names, b"#!"))
    with pytest.raises(SourceError, match=r"no envtest-v1\.36\.4-"):
        fetch(index, into, version="v1.36.4")
    fetch(index, into)
    assert [*tmp_path.rglob("kubectl")] == [into / "kubectl"], "a path may not leave the folder"
    assert {path.name: path.stat().st_mode & 0o777 for path in into.iterdir()} == {"etcd": 0o755, "kubectl": 0o755}


def test_an_archive_with_another_checksum_is_refused(tmp_path: Path, into: Path) -> None:
    with pytest.raises(SourceError, match="SHA-512"):
        fetch(publish(tmp_path, {"etcd": b"#!"}, sha512="0" * 128), into)
    assert list(into.iterdir()) == []


def test_a_network_that_swallows_everything_costs_only_the_patience(into: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SourceError, match=r"timed out|no answer"):
            fetch(f"http://127.0.0.1:{port}/", into, patience=0.2)
