"""What is worked out once a generation, and once a revision."""

from __future__ import annotations

from msgspec.structs import replace

from controller.daemonset.state import DaemonSetState, DaemonSetStates
from tests.beds.worlds import ds, revision, template


def test_a_generation_is_compiled_once_and_the_next_one_anew() -> None:
    state = DaemonSetState()
    first = state.compiled_for(ds(generation=1))
    assert state.compiled_for(replace(ds(generation=1), version="99")) is first
    second = state.compiled_for(ds(generation=2))
    assert second is not first
    assert second.renderer(ds(), revision("v1")) is not first.renderer(ds(), revision("v1"))
    assert second.renderer(ds(), revision("v1")) is second.renderer(ds(), revision("v1"))


def test_a_spec_with_which_nothing_can_be_done_is_compiled_to_its_problems() -> None:
    for broken in (ds(nodeSelector="everywhere"), ds(nodeName=5)):
        (problem,) = DaemonSetState().compiled_for(broken).rules.problems
        assert "spec.template" in problem


def test_the_placement_of_a_revision_is_compiled_once_and_forgotten_with_it() -> None:
    state = DaemonSetState()
    first, broken = revision("v1"), revision("v2", of=template("v2", nodeSelector="a"))
    known = state.compiled_for(ds(generation=1)).placements([first, broken])
    assert known[first.uid] is not None
    assert known[broken.uid] is None, "nothing is known of where it runs: nowhere"
    again = state.compiled_for(ds(generation=2)).placements([first, broken, revision("v3")])
    assert again[first.uid] is known[first.uid]
    assert set(state.compiled_for(ds(generation=2)).placements([broken])) == {broken.uid}


def test_nothing_is_kept_of_a_daemonset_that_is_gone() -> None:
    states = DaemonSetStates()
    before = states.of(ds().uid).compiled_for(ds())
    states.forget(ds().uid)
    assert states.of(ds().uid).compiled_for(ds()) is not before
