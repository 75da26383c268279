"""What is remembered between passes: refusals, places where writes fail, nodes that are gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus
from controller.api.managed import StatusWriters
from controller.daemonset.memory import (
    ASK_AGAIN_AT_MOST,
    ASK_AGAIN_SECONDS,
    FAILING_AT_MOST,
    FAILING_KEPT,
    Memories,
    Memory,
)
from controller.daemonset.rivalry import STAND_BACK_FIRST
from controller.daemonset.trouble import Trouble
from controller.planner.actions import CreatePod
from controller.planner.world import Predecessor
from controller.runtime.freshness import Reach
from tests.beds.worlds import NOW, ds, pod, revision, template


def test_a_place_is_left_alone_from_its_second_failure_on_and_longer_each_time() -> None:
    memory = Memory()
    memory.failed("node-3", 100.0)
    assert memory.held_back(100.0) == {}, "the first failure may be chance: it is tried again at once"
    memory.failed("node-3", 100.0)
    assert memory.held_back(100.0) == {"node-3": 101.0}
    memory.failed("node-3", 101.0)
    assert memory.held_back(102.5) == {"node-3": 103.0}
    assert memory.held_back(103.0) == {}
    for _ in range(20):
        memory.failed("node-3", 200.0)
    assert memory.held_back(200.0) == {"node-3": 200.0 + FAILING_AT_MOST}


def test_a_refused_template_is_asked_about_ever_more_seldom() -> None:
    memory = Memory()
    asked = []
    now = 0.0
    for _ in range(6):
        memory.refused("v2", "no", now, perhaps_of_node=False)
        asked.append(memory.ask_at - now)
        now = memory.ask_at
    assert asked == [60.0, 120.0, 240.0, 480.0, ASK_AGAIN_AT_MOST, ASK_AGAIN_AT_MOST]
    assert memory.verdicts == {"v2": "no"}


def test_the_placement_of_a_revision_is_compiled_once_and_forgotten_with_it() -> None:
    memory = Memory()
    first, broken = revision("v1"), revision("v2", of=template("v2", nodeSelector="a"))
    compiled = memory.placements_of([first, broken])
    assert compiled[first.uid] is not None
    assert compiled[broken.uid] is None, "nothing is known of where it runs: nowhere"
    again = memory.placements_of([first, broken, revision("v3")])
    assert again[first.uid] is compiled[first.uid]
    assert set(memory.placements_of([broken])) == {broken.uid}


def test_a_node_that_is_gone_leaves_nothing_behind() -> None:
    memories = Memories()
    memory = memories.of("uid-1")
    memory.predecessors["node-3"] = Predecessor(uid="p", hash="v1")
    memory.failed("node-3", 1.0)
    memories.forget_node("node-3")
    assert (memory.predecessors, memory.failing) == ({}, {})


def looked() -> Memory:
    """Nobody was ready yet at the first look."""
    memory = Memory()
    memory.ready_seen([], NOW - 1)
    return memory


def test_a_ready_pod_of_a_node_whose_clock_is_ahead_counts_from_when_it_was_first_seen() -> None:
    memory = looked()
    ahead, right = pod("node-0", ready=NOW + 90), pod("node-1", ready=NOW - 1)
    assert memory.ready_seen([ahead, right], NOW) == {ahead.uid: NOW}
    assert memory.ready_seen([ahead, right], NOW + 100) == {ahead.uid: NOW}, "also once our clock has caught up"


def test_at_the_first_look_such_a_pod_counts_from_its_creation() -> None:
    """After a restart of the controller nobody knows better, and the old pods must not all seem unavailable."""
    ahead = pod("node-0", ready=NOW + 90, created=NOW - 3600)
    assert Memory().ready_seen([ahead], NOW) == {ahead.uid: NOW - 3600}


def test_a_pod_that_becomes_ready_again_or_goes_is_seen_anew() -> None:
    memory = looked()
    ahead = pod("node-0", ready=NOW + 90)
    memory.ready_seen([ahead], NOW)
    again = replace(ahead, ready_since=NOW + 95)
    assert memory.ready_seen([again], NOW + 5) == {ahead.uid: NOW + 5}
    assert memory.ready_seen([replace(ahead, ready=False, ready_since=None)], NOW + 6) == {}
    assert memory.future_ready == {}, "nothing is kept of a pod that is not ready any more"


def test_our_own_status_counts_until_the_cache_shows_it_or_a_later_one() -> None:
    memory = Memory()
    cached = replace(ds(), version="10", status=DaemonSetStatus(number_ready=1))
    assert memory.latest_status(cached) == ("10", cached.status)
    memory.status, memory.status_version = DaemonSetStatus(number_ready=2), 12
    assert memory.latest_status(cached) == ("12", memory.status)
    for version in ("12", "13"):
        shown = replace(cached, version=version)
        assert memory.latest_status(shown) == (version, cached.status)


@pytest.mark.parametrize(
    ("reach", "forgotten"),
    [
        (Reach(version=11, listed=4.0), False),
        (Reach(version=12, listed=4.0), True),
        (Reach(version=5, listed=6.0), True),
    ],
    ids=["it has not come so far", "it has", "it was listed since: the storage was restored from a backup"],
)
def test_our_own_status_is_forgotten_once_the_cache_knows_better(reach: Reach, forgotten: bool) -> None:
    memory = Memory(status=DaemonSetStatus(number_ready=2), status_version=12, status_at=5.0)
    memory.shown(reach)
    cached = replace(ds(), version="3", status=DaemonSetStatus(number_ready=1))
    assert memory.latest_status(cached) == (("3", cached.status) if forgotten else ("12", memory.status))


def test_another_generation_begins_without_trouble() -> None:
    memory = Memory()
    memory.rules_of(ds(generation=1))
    memory.trouble = told = Trouble(words="no", gist="no", kind=CreatePod)
    memory.rules_of(ds(generation=1))
    assert memory.trouble == told
    memory.rules_of(ds(generation=2))
    assert memory.trouble is None


def test_another_generation_begins_with_a_clean_page() -> None:
    """An edit may be the cure of all that failed."""
    memory = Memory()
    old = ds("v1", generation=1)
    memory.rules_of(old)
    for _ in range(2):
        memory.failed("node-3", NOW)
    memory.refused("v1", "no", NOW, perhaps_of_node=False)
    mold = memory.mold_of(old, revision("v1"))
    assert memory.mold_of(old, revision("v1")) is mold
    new = ds("v1", generation=2)
    memory.rules_of(new)
    assert memory.held_back(NOW) == {}
    assert memory.ask_at == 0.0
    memory.refused("v2", "no", NOW, perhaps_of_node=False)
    assert memory.ask_at == NOW + ASK_AGAIN_SECONDS
    assert memory.mold_of(new, revision("v1")) is not mold


def test_of_many_places_that_fail_those_that_wait_are_kept() -> None:
    memory = Memory()
    for _ in range(2):
        memory.failed("node-that-waits", NOW)
    for number in range(FAILING_KEPT):
        memory.failed(f"node-{number}", NOW)
    memory.failed("one-more", NOW + 0.5)
    assert sorted(memory.failing) == ["node-that-waits", "one-more"]


def test_a_node_that_comes_back_under_its_name_is_not_held_back() -> None:
    memories = Memories()
    for _ in range(2):
        memories.of("uid-1").failed("node-3", NOW)
    memories.forget_node("node-3")
    assert memories.of("uid-1").held_back(NOW) == {}


def test_a_pause_counts_from_the_first_pass_that_found_it() -> None:
    memory = Memory()
    since = []
    for paused, now in ((True, 10.0), (True, 20.0), (False, 30.0), (True, 40.0), (True, 50.0)):
        memory.saw(ds(paused=paused), None, now)
        since.append(memory.paused_since)
    assert since == [10.0, 10.0, 0.0, 40.0, 40.0]


def test_a_rivals_write_of_before_is_looked_at_only_until_we_have_written() -> None:
    """Later ones are told by the watch; else a write of the same second as ours would be answered for ever."""
    rivals = replace(ds(), status_writers=StatusWriters(ours=NOW - 20, theirs=NOW - 10, other="kruise-manager"))
    assert Memory().stands_back(rivals, NOW, 0.0) == STAND_BACK_FIRST - 10
    memory = Memory(status_version=12)
    assert memory.stands_back(rivals, NOW, 0.0) == 0.0
    assert memory.rivalry is None
