"""What is remembered between passes: refusals, places where writes fail, nodes that are gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus
from controller.api.managed import StatusWriters
from controller.daemonset.answers import Answer
from controller.daemonset.memory import ASK_AGAIN_AT_MOST, ASK_AGAIN_SECONDS, Memories, Memory
from controller.daemonset.rivalry import STAND_BACK_FIRST
from controller.daemonset.trouble import Trouble
from controller.kube.errors import Invalid
from controller.planner.actions import CreatePod, Plan, ProbeTemplate
from controller.planner.world import Predecessor
from controller.runtime.freshness import Reach
from tests.beds.worlds import NOW, ds, revision

REFUSED = Answer(
    action=ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v2")),
    error=Invalid("create", "pods", "no"),
)


def test_a_node_that_is_gone_leaves_nothing_behind() -> None:
    memories = Memories()
    memory = memories.of("uid-1")
    memory.predecessors["node-3"] = Predecessor(uid="p", hash="v1")
    memory.places.failed("node-3", 1.0)
    memories.forget_node("node-3")
    assert (memory.predecessors, memory.places.failing) == ({}, {})


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
    memory.begin(memory.generation, reach)
    cached = replace(ds(), version="3", status=DaemonSetStatus(number_ready=1))
    assert memory.latest_status(cached) == (("3", cached.status) if forgotten else ("12", memory.status))


def test_a_node_that_comes_back_under_its_name_is_not_held_back() -> None:
    memories = Memories()
    for _ in range(2):
        memories.of("uid-1").places.failed("node-3", NOW)
    memories.forget_node("node-3")
    assert memories.of("uid-1").places.held_back(NOW) == {}


def test_a_pause_counts_from_the_first_pass_that_found_it() -> None:
    memory = Memory()
    since = []
    for paused, now in ((True, 10.0), (True, 20.0), (False, 30.0), (True, 40.0), (True, 50.0)):
        memory.decided(ds(paused=paused), Plan(), now)
        since.append(memory.paused_since)
    assert since == [10.0, 10.0, 0.0, 40.0, 40.0]


def test_a_rivals_write_of_before_is_looked_at_only_until_we_have_written() -> None:
    """Later ones are told by the watch; else a write of the same second as ours would be answered for ever."""
    rivals = replace(ds(), status_writers=StatusWriters(ours=NOW - 20, theirs=NOW - 10, other="kruise-manager"))
    assert Memory().stands_back(rivals, NOW, 0.0) == STAND_BACK_FIRST - 10
    memory = Memory(status_version=12)
    assert memory.stands_back(rivals, NOW, 0.0) == 0.0
    assert memory.rivalry is None


def test_a_refused_template_is_asked_about_ever_more_seldom() -> None:
    memory = Memory()
    asked = []
    now = 0.0
    for _ in range(6):
        memory.learn([REFUSED], ds(), now)
        asked.append(memory.ask_at - now)
        now = memory.ask_at
    assert asked == [60.0, 120.0, 240.0, 480.0, ASK_AGAIN_AT_MOST, ASK_AGAIN_AT_MOST]
    assert memory.verdicts == {"v2": "no"}


def test_another_generation_begins_with_a_clean_page() -> None:
    """An edit may be the cure of all that failed."""
    told = Trouble(words="no", gist="no", kind=CreatePod)
    memory = Memory(generation=1, trouble=told)
    for _ in range(2):
        memory.places.failed("node-3", NOW)
    memory.learn([REFUSED], ds(), NOW)
    memory.begin(1, Reach())
    assert (memory.trouble, memory.refusals) == (told, 1)
    memory.begin(2, Reach())
    assert (memory.trouble, memory.refusals) == (None, 0)
    assert memory.places.held_back(NOW) == {}
    assert memory.ask_at == 0.0
    memory.learn([REFUSED], ds(), NOW)
    assert memory.ask_at == NOW + ASK_AGAIN_SECONDS
