"""The last change by this plugin: who made which change and why, recorded in an annotation of the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.objects import JSONObject, ManagedFields, Value, epoch, fields_of, rfc3339, value_at
from kubectl_plugin.report.gitops import texts_in
from kubectl_plugin.report.snapshot import Snapshot

LAST_ACTION: Final = "kruise-ds/last-action"
"""Compact JSON of a `LastAction`. Only the newest one is kept, with the pause that is still in force."""
PAUSE: Final = "pause"
"""Value of `LastAction.verb` for a pause."""
LATE: Final = 30.0
"""Seconds at most between the time recorded and the write: a write may be tried many times."""
_PAUSED: Final = ("f:spec", "f:updateStrategy", "f:rollingUpdate", "f:paused")


class LastAction(Value, kw_only=True, omit_defaults=True):
    """One change by an acting verb."""

    verb: str
    by: str = ""
    """The user name as the server knows it; empty if the server did not say."""
    at: str
    """RFC 3339."""
    reason: str = ""
    client: str
    """Program and version."""
    template: str = ""
    """After a rollback: the identity (`canonical.identity`) of the template that it went back to."""
    pause: LastAction | None = None
    """The earlier `pause` by which the rollout is still paused; None if it is not paused."""


def action(verb: str, *, by: str, now: float, reason: str | None, client: str) -> LastAction:
    return LastAction(verb=verb, by=by, at=rfc3339(now), reason=reason or "", client=client)


def last_action(annotations: Mapping[str, str]) -> LastAction | None:
    """The newest recorded action; None without one, and for an annotation that cannot be read, even if only its time
    is invalid."""
    try:
        found = msgspec.json.decode(annotations.get(LAST_ACTION, ""), type=LastAction)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    readable = all(epoch(one.at) is not None for one in (found, found.pause) if one is not None and one.at)
    return found if readable else None


def pause_of(snapshot: Snapshot) -> LastAction | None:
    """The `pause` that is in force; None if the rollout is not paused, or nobody recorded the pause."""
    return noted_pause(snapshot.document) if snapshot.daemonset.paused else None


def noted_pause(document: JSONObject) -> LastAction | None:
    """The `pause` that is in force, for a DaemonSet that is known to be paused; None if nobody recorded it.

    The record stays when somebody resumes by other means, such as kubectl edit. When the rollout is paused again
    later, the old record is about another pause and is not returned.
    """
    meta = fields_of(document.get("metadata"))
    last = last_action(texts_in(meta.get("annotations")))
    if last is None or _pause_written(meta) > (epoch(last.at) or 0.0) + LATE:
        return None
    return last if last.verb == PAUSE else last.pause


def _pause_written(meta: JSONObject) -> float:
    """When `paused` was written at the latest, in seconds since 1970: the last write of any field by a manager that
    owns it. 0 where no manager does."""
    try:
        entries = msgspec.convert(meta.get("managedFields") or (), tuple[ManagedFields, ...])
        owners = (one for one in entries if value_at(one.fields_v1, *_PAUSED) is not None)
        return max((epoch(one.time) or 0.0 for one in owners), default=0.0)
    except msgspec.ValidationError:
        return 0.0


def paused_words(snapshot: Snapshot) -> str:
    """Such as `paused by alice: "CVE triage"`; empty if it is not paused."""
    if not snapshot.daemonset.paused:
        return ""
    pause = pause_of(snapshot)
    if pause is None:
        return "paused"
    return f"paused by {pause.by or 'somebody'}" + (f': "{pause.reason}"' if pause.reason else "")
