"""What a change leaves behind on the object: who did it, when, why."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import canonical
from controller.api.base import JSONObject
from kubectl_plugin.edits.applying import Draft, applied, found
from kubectl_plugin.edits.edit import ROLLING
from kubectl_plugin.report.last_action import LAST_ACTION, PAUSE, LastAction, last_action, noted_pause
from kubectl_plugin.report.snapshot import CHANGE_CAUSE, Snapshot

ROLLBACK: Final = "rollback"
"""The verb, as the note of it has it."""

_CAUSE: Final = ("metadata", "annotations", CHANGE_CAUSE)
_TEMPLATE: Final = "/spec/template"


def recorded(document: JSONObject, change: tuple[JSONObject, ...], done: LastAction) -> tuple[JSONObject, ...]:
    """Operations that note `done` on `document` beside the operations of `change`, and why, as `caused` does.

    A rollback also notes where it went. Who paused it, and why, is kept until it is no longer paused.
    """
    draft = Draft(applied(document, change))
    if done.verb == ROLLBACK:
        done = replace(done, template=_new_template(change))
    if done.verb != PAUSE and draft.get(*ROLLING, "paused"):
        done = replace(done, pause=noted_pause(document))
    draft.set(msgspec.json.encode(done).decode(), "metadata", "annotations", LAST_ACTION)
    return (*draft.operations, *caused(document, (*change, *draft.operations), done.reason))


def caused(document: JSONObject, change: tuple[JSONObject, ...], reason: str) -> tuple[JSONObject, ...]:
    """Operations for the change cause alone.

    Where `change` touches the template, `reason` is the change cause; without one the former cause goes, which would
    tell of the new revision what was true of an earlier one; not so one that comes with `change`.
    """
    draft = Draft(applied(document, change))
    if any(f"{one['path']}/".startswith(f"{_TEMPLATE}/") for one in change):
        if reason:
            draft.set(reason, *_CAUSE)
        elif draft.get(*_CAUSE) == found(document, *_CAUSE):
            draft.drop(*_CAUSE)
    return draft.operations


def went_back_to(snapshot: Snapshot) -> str:
    """The identity of the template to which the last use of an acting verb went back; empty where it did something
    else."""
    last = last_action(snapshot.daemonset.annotations)
    return last.template if last is not None and last.verb == ROLLBACK else ""


def _new_template(change: tuple[JSONObject, ...]) -> str:
    """Its identity; empty where `change` does not replace it as a whole."""
    written = (one.get("value") for one in change if one["path"] == _TEMPLATE)
    return next((canonical.identity(one) for one in written if isinstance(one, dict)), "")
