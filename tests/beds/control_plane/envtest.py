"""The published envtest archives: etcd, kube-apiserver and kubectl, named with their SHA-512 in an index."""

from __future__ import annotations

import hashlib
import http.client
import platform
import re
import shutil
import tarfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.beds.control_plane.sources import Progress, SourceError

INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
PATIENCE = 5.0  # seconds for the index: a machine with no way out must not wait for what never comes
STALLED = 20.0  # seconds without a byte of the archive
NAMES = {"etcd", "kube-apiserver", "kubectl"}
GO_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def download(version: str, into: Path, progress: Progress, *, index: str = INDEX, patience: float = PATIENCE) -> None:
    """Put the archive's binaries into the folder `into`; raises `SourceError`, when offline within seconds."""
    url, sha512 = find_archive(_read_quickly(index, patience), version, this_platform())
    progress(f"downloading {url}")
    archive = into / "archive"
    try:
        _save(url, archive, progress)
        if _sha512_of(archive) != sha512:
            raise SourceError(f"the SHA-512 of {url} is not the one that the index names")
        _unpack(archive, into)
    except (OSError, http.client.HTTPException, tarfile.TarError) as error:
        raise SourceError(f"{url}: {error}") from error
    finally:
        archive.unlink(missing_ok=True)


def find_archive(index: str, version: str, for_platform: str) -> tuple[str, str]:
    """(URL, SHA-512 in hex) of the archive, from the index's text; raises `SourceError` when it is not there."""
    name = f"envtest-{version}-{for_platform}.tar.gz"
    entry = re.search(rf"^    {re.escape(name)}:\n((?:      .*\n?)+)", index, re.MULTILINE)
    if entry is None:
        raise SourceError(f"the index has no {name}")
    fields = dict(re.findall(r"^      (\w+): (\S+)", entry[1], re.MULTILINE))
    if not {"hash", "selfLink"} <= fields.keys():
        raise SourceError(f"the index names no hash or no selfLink for {name}")
    return fields["selfLink"], fields["hash"]


def this_platform() -> str:
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{GO_ARCHITECTURES.get(machine, machine)}"


def _read_quickly(url: str, patience: float) -> str:
    """The text at `url`, within `patience` seconds altogether: name look-ups have no limit of their own."""
    outcome: list[str | Exception] = []

    def read() -> None:
        try:
            with urllib.request.urlopen(url, timeout=patience) as response:
                outcome.append(response.read().decode())
        except (OSError, http.client.HTTPException, ValueError) as error:
            outcome.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(patience)
    match outcome:
        case [str(text)]:
            return text
        case [error]:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise SourceError(f"{url}: {reason}")
        case _:
            raise SourceError(f"{url}: no answer within {patience:g} s")


def _save(url: str, archive: Path, progress: Progress) -> None:
    told = time.monotonic()
    with urllib.request.urlopen(url, timeout=STALLED) as response, open(archive, "wb") as file:
        while chunk := response.read(1 << 20):
            file.write(chunk)
            if time.monotonic() - told > 15:
                told = time.monotonic()
                progress(f"downloaded {file.tell() >> 20} MiB")


def _sha512_of(archive: Path) -> str:
    with open(archive, "rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()


def _unpack(archive: Path, into: Path) -> None:
    """Write the wanted regular files by their last name only, so that no path in the archive is trusted."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() and name in NAMES else None
            if content is not None:
                with open(into / name, "wb") as file:
                    shutil.copyfileobj(content, file)
                (into / name).chmod(0o755)
