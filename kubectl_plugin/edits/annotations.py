"""The annotations that record a change on the object: who made it, when and why."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api import template_identity
from controller.api.objects import JSONObject, value_at
from kubectl_plugin.edits.draft import Draft, with_operations
from kubectl_plugin.edits.edit import ROLLING
from kubectl_plugin.report.last_action import LAST_ACTION, PAUSE, LastAction, last_action, noted_pause
from kubectl_plugin.report.snapshot import CHANGE_CAUSE, Snapshot

ROLLBACK: Final = "rollback"
"""Value of `LastAction.verb` for a rollback."""

_CAUSE: Final = ("metadata", "annotations", CHANGE_CAUSE)
_TEMPLATE: Final = "/spec/template"


def action_operations(
    document: JSONObject, change: tuple[JSONObject, ...], done: LastAction
) -> tuple[JSONObject, ...]:
    """Operations that record `done` as the last action on `document`, and its reason as `cause_operations` does. They
    go beside the operations of `change`.

    A rollback also records the template that it went back to. Who paused the DaemonSet, and why, stays recorded until
    it is resumed.
    """
    draft = Draft(with_operations(document, change))
    if done.verb == ROLLBACK:
        done = replace(done, template=_new_template(change))
    if done.verb != PAUSE and draft.get(*ROLLING, "paused"):
        done = replace(done, pause=noted_pause(document))
    draft.set(msgspec.json.encode(done).decode(), "metadata", "annotations", LAST_ACTION)
    return (*draft.operations, *cause_operations(document, (*change, *draft.operations), done.reason))


def cause_operations(document: JSONObject, change: tuple[JSONObject, ...], reason: str) -> tuple[JSONObject, ...]:
    """Operations that set the change cause, without any other annotation.

    Only where `change` touches the template: the cause is then `reason`. Without a reason a former cause is removed,
    since it was about an earlier revision, unless `change` sets one itself.
    """
    draft = Draft(with_operations(document, change))
    if any(f"{one['path']}/".startswith(f"{_TEMPLATE}/") for one in change):
        if reason:
            draft.set(reason, *_CAUSE)
        elif draft.get(*_CAUSE) == value_at(document, *_CAUSE):
            draft.drop(*_CAUSE)
    return draft.operations


def template_gone_back_to(snapshot: Snapshot) -> str:
    """The identity of the template that the last change by this plugin rolled back to; empty if that change was no
    rollback."""
    last = last_action(snapshot.daemonset.annotations)
    return last.template if last is not None and last.verb == ROLLBACK else ""


def _new_template(change: tuple[JSONObject, ...]) -> str:
    """The identity of the template in `change`; empty if `change` does not replace the template as a whole."""
    written = (one.get("value") for one in change if one["path"] == _TEMPLATE)
    return next((template_identity.identity(one) for one in written if isinstance(one, dict)), "")
