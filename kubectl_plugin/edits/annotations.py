"""What a change leaves behind on the object: who did it, when, why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from controller.api.base import JSONObject, Value
from controller.api.meta import rfc3339
from kubectl_plugin.edits.applying import Draft

LAST_ACTION: Final = "kruise-ds/last-action"
"""Compact JSON, see `Action`; only the newest one is kept."""
CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""kubectl's; the controller copies it to the revision of the template that it came with."""
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""In the pod template, as `kubectl rollout restart` writes it."""

_TEMPLATE: Final = "/spec/template"


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


def action(verb: str, *, by: str, now: float, reason: str | None, client: str) -> Action:
    return Action(verb=verb, by=by, at=rfc3339(now), reason=reason or "", client=client)


def last_action(annotations: Mapping[str, str]) -> Action | None:
    """The newest action that is noted; None without one, and for a note that somebody else has garbled."""
    try:
        return msgspec.json.decode(annotations.get(LAST_ACTION, ""), type=Action)
    except msgspec.MsgspecError:
        return None


def recorded(document: JSONObject, change: tuple[JSONObject, ...], done: Action) -> tuple[JSONObject, ...]:
    """Operations that note `done` on `document` beside the operations of `change`.

    Where `change` touches the template, its reason is the change cause; without one the former cause goes, which
    would tell of the new revision what was true of an earlier one.
    """
    draft = Draft(document)
    draft.set(msgspec.json.encode(done).decode(), "metadata", "annotations", LAST_ACTION)
    if any(_in_template(str(one["path"])) for one in change):
        if done.reason:
            draft.set(done.reason, "metadata", "annotations", CHANGE_CAUSE)
        else:
            draft.drop("metadata", "annotations", CHANGE_CAUSE)
    return draft.operations


def _in_template(path: str) -> bool:
    return path == _TEMPLATE or path.startswith(f"{_TEMPLATE}/")
