"""When restarts of containers were first seen."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api.pod import Pod
from controller.daemonset.seen import RestartsSeen
from tests.beds.worlds import NOW, pod

BEGAN = NOW - 500.0
"""When our machine began to count `elapsed`."""


def seen(state: RestartsSeen, *pods: Pod, at: float = NOW) -> dict[str, float]:
    state.look(pods, at - BEGAN)
    return state.since(at, at - BEGAN)


def restarted(said: float, **fields: bool) -> Pod:
    return replace(pod("node-0"), restarted_at=said, **fields)


def test_a_restart_counts_from_when_it_was_first_seen() -> None:
    state, never = RestartsSeen(), pod("node-0")
    assert seen(state, never, at=NOW - 1) == {}
    once = restarted(NOW - 90)
    assert seen(state, once) == {once.uid: NOW}
    assert seen(state, once, at=NOW + 5) == {once.uid: NOW}
    assert seen(state, restarted(NOW - 80), at=NOW + 9) == {once.uid: NOW + 9}, "and the next one"


def test_one_that_is_older_than_this_process_counts_by_its_node_s_word() -> None:
    state = RestartsSeen()
    assert seen(state, restarted(NOW - 90)) == {}
    assert seen(state, restarted(NOW - 90), at=NOW + 5) == {}


def test_a_pod_that_is_updated_in_place_for_the_first_time_was_not_restarted_by_that() -> None:
    state, crashed = RestartsSeen(), restarted(NOW - 9)
    seen(state, at=NOW - 99)
    assert seen(state, crashed) == {crashed.uid: NOW}
    assert seen(state, restarted(NOW - 9, updated_in_place=True), at=NOW + 60) == {crashed.uid: NOW}


def test_nothing_is_kept_of_a_pod_that_is_gone() -> None:
    state = RestartsSeen()
    seen(state, at=NOW - 1)
    seen(state, restarted(NOW - 9))
    assert seen(state, at=NOW + 1) == {}
    assert state.known == {}
