"""Pods that say they are ready only later, by a clock that is ahead or after ours was set; and when restarts of
containers were first seen."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from controller.api.pod import Pod
from controller.daemonset.clock_skew import ReadySeen, RestartsSeen
from tests.beds.worlds import NOW, pod

BEGAN = NOW - 500.0
"""When our machine began to count `elapsed`."""


def seen(state: ReadySeen, *pods: Pod, at: float = NOW, ahead: float = 0.0) -> dict[str, float]:
    """Since when they are ready, in true time, where v2 is current; by so many seconds our clock is ahead of that."""
    state.look(pods, {"v2"}, at + ahead, at - BEGAN)
    return {uid: since - ahead for uid, since in state.since(at + ahead, at - BEGAN).items()}


def looked() -> ReadySeen:
    """Nobody was ready yet at the first look."""
    state = ReadySeen()
    seen(state, at=NOW - 1)
    return state


def test_a_ready_pod_of_a_node_whose_clock_is_ahead_counts_from_when_it_was_first_seen() -> None:
    state = looked()
    ahead, right = pod("node-0", ready=NOW + 90), pod("node-1", ready=NOW - 1)
    assert seen(state, ahead, right) == {ahead.uid: NOW}
    assert seen(state, ahead, right, at=NOW + 100) == {ahead.uid: NOW}, "also once our clock has caught up"


def test_at_the_first_look_such_a_pod_counts_from_its_creation() -> None:
    """After a restart of the controller nobody knows better, and the old pods must not all seem unavailable."""
    ahead = pod("node-0", ready=NOW + 90, created=NOW - 3600)
    assert seen(ReadySeen(), ahead) == {ahead.uid: NOW - 3600}


def test_at_the_first_look_with_a_clock_that_is_behind_old_pods_were_always_ready_and_current_ones_are_new() -> None:
    old, current = (pod("node-0", rev, ready=NOW - 90, created=NOW - 100) for rev in ("v1", "v2"))
    assert seen(ReadySeen(), old, current, ahead=-3600) == {old.uid: -inf, current.uid: NOW}


def test_a_clock_that_is_set_makes_no_pod_ready_later_or_sooner() -> None:
    state = looked()
    old, new = pod("node-0", ready=NOW - 90), pod("node-1", ready=NOW + 7)
    assert seen(state, old) == {}, "its own word counts"
    assert seen(state, old, at=NOW + 5, ahead=-3600) == {old.uid: NOW - 90}
    assert seen(state, old, new, at=NOW + 8, ahead=-3600) == {old.uid: NOW - 90, new.uid: NOW + 8}
    assert seen(state, old, new, at=NOW + 9) == {old.uid: NOW - 90, new.uid: NOW + 8}


def test_a_pod_that_becomes_ready_again_or_goes_is_seen_anew() -> None:
    state = looked()
    ahead = pod("node-0", ready=NOW + 90)
    seen(state, ahead)
    again = replace(ahead, ready_since=NOW + 95)
    assert seen(state, again, at=NOW + 5) == {ahead.uid: NOW + 5}
    assert seen(state, replace(ahead, ready=False, ready_since=None), at=NOW + 6) == {}
    assert state.known == {}, "nothing is kept of a pod that is not ready any more"


def restarts(state: RestartsSeen, *pods: Pod, at: float = NOW) -> dict[str, float]:
    state.look(pods, at - BEGAN)
    return state.since(at, at - BEGAN)


def restarted(said: float, **fields: bool) -> Pod:
    return replace(pod("node-0"), restarted_at=said, **fields)


def test_a_restart_counts_from_when_it_was_first_seen() -> None:
    state, never = RestartsSeen(), pod("node-0")
    assert restarts(state, never, at=NOW - 1) == {}
    once = restarted(NOW - 90)
    assert restarts(state, once) == {once.uid: NOW}
    assert restarts(state, once, at=NOW + 5) == {once.uid: NOW}
    assert restarts(state, restarted(NOW - 80), at=NOW + 9) == {once.uid: NOW + 9}, "and the next one"


def test_one_that_is_older_than_this_process_counts_by_its_node_s_word() -> None:
    state = RestartsSeen()
    assert restarts(state, restarted(NOW - 90)) == {}
    assert restarts(state, restarted(NOW - 90), at=NOW + 5) == {}


def test_a_pod_that_is_updated_in_place_for_the_first_time_was_not_restarted_by_that() -> None:
    state, crashed = RestartsSeen(), restarted(NOW - 9)
    restarts(state, at=NOW - 99)
    assert restarts(state, crashed) == {crashed.uid: NOW}
    assert restarts(state, restarted(NOW - 9, updated_in_place=True), at=NOW + 60) == {crashed.uid: NOW}


def test_nothing_is_kept_of_a_pod_that_is_gone() -> None:
    state = RestartsSeen()
    restarts(state, at=NOW - 1)
    restarts(state, restarted(NOW - 9))
    assert restarts(state, at=NOW + 1) == {}
    assert state.known == {}
