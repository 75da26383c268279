"""What a change leaves behind on the object: who did it, when, why."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.api.base import JSONObject
from kubectl_plugin.edits.applying import Draft
from kubectl_plugin.report.last_action import LAST_ACTION, Action

CHANGE_CAUSE: Final = "kubernetes.io/change-cause"
"""kubectl's; the controller copies it to the revision of the template that it came with."""
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
"""In the pod template, as `kubectl rollout restart` writes it."""

_TEMPLATE: Final = "/spec/template"


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
