"""Who did what to the object last, as the plugin notes it on the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.api.meta import epoch, rfc3339

LAST_ACTION: Final = "kruise-ds/last-action"
"""Compact JSON, see `Action`; only the newest one is kept, and the pause that still holds."""
PAUSE: Final = "pause"
"""The verb, as the note of it has it."""


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
    pause: Action | None = None
    """Of an earlier use, where the rollout is still paused by it."""


def action(verb: str, *, by: str, now: float, reason: str | None, client: str) -> Action:
    return Action(verb=verb, by=by, at=rfc3339(now), reason=reason or "", client=client)


def last_action(annotations: Mapping[str, str]) -> Action | None:
    """The newest action that is noted; None without one, and for a note that somebody else has garbled,
    be it only its time."""
    try:
        found = msgspec.json.decode(annotations.get(LAST_ACTION, ""), type=Action)
        for one in (found, found.pause):
            epoch(one.at if one is not None else None)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found


def pause_of(daemonset: DaemonSet) -> Action | None:
    """The use of `pause` that still holds; None where it is not paused, or nobody noted by whom."""
    return noted_pause(daemonset.annotations) if daemonset.paused else None


def noted_pause(annotations: Mapping[str, str]) -> Action | None:
    """The same, for what is known to be paused."""
    last = last_action(annotations)
    return last if last is None or last.verb == PAUSE else last.pause


def paused_words(daemonset: DaemonSet) -> str:
    """`paused by alice: "CVE triage"`; empty where it is not."""
    if not daemonset.paused:
        return ""
    pause = pause_of(daemonset)
    if pause is None:
        return "paused"
    return f"paused by {pause.by or 'somebody'}" + (f': "{pause.reason}"' if pause.reason else "")
