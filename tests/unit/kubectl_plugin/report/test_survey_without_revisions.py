"""Without the right to list revisions: which pods are outdated all the same, and no number that nobody knows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Phase
from kubectl_plugin.report.snapshot import Snapshot, Unread
from kubectl_plugin.report.survey import survey
from tests.beds.snapshots import of_world
from tests.beds.worlds import ds, served, world


def blinded(partition: int) -> tuple[Snapshot, Snapshot]:
    """Three old pods and two new ones, whose hashes are another controller's: with the revisions and without."""
    pods = (*served("node-0", "node-1", "node-2"), *served("node-3", "node-4", rev="v2"))
    seen = DaemonSetStatus(observed_generation=1, update_revision="v2")
    whole = of_world(world(replace(ds("v2", partition=partition), status=seen), pods=pods))
    blind = replace(whole, revisions=(), unread=(Unread(what="controllerrevisions"),))
    return whole, blind


@pytest.mark.parametrize(("partition", "phase"), [(3, Phase.HELD), (2, Phase.PROGRESSING)])
def test_nodes_stand_as_they_do_with_the_revisions(partition: int, phase: Phase) -> None:
    whole, blind = (survey(one) for one in blinded(partition))
    assert [(one.node, one.state, one.why) for one in blind.rows] == [
        (one.node, one.state, one.why) for one in whole.rows
    ]
    assert blind.phase is whole.phase is phase
    assert blind.board.revision.hash == "v2"


def test_no_number_is_made_up() -> None:
    whole, blind = (survey(one) for one in blinded(3))
    assert (whole.current, whole.previous_number) == (2, 1)
    assert (blind.current, blind.previous_number) == (None, None)
    assert {one.revision for one in blind.rows} == {None}


def test_a_hash_of_an_earlier_spec_is_not_taken_for_this_ones() -> None:
    _, blind = blinded(3)
    edited = replace(blind, daemonset=replace(blind.daemonset, generation=2))
    surveyed = survey(edited)
    assert surveyed.phase is Phase.PENDING
    assert surveyed.board.revision.hash != "v2"
