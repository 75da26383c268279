"""What is remembered between passes: refusals, places where writes fail, nodes that are gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus
from controller.api.status_writers import StatusWriters
from controller.daemonset.answers import Answer
from controller.daemonset.dry_run_results import ASK_AGAIN_AT_MOST, ASK_AGAIN_SECONDS
from controller.daemonset.own_status import OwnStatus
from controller.daemonset.state import DaemonSetState, DaemonSetStates
from controller.daemonset.status_conflict import STAND_BACK_FIRST
from controller.daemonset.write_failure import WriteFailure
from controller.kube.errors import Invalid
from controller.planner.actions import CreatePod, ProbeTemplate
from controller.planner.place import Place
from controller.planner.plan import Plan
from controller.planner.world import FormerPod, Predecessor
from controller.runtime.freshness import Reach
from tests.beds.verdicts import refusing
from tests.beds.worlds import NOW, ds, revision

REFUSED = Answer(
    action=ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v2")),
    error=Invalid("create", "pods", "no"),
)


def test_a_node_that_is_gone_leaves_nothing_behind() -> None:
    states = DaemonSetStates()
    state = states.of("uid-1")
    state.predecessors["node-3"] = Predecessor(uid="p", pod=FormerPod(hash="v1"))
    state.places.failed(Place.of_node("node-3"), 1.0)
    states.forget_node("node-3")
    assert (state.predecessors, state.places.failing) == ({}, {})


def test_our_own_status_counts_until_the_cache_shows_it_or_a_later_one() -> None:
    own = OwnStatus()
    cached = replace(ds(), version="10", status=DaemonSetStatus(number_ready=1))
    assert own.latest(cached) == ("10", cached.status)
    own.wrote(DaemonSetStatus(number_ready=2), "12", NOW)
    assert own.latest(cached) == ("12", own.status)
    for version in ("12", "13"):
        shown = replace(cached, version=version)
        assert own.latest(shown) == (version, cached.status)


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
    state = DaemonSetState()
    own = state.status_writer.own
    own.wrote(DaemonSetStatus(number_ready=2), "12", 5.0)
    state.begin(state.generation, reach)
    cached = replace(ds(), version="3", status=DaemonSetStatus(number_ready=1))
    assert own.latest(cached) == (("3", cached.status) if forgotten else ("12", own.status))


def test_a_node_that_comes_back_under_its_name_is_not_held_back() -> None:
    states = DaemonSetStates()
    for _ in range(2):
        states.of("uid-1").places.failed(Place.of_node("node-3"), NOW)
    states.forget_node("node-3")
    assert states.of("uid-1").places.held_back(NOW) == {}


def test_a_pause_counts_from_the_first_pass_that_found_it() -> None:
    state = DaemonSetState()
    since = []
    for paused, now in ((True, 10.0), (True, 20.0), (False, 30.0), (True, 40.0), (True, 50.0)):
        state.decided(ds(paused=paused), Plan(), now)
        since.append(state.paused_since)
    assert since == [10.0, 10.0, 0.0, 40.0, 40.0]


def test_a_rivals_write_of_before_is_looked_at_only_until_we_have_written() -> None:
    """Later ones are told by the watch; else a write of the same second as ours would be answered for ever."""
    rivals = replace(ds(), status_writers=StatusWriters(ours=NOW - 20, theirs=NOW - 10, other="kruise-manager"))
    assert DaemonSetState().stands_back(rivals, NOW, 0.0) == STAND_BACK_FIRST - 10
    state = DaemonSetState()
    state.status_writer.own.version = 12
    assert state.stands_back(rivals, NOW, 0.0) == 0.0
    assert state.status_conflict is None


def test_a_refused_template_is_asked_about_ever_more_seldom() -> None:
    state = DaemonSetState()
    asked = []
    now = 0.0
    for _ in range(6):
        state.learn([REFUSED], ds(), now)
        asked.append(state.verdicts.ask_at - now)
        now = state.verdicts.ask_at
    assert asked == [60.0, 120.0, 240.0, 480.0, ASK_AGAIN_AT_MOST, ASK_AGAIN_AT_MOST]
    assert state.verdicts.by_revision == refusing("v2")


def test_another_generation_begins_with_a_clean_page() -> None:
    """An edit may be the cure of all that failed."""
    told = WriteFailure(words="no", gist="no", kind=CreatePod)
    state = DaemonSetState(generation=1, write_failure=told)
    for _ in range(2):
        state.places.failed(Place.of_node("node-3"), NOW)
    state.learn([REFUSED], ds(), NOW)
    state.begin(1, Reach())
    assert (state.write_failure, state.verdicts.refusals) == (told, 1)
    state.begin(2, Reach())
    assert (state.write_failure, state.verdicts.refusals) == (None, 0)
    assert state.places.held_back(NOW) == {}
    assert state.verdicts.ask_at == 0.0
    state.learn([REFUSED], ds(), NOW)
    assert state.verdicts.ask_at == NOW + ASK_AGAIN_SECONDS
