"""What the image stands on where no container engine can fetch it: Debian's own Python, without shell and pip."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.beds.control_plane.sources import Progress, unpack

PACKAGES = (
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libc6",
    "libgcc-s1",
    "libssl3",
    "libexpat1",
    "libffi8",
    "libuuid1",
    "libbz2-1.0",
    "liblzma5",
    "libcrypt1",
    "zlib1g",
    "ca-certificates",
    "tzdata",
    "media-types",
)
UNREAD = ("usr/share/man", "usr/share/lintian", "usr/share/doc-base", "usr/sbin", "usr/lib/x86_64-linux-gnu/gconv")
USERS = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
GROUPS = "root:x:0:\nnonroot:x:65532:\n"


def lay(folder: Path, progress: Progress) -> Mapping[str, str]:
    """Unpack the base into `folder`, and give the packages' versions by name."""
    versions = unpack(PACKAGES, folder, progress)
    for name in UNREAD:
        shutil.rmtree(folder / name, ignore_errors=True)
    for name, text in {"etc/passwd": USERS, "etc/group": GROUPS}.items():
        (folder / name).write_text(text)
    authorities = sorted((folder / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = folder / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in authorities))
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "home/nonroot").mkdir(parents=True)
    return versions
