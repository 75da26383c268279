"""Names of images: when two of them mean the same one."""

from __future__ import annotations

_HUB = ("docker.io/", "index.docker.io/")


def same_image(one: str, other: str) -> bool:
    """Whether two references name the same image: `nginx` is `docker.io/library/nginx:latest`."""
    return one == other or _written_out(one) == _written_out(other)


def digest_of(reference: str) -> str:
    """`sha256:…` of `registry/name@sha256:…` and of `registry/name:tag@sha256:…`; empty where there is none."""
    return reference.rpartition("@")[2] if "@" in reference else ""


def _written_out(reference: str) -> str:
    """With registry, and with the tag that is meant where neither tag nor digest is given. With a digest, a tag says
    nothing."""
    name, at, digest = reference.partition("@")
    path, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    name = f"{path}{slash}{last}"
    host, slash, rest = name.partition("/")
    if f"{host}/" in _HUB:
        name = rest
    elif slash and ("." in host or ":" in host or host == "localhost"):
        return f"{name}@{digest}" if at else f"{name}:{tag if colon else 'latest'}"
    if "/" not in name:
        name = f"library/{name}"
    return f"docker.io/{name}@{digest}" if at else f"docker.io/{name}:{tag if colon else 'latest'}"
