"""Who did what to the object last, as the plugin notes it on the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.base import Value
from controller.api.meta import epoch, rfc3339

LAST_ACTION: Final = "kruise-ds/last-action"
"""Compact JSON, see `Action`; only the newest one is kept."""


class Action(Value, kw_only=True, omit_defaults=True):
    """One use of an acting verb."""

    verb: str
    by: str = ""
    """The user as the server knows them; empty where it does not tell."""
    at: str
    """RFC 3339."""
    reason: str = ""
    client: str
    """Program and version."""
    template: str = ""
    """Of a rollback: the meaning of the template that it went back to (`canonical.identity`)."""


def action(verb: str, *, by: str, now: float, reason: str | None, client: str) -> Action:
    return Action(verb=verb, by=by, at=rfc3339(now), reason=reason or "", client=client)


def last_action(annotations: Mapping[str, str]) -> Action | None:
    """The newest action that is noted; None without one, and for a note that somebody else has garbled,
    be it only its time."""
    try:
        found = msgspec.json.decode(annotations.get(LAST_ACTION, ""), type=Action)
        epoch(found.at)
    except (msgspec.MsgspecError, ValueError):
        return None
    return found
