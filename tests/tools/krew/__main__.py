"""The kubectl plugin as one archive, for krew and for machines without a package index.

    make plugin [URL=https://…/releases/download/v0.1.0 HOMEPAGE=https://…]

It holds the program, our packages and the installed dependencies, so it runs on this operating system and processor,
with every minor version of Python in `natives.MINORS`. The same environment gives the same bytes. Beside it comes
`kruise-ds.yaml`: the manifest of `.krew.yaml` for the archives that lie in the folder, with their checksums.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from tests.tools.krew.launcher import LAUNCHER
from tests.tools.krew.natives import COMPILED, MINORS, natives

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "kruise-ds"
PROGRAM = "kubectl-kruise_ds"
OURS = ("controller", "kubectl_plugin")
CONTROLLER_ONLY = frozenset({"prometheus-client", "structlog"})
"""Dependencies that the plugin does not import."""
NOT_RUN = (*COMPILED, ".pyc", ".pyi", ".c", ".h", ".pyx", ".pxd", ".pxi", "/RECORD", "/direct_url.json")
"""What is compiled comes from `natives`; where it is not needed, it is left out for this minor version, too."""
_NAME = re.compile(r"^[A-Za-z0-9._-]+")

Files = Mapping[str, bytes]
"""Content by path inside the archive."""


def platform_name() -> str:
    """As krew names them: `linux_amd64`, `darwin_arm64`."""
    machine = platform.machine().lower()
    return f"{sys.platform}_{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


def files(version: str, compiled: Files) -> Files:
    """All that the archive holds. The dependencies are those of the environment that runs this, but for `compiled`:
    their modules that are no Python."""
    found = {PROGRAM: LAUNCHER.encode(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            found[f"lib/{path.relative_to(ROOT).as_posix()}"] = path.read_bytes()
    found[f"lib/kruise_ds-{version}.dist-info/METADATA"] = _metadata(version)
    for name in sorted(_dependencies()):
        for inside, content in _files_of(metadata.distribution(name)):
            found[f"lib/{inside}"] = content
    return found | {f"lib/{path}": content for path, content in compiled.items()}


def archive(content: Files) -> bytes:
    """A tar.gz that depends on nothing but `content`: no times, no owners, sorted."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in sorted(content):
            entry = tarfile.TarInfo(name)
            entry.size = len(content[name])
            entry.mode = 0o755 if name == PROGRAM else 0o644
            tar.addfile(entry, io.BytesIO(content[name]))
    return gzip.compress(packed.getvalue(), compresslevel=6, mtime=0)  # 9: a hundredth less in four times the time


def released(manifest: dict[str, Any], folder: Path, url: str = "", homepage: str = "") -> dict[str, Any]:
    """`manifest` for the archives in `folder`: their checksums, at `url` unless that is empty; other platforms go."""
    platforms = []
    for one in manifest["spec"]["platforms"]:
        name = one["uri"].rpartition("/")[2]
        path = folder / name
        if path.exists():
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            platforms.append({**one, "sha256": sha256, "uri": f"{url.rstrip('/')}/{name}" if url else one["uri"]})
    spec = {**manifest["spec"], "homepage": homepage or manifest["spec"]["homepage"], "platforms": platforms}
    return {**manifest, "spec": spec}


def _metadata(version: str) -> bytes:
    """So that the program knows its version."""
    return f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {version}\n".encode()


def _dependencies() -> set[str]:
    """Names of all distributions that the plugin needs, those of its dependencies too."""
    found: set[str] = set()
    waiting = _requirements(PACKAGE) - CONTROLLER_ONLY
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= _requirements(name) - found
    return found


def _requirements(name: str) -> set[str]:
    """Requirements without an extra that are installed here; those for other systems or Pythons are not."""
    wanted = (text for text in metadata.requires(name) or () if "extra ==" not in text)
    names = (match[0].lower() for text in wanted if (match := _NAME.match(text)))
    return {one for one in names if _is_installed(one)}


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _files_of(distribution: metadata.Distribution) -> Iterator[tuple[str, bytes]]:
    """What lies in the library folder, without programs and caches, and without the record of them."""
    for path in distribution.files or ():
        name = PurePosixPath(path).as_posix()
        skipped = name.startswith(("../", "/")) or name.endswith(NOT_RUN)
        located = Path(str(distribution.locate_file(path)))
        if not skipped and located.is_file():
            yield name, located.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.krew", description="Build the plugin's archive.")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    parser.add_argument("--url", default="", help="folder of the release that is being made")
    parser.add_argument("--homepage", default="", help="of the project")
    options = parser.parse_args()
    manifest = yaml.safe_load((ROOT / ".krew.yaml").read_text())
    version = manifest["spec"]["version"]
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{PROGRAM}_{version}_{platform_name()}.tar.gz"
    path.write_bytes(archive(files(version.removeprefix("v"), natives())))
    whole = released(manifest, options.folder, options.url, options.homepage)
    described = options.folder / f"{manifest['metadata']['name']}.yaml"
    described.write_text(yaml.safe_dump(whole, sort_keys=False))
    needs = f"Python 3.{MINORS[0]} to 3.{MINORS[-1]}"
    print(f"{path}\n  needs {needs}, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}\n{described}")


if __name__ == "__main__":
    main()
