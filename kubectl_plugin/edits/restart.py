"""Restarts the pods as kubectl does: an annotation changes the template but not the pods that it describes."""

from __future__ import annotations

from controller.api.names import RESTARTED_AT
from controller.api.objects import rfc3339
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.edit import Edit
from kubectl_plugin.edits.effects import edit_of, on_delete_caution, pause_caution
from kubectl_plugin.report.snapshot import Snapshot


def restart(snapshot: Snapshot) -> Edit:
    """Stamped with the time of the snapshot in seconds, so that two calls within a second are one restart. Partition,
    selector and budget apply as in any other update.
    """
    draft = Draft(snapshot.document)
    draft.set(rfc3339(snapshot.now), "spec", "template", "metadata", "annotations", RESTARTED_AT)
    if not draft.operations:
        return Edit(result="already restarted", operations=())
    return edit_of(snapshot, draft, "restarted", on_delete_caution(snapshot), pause_caution(snapshot))
