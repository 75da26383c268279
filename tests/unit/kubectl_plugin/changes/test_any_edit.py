"""What holds for every change: an object that goes, and revisions whose numbers nobody may know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubectl_plugin.changes.edit import Caution, Edit
from kubectl_plugin.changes.images import set_images
from kubectl_plugin.changes.partition import Goal, promote, set_partition
from kubectl_plugin.changes.pausing import pause, restart, resume
from kubectl_plugin.changes.rollback import RollbackWish, roll_back
from kubectl_plugin.rollout.snapshot import Snapshot, Unread
from kubectl_plugin.rollout.way_back import target_of
from tests.beds.worlds import served
from tests.unit.kubectl_plugin.changes.documents import live, rolling, seen

PODS = (*served("node-3", "node-2", rev="v2"), *served("node-1", "node-0"))
EDITS: dict[str, Callable[[Snapshot], Edit]] = {
    "pause": pause,
    "set-partition": lambda snapshot: set_partition(snapshot, 1),
    "raised": lambda snapshot: set_partition(snapshot, 3),
    "promote": lambda snapshot: promote(snapshot, Goal(partition=1)),
    "restart": restart,
    "set-image": lambda snapshot: set_images(snapshot, {"*": "demo:v3"}, None),
    "resume": lambda snapshot: resume(seen(_document(paused=True), pods=PODS, **_rights(snapshot))),
    "rollback": lambda snapshot: roll_back(snapshot, target_of(snapshot, None), RollbackWish()),
}


def _document(*, terminating: bool = False, **settings: Any) -> Any:
    document: Any = live(rolling(partition=2, **settings))
    if terminating:
        document["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"
    return document


def _rights(snapshot: Snapshot) -> dict[str, Any]:
    return {"unread": snapshot.unread, "revisions": () if snapshot.unread else ("v2", "v1")}


@pytest.mark.parametrize("verb", sorted(EDITS.keys() - {"resume"}))
def test_of_an_object_that_is_being_deleted_it_is_said(verb: str) -> None:
    terminating = EDITS[verb](seen(_document(terminating=True), pods=PODS, stable="v1"))
    assert terminating.warnings[0] == Caution(text="demo is being deleted")
    assert terminating.warnings[1:] == EDITS[verb](seen(_document(), pods=PODS, stable="v1")).warnings


@pytest.mark.parametrize("verb", sorted(EDITS.keys() - {"pause", "rollback"}))
def test_without_the_right_to_list_revisions_no_number_is_made_up(verb: str) -> None:
    numbered = EDITS[verb](seen(_document(), pods=PODS))
    blind = EDITS[verb](seen(_document(), pods=PODS, revisions=(), unread=(Unread(what="controllerrevisions"),)))
    said, unsaid = (" ".join((*one.details, *(each.text for each in one.warnings))) for one in (numbered, blind))
    assert "revision 2" in said or "revision 3" in said
    assert "the newest revision" in unsaid
    assert not [word for word in unsaid.split("revision ")[1:] if word[0].isdigit()]
