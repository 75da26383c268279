"""Who keeps a pod's readiness gate KruisePodReady closed: a list in the message of its condition, as OpenKruise keeps
it. Several writers share the condition; it is True only when nobody is left in the list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from controller.api.base import JSONObject

PRE_DELETE: Final[JSONObject] = {"userAgent": "Lifecycle", "key": "preDeleteHook"}
"""Our entry while a pod is prepared for its deletion; the same as OpenKruise's, so that either takes back what the
other has written."""


def writers(message: str) -> tuple[JSONObject, ...] | None:
    """The entries of a condition that is not True. None: its message is none of this kind."""
    if not message:
        return ()
    try:
        return tuple(msgspec.json.decode(message, type=tuple[dict[str, str], ...]))
    except (msgspec.DecodeError, RecursionError):
        return None


def with_ours(entries: Iterable[JSONObject]) -> str:
    """The message with our entry beside the others, sorted as everybody sorts it."""
    return _message([*without_ours(entries), PRE_DELETE])


def without_ours(entries: Iterable[JSONObject]) -> list[JSONObject]:
    return [one for one in entries if not is_ours(one)]


def is_ours(entry: JSONObject) -> bool:
    return (entry.get("userAgent"), entry.get("key")) == (PRE_DELETE["userAgent"], PRE_DELETE["key"])


def left_over(entries: Sequence[JSONObject]) -> str:
    """The message without our entry; empty where nobody else is in it."""
    others = without_ours(entries)
    return _message(others) if others else ""


def _message(entries: list[JSONObject]) -> str:
    entries.sort(key=lambda one: (str(one.get("userAgent", "")), str(one.get("key", ""))))
    return msgspec.json.encode(entries).decode()
