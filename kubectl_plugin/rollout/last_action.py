"""The last change by this plugin, noted on the DaemonSet, and the pause that is in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.objects import JSONObject, ManagedFields, Value, epoch, fields_of, rfc3339, value_at
from kubectl_plugin.rollout.gitops import texts_in
from kubectl_plugin.rollout.snapshot import Snapshot

LAST_ACTION: Final = "kruise-ds/last-action"
"""Annotation with a `LastAction` as compact JSON: the newest, with the pause still in force."""
PAUSE_VERB: Final = "pause"
WRITE_SECONDS: Final = 30.0
"""Maximum delay in seconds between the recorded time and the write, which may be retried."""
_PAUSED: Final = ("f:spec", "f:updateStrategy", "f:rollingUpdate", "f:paused")


class LastAction(Value, kw_only=True, omit_defaults=True):
    verb: str
    by: str = ""
    """The user name according to the server; empty if unknown."""
    at: str
    """RFC 3339."""
    reason: str = ""
    client: str
    template: str = ""
    """After a rollback, the identity of the restored template."""
    pause: LastAction | None = None
    """The earlier pause that is still in force."""


def action(verb: str, *, by: str, now: float, reason: str | None, client: str) -> LastAction:
    return LastAction(verb=verb, by=by, at=rfc3339(now), reason=reason or "", client=client)


def last_action(annotations: Mapping[str, str]) -> LastAction | None:
    """The newest recorded action; None if it is missing or invalid, including its time."""
    try:
        found = msgspec.json.decode(annotations.get(LAST_ACTION, ""), type=LastAction)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    readable = all(epoch(one.at) is not None for one in (found, found.pause) if one is not None and one.at)
    return found if readable else None


def pause_of(snapshot: Snapshot) -> LastAction | None:
    """The pause in force; None if the rollout is not paused or the pause was not recorded."""
    return noted_pause(snapshot.document) if snapshot.daemonset.paused else None


def noted_pause(document: JSONObject) -> LastAction | None:
    """Like `pause_of`, for a DaemonSet known to be paused. A record is ignored if it is older than the present pause:
    it outlives a resume by other means, such as kubectl edit."""
    meta = fields_of(document.get("metadata"))
    last = last_action(texts_in(meta.get("annotations")))
    if last is None or _pause_written(meta) > (epoch(last.at) or 0.0) + WRITE_SECONDS:
        return None
    return last if last.verb == PAUSE_VERB else last.pause


def _pause_written(meta: JSONObject) -> float:
    """The last write by a manager that owns `paused`, in seconds since 1970; 0 without one."""
    try:
        entries = msgspec.convert(meta.get("managedFields") or (), tuple[ManagedFields, ...])
        owners = (entry for entry in entries if value_at(entry.fields_v1, *_PAUSED) is not None)
        return max((epoch(owner.time) or 0.0 for owner in owners), default=0.0)
    except msgspec.ValidationError:
        return 0.0


def paused_words(snapshot: Snapshot) -> str:
    """`paused by alice: "CVE triage"`; empty if not paused."""
    if (pause := pause_of(snapshot)) is None:
        return "paused" if snapshot.daemonset.paused else ""
    return f"paused by {pause.by or 'an unknown user'}" + (f': "{pause.reason}"' if pause.reason else "")
