"""OCI images made without tools: layers, a config, a manifest, and an archive that a container runtime can import.

The same content gives the same bytes: nothing in an image has a time or an owner.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
SHARED = "org.opencontainers.image.ref.name"
NAME = "io.containerd.image.name"


@dataclass(frozen=True, slots=True)
class Image:
    """A manifest, and all blobs by digest, the manifest among them."""

    digest: str
    blobs: Mapping[str, bytes]

    @property
    def manifest(self) -> bytes:
        return self.blobs[self.digest]


def layer(files: Mapping[str, bytes]) -> bytes:
    """Programs by their path in the image."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), compresslevel=1, mtime=0)


def layer_of(folder: Path) -> bytes:
    """All that is in `folder`, which stands for the root."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime = 0, 0, "", "", 0
            if entry.isfile():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)


def image(layers: Sequence[bytes], **config: Any) -> Image:
    """An image of these layers; `config` is for its containers, in the format's words: Env, Entrypoint, User."""
    unpacked = [_digest(gzip.decompress(one)) for one in layers]
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": unpacked},
    }
    blobs = [json.dumps(document).encode(), *layers]
    types = [CONFIG, *(LAYER for _ in layers)]
    first, *others = [_descriptor(blob, kind) for blob, kind in zip(blobs, types, strict=True)]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": first, "layers": others}
    blobs.append(json.dumps(manifest).encode())
    return Image(_digest(blobs[-1]), {_digest(blob): blob for blob in blobs})


def write_archive(path: Path, images: Mapping[str, Image]) -> Path:
    """Images by full name, such as `registry.test/agent:v1`, in the layout that `ctr images import` reads."""
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [
            _descriptor(one.manifest, MANIFEST) | {"annotations": {NAME: name, SHARED: name.rpartition(":")[2]}}
            for name, one in images.items()
        ],
    }
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
    for one in images.values():
        files |= {f"blobs/{digest.replace(':', '/')}": blob for digest, blob in one.blobs.items()}
    with tarfile.open(path, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def _descriptor(blob: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
