"""Versions of kruise-ds: which one this is, and how far apart the plugin and the controller may be."""

from __future__ import annotations

import re
from typing import Final

UNKNOWN: Final = "unknown"
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)")


def own_version() -> str:
    """The plugin's version; "unknown" when it runs from a folder without being installed."""
    from importlib import metadata

    try:
        return metadata.version("kruise-ds")
    except metadata.PackageNotFoundError:
        return UNKNOWN


def minor_of(version: str) -> tuple[int, int] | None:
    """The major and minor number of `version`; None for a text without them."""
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2])) if found else None


def too_far_apart(one: str, other: str) -> bool:
    """Whether plugin and controller may misunderstand each other: their versions differ by more than one minor
    version.

    False where either version is unknown.
    """
    first, second = minor_of(one), minor_of(other)
    if first is None or second is None:
        return False
    return first[0] != second[0] or abs(first[1] - second[1]) > 1
