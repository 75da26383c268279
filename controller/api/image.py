"""Compares names of images. One image has several: `nginx` is `docker.io/library/nginx:latest`."""

from __future__ import annotations

from functools import lru_cache
from sys import intern

HUB = "docker.io"
_KNOWN = 16_384
"""Names that are remembered; most nodes of a cluster have the same ones."""


@lru_cache(_KNOWN)
def canonical(reference: str) -> str:
    """The full form: `host/path:tag`, or `host/path@digest` if there is a digest, as the tag then means nothing."""
    name, at, digest = reference.partition("@")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # no tag, or a colon before a port
        path, tag = name, ""
    host, slash, rest = path.partition("/")
    if not slash or not (set(host) & {".", ":"} or host == "localhost"):
        host, rest = HUB, path
    elif host == f"index.{HUB}":
        host = HUB
    if host == HUB and "/" not in rest:
        rest = f"library/{rest}"
    return intern(f"{host}/{rest}@{digest}" if at else f"{host}/{rest}:{tag or 'latest'}")


def same_image(one: str, other: str) -> bool:
    """Whether two references name the same image."""
    return one == other or canonical(one) == canonical(other)


def digest_of(reference: str) -> str:
    """The digest, `sha256:…`, in `registry/name@sha256:…` or `registry/name:tag@sha256:…`; empty if there is none."""
    return reference.rpartition("@")[2] if "@" in reference else ""
