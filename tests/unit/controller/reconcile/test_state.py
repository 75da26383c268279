"""What is remembered between passes, and what is worked out once a generation or a revision."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSetStatus, Rollout
from controller.api.objects import StatusWriters, rfc3339
from controller.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, UnknownFields, UnknownOutcome
from controller.planner.actions import CreatePod, ProbeTemplate, ResizePod
from controller.planner.plan import Plan
from controller.planner.world import (
    POD_QUOTA,
    Accepted,
    BackoffKey,
    ClockOffset,
    FormerPod,
    Predecessor,
    TemplateRefused,
)
from controller.reconcile.caches import Cached
from controller.reconcile.first_seen import SoakClock
from controller.reconcile.state import DaemonSetState, DaemonSetStates, PendingWrite
from controller.reconcile.status_writer import FIRST_YIELD, OwnStatus
from controller.reconcile.write_outcomes import (
    DRY_RUN_RETRY_SECONDS,
    LONGEST_DRY_RUN_DELAY,
    ActionResult,
    TemplateVerdicts,
    WriteFailure,
)
from controller.runtime.clock import Instant
from controller.runtime.expectations import CacheProgress
from tests.beds.worlds import NOW, ds, node, pod, refusing, revision, template

REFUSED = ActionResult(
    action=ProbeTemplate(node="node-0", name="demo-dry", revision=revision("v2")),
    error=Invalid("create", "pods", "no"),
)


def test_a_node_that_is_gone_leaves_nothing_behind() -> None:
    states = DaemonSetStates()
    state = states.of("uid-1")
    state.predecessors["node-3"] = Predecessor(uid="p", pod=FormerPod(hash="v1"))
    for key in (BackoffKey("node", "node-3"), BackoffKey("node", "node-4"), BackoffKey("object", "node-3")):
        state.write_backoff.record_failure(key, 1.0)
    state.pending_names["node-3"] = "demo-x"
    state.node_backoff.created("node-3", "demo-x", 1.0)
    state.node_backoff.ended_on["node-3"] = 1.0
    states.forget_nodes({"node-3", "node-9"})
    assert (state.predecessors, state.pending_names) == ({}, {})
    assert (state.node_backoff.created_on, state.node_backoff.ended_on) == ({}, {})
    assert [key.name for key in state.write_backoff.failing] == ["node-4", "node-3"], "of this node alone"


@pytest.mark.parametrize(("gone", "orphaned"), [(True, False), (False, False), (False, True)])
def test_an_answer_about_what_is_gone_is_kept_no_longer_than_a_pass(gone: bool, orphaned: bool) -> None:
    """An answer may come after the watch has shown that its pod or node is gone."""
    there = () if gone else (pod("node-0"),)
    uid, names = pod("node-0").uid, () if gone else (node("node-0"),)
    cached = Cached(
        reach=CacheProgress(),
        nodes=names,
        pods=() if orphaned else there,
        orphans=there if orphaned else (),
        revisions=(),
        orphan_revisions=(),
        unreadable="",
    )
    state = DaemonSetState()
    about = [
        BackoffKey("node", "node-0"),
        BackoffKey("object", uid),
        BackoffKey("gates", uid),
        BackoffKey("label", uid),
    ]
    others = [BackoffKey("template", "v2"), BackoffKey("revision"), POD_QUOTA]
    for place in (*about, BackoffKey("cancel", uid), *others):
        state.write_backoff.record_failure(place, 1.0)
        state.write_backoff.record_inconclusive(place)
    made = CreatePod(node="node-0", name="demo-1", revision=revision("v2"))
    state.pending_writes = {made.backoff_key: PendingWrite(action=made, until=9.0)}
    state.refused_resizes, state.pending_names = {uid: "no"}, {"node-0": "demo-1"}
    state.unmapped = {uid: "no"}
    state.predecessors = {"node-0": Predecessor(uid="p")}
    state.forget_gone(cached, 2.0)
    left = [*state.pending_writes.values(), *state.refused_resizes, *state.pending_names, *state.predecessors]
    assert len([*left, *state.unmapped]) == (0 if gone else 5)
    kept = {*others} if gone else {*about, BackoffKey("cancel", uid), *others}
    assert (set(state.write_backoff.failing), set(state.write_backoff.inconclusive)) == (kept, kept)
    state.forget_gone(cached, 9.0)
    assert state.pending_writes == {}, "by now it is done or lost"


def test_our_own_status_counts_until_the_cache_shows_it_or_a_later_one() -> None:
    own = OwnStatus[DaemonSetStatus]()
    cached = replace(ds(), version="10", status=DaemonSetStatus(number_ready=1))
    assert own.latest(cached.version, cached.status) == ("10", cached.status)
    own.wrote(DaemonSetStatus(number_ready=2), "12", NOW)
    assert own.latest(cached.version, cached.status) == ("12", own.status)
    for version in ("12", "13"):
        shown = replace(cached, version=version)
        assert own.latest(shown.version, shown.status) == (version, cached.status)


@pytest.mark.parametrize(
    ("version", "listed", "forgotten"),
    [
        pytest.param(11, 4.0, False, id="it has not come so far"),
        pytest.param(12, 4.0, True, id="it has"),
        pytest.param(5, 6.0, True, id="it was listed since: the storage was restored from a backup"),
    ],
)
def test_our_own_status_is_forgotten_once_the_cache_knows_better(
    version: int, listed: float, forgotten: bool
) -> None:
    state = DaemonSetState()
    own = state.status_writer.own
    own.wrote(DaemonSetStatus(number_ready=2), "12", 5.0)
    state.begin(ds(generation=state.generation), CacheProgress(version=version, listed=listed))
    cached = replace(ds(), version="3", status=DaemonSetStatus(number_ready=1))
    assert own.latest(cached.version, cached.status) == (("3", cached.status) if forgotten else ("12", own.status))


def test_a_pause_counts_from_the_first_pass_that_found_it() -> None:
    state = DaemonSetState()
    since = []
    for paused, now in ((True, 10.0), (True, 20.0), (False, 30.0), (True, 40.0), (True, 50.0)):
        state.after_plan(ds(paused=paused), Plan(), Instant(now, 0.0), ClockOffset())
        since.append(state.paused_since)
    assert since == [10.0, 10.0, 0.0, 40.0, 40.0]


@pytest.mark.parametrize(
    ("ago", "left"),
    [
        pytest.param(20.0, FIRST_YIELD - 20, id="the rest of the minute"),
        pytest.param(60.0, 0.0, id="taken over at once"),
        pytest.param(-4000.0, FIRST_YIELD, id="the server's clock is ahead"),
    ],
)
def test_another_controllers_last_write_counts_until_we_have_written(ago: float, left: float) -> None:
    """Later ones come by the watch; else a write of the same second as ours would be answered for ever."""
    rivals = replace(
        ds(), status_writers=StatusWriters(ours=NOW - ago - 10, theirs=NOW - ago, other="kruise-manager")
    )
    assert DaemonSetState().seconds_yielded(rivals, Instant(NOW, 100.0)) == left
    state = DaemonSetState()
    state.status_writer.own.version = 12
    assert state.seconds_yielded(rivals, Instant(NOW, 100.0)) == 0.0


def test_a_refused_template_is_asked_about_ever_more_seldom() -> None:
    state, asked, now = DaemonSetState(), [], 0.0
    for _ in range(6):
        state.learn(REFUSED, ds(), now)
        asked.append(state.verdicts.retry_dry_run_at - now)
        now = state.verdicts.retry_dry_run_at
    assert asked == [60.0, 120.0, 240.0, 480.0, LONGEST_DRY_RUN_DELAY, LONGEST_DRY_RUN_DELAY]
    assert state.verdicts.known(now) == refusing("v2")


def test_an_acceptance_is_trusted_for_a_minute_and_one_generation() -> None:
    verdicts = TemplateVerdicts()
    verdicts.learn("v1", None, 100.0)
    assert verdicts.known(159.9) == {"v1": Accepted()}
    assert verdicts.known(160.0) == {}
    verdicts.created("v1", 170.0)
    assert verdicts.known(229.9) == {"v1": Accepted()}, "a pod that was created says the same"
    verdicts.created("v2", 229.9)
    assert verdicts.known(230.0) == {}, "it says nothing of another revision"
    verdicts.reset()
    assert verdicts.known(229.9) == {}
    verdicts.created("v1", 230.0)
    assert verdicts.known(230.0) == {}, "each generation is asked about"


def test_another_generation_begins_with_a_clean_page() -> None:
    """An edit may be the cure of all that failed."""
    told = WriteFailure(message="no", without_name="no", kind=CreatePod)
    state = DaemonSetState(generation=1, write_failure=told)
    for _ in range(2):
        state.write_backoff.record_failure(BackoffKey("node", "node-3"), NOW)
    state.learn(REFUSED, ds(), NOW)
    state.refused_resizes, state.unmapped, state.no_resize = {"uid": "no"}, {"uid": "no"}, "no pods/resize"
    state.reverted_writes.reverted_externally.add(BackoffKey("node", "node-3"))
    state.node_backoff.created("node-3", "demo-x", NOW)
    state.begin(ds(generation=1), CacheProgress())
    assert (state.write_failure, state.verdicts.refusals) == (told, 1)
    state.begin(ds(generation=2), CacheProgress())
    assert (state.write_failure, state.verdicts.refusals) == (None, 0)
    assert state.write_backoff.in_backoff(NOW) == {}
    assert (state.refused_resizes, state.unmapped, state.no_resize) == ({}, {}, "")
    assert state.reverted_writes.reverted_externally == set()
    assert state.node_backoff.created_on == {}
    assert state.verdicts.retry_dry_run_at == 0.0
    state.learn(REFUSED, ds(generation=2), NOW)
    assert state.verdicts.retry_dry_run_at == NOW + DRY_RUN_RETRY_SECONDS
    state.learn(REFUSED, ds(generation=1), NOW + DRY_RUN_RETRY_SECONDS)
    assert state.verdicts.refusals == 1, "an answer to the generation before"
    lost = UnknownOutcome("create", "pods", "no answer")
    made = CreatePod(node="node-0", name="demo-1", revision=revision("v1"))
    state.learn(ActionResult(action=made, error=lost, retry_error=lost), ds(generation=1), NOW)
    assert set(state.pending_writes) == {made.backoff_key}, "but what may be done counts"
    lost_before = dict(state.pending_writes)
    with state.under_way(made):
        assert state.pending_writes != lost_before
    assert state.pending_writes == lost_before, "a retry does not forget it"


def test_a_generation_is_compiled_once_and_the_next_one_anew() -> None:
    state = DaemonSetState()
    first = state.compiled_for(ds(generation=1))
    assert state.compiled_for(replace(ds(generation=1), version="99")) is first
    second = state.compiled_for(ds(generation=2))
    assert second is not first
    back = replace(ds(generation=1), rolled_back="v9")
    assert state.compiled_for(back) is state.compiled_for(back) is not second
    assert state.compiled_for(replace(back, generation=2)) is not state.compiled_for(back)
    assert second.renderer(ds(), revision("v1")) is not first.renderer(ds(), revision("v1"))
    assert second.renderer(ds(), revision("v1")) is second.renderer(ds(), revision("v1"))


def test_a_generation_that_a_restored_server_counts_again_is_compiled_anew() -> None:
    state = DaemonSetState()
    state.begin(ds("v1", generation=3), CacheProgress())
    first = state.compiled
    state.write_failure = WriteFailure(message="no", without_name="no", kind=CreatePod)
    state.begin(ds("v2", generation=3), CacheProgress())
    assert state.compiled is not first
    assert state.write_failure is None


def test_a_spec_with_which_nothing_can_be_done_is_compiled_to_its_problems() -> None:
    for broken in (ds(nodeSelector="everywhere"), ds(nodeName=5)):
        (problem,) = DaemonSetState().compiled_for(broken).rules.problems
        assert "spec.template" in problem


def test_a_revisions_placement_is_compiled_once_and_forgotten_with_it() -> None:
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


def test_a_lost_pod_makes_room_in_a_quota_and_a_stray_was_none() -> None:
    state, there = DaemonSetState(strays={pod("node-1").uid}), pod("node-0")
    state.write_backoff.record_failure(POD_QUOTA, NOW)
    state.lost(there, NOW)
    assert state.write_backoff.failing == {}
    state.lost(pod("node-1"), NOW)
    assert state.predecessors["node-1"] == Predecessor(uid=pod("node-1").uid)
    assert set(state.node_backoff.ended_on) == {"node-0"}


def test_several_creates_refused_at_once_lengthen_the_wait_once() -> None:
    state, new = DaemonSetState(), revision("v2")
    refused = [
        ActionResult(
            action=CreatePod(node=f"node-{number}", name=f"demo-{number}", revision=new, strict=True),
            error=UnknownFields("create", "pods", 'strict decoding error: unknown field "spec.hostnetwork"'),
        )
        for number in range(5)
    ]
    for one in refused:
        state.learn(one, ds("v2"), 100.0)
    assert state.verdicts.retry_dry_run_at == 100.0 + DRY_RUN_RETRY_SECONDS
    for one in refused:
        state.learn(one, ds("v2"), 200.0)
    assert state.verdicts.retry_dry_run_at == 200.0 + 2 * DRY_RUN_RETRY_SECONDS
    verdict = state.verdicts.known(200.0)["v2"]
    assert isinstance(verdict, TemplateRefused)
    assert verdict.message.startswith("unknown field spec.template.spec.hostnetwork (")


@pytest.mark.parametrize(
    ("error", "refused", "unable"), [(Conflict, False, False), (Forbidden, True, False), (NotFound, True, True)]
)
def test_what_an_error_says_of_a_resize(error: type[ApiError], refused: bool, unable: bool) -> None:
    state, there = DaemonSetState(), pod("node-0")
    action, said = ResizePod(pod=there.ref, node="node-0"), error("patch", "pods", "no")
    state.learn(ActionResult(action=action, error=said, retry_error=said), ds(), NOW)
    assert (there.uid in state.refused_resizes, bool(state.no_resize)) == (refused, unable)
    state.learn(ActionResult(action=action), ds(), NOW)
    assert state.refused_resizes == {}


@pytest.mark.parametrize(("ahead", "ago"), [(0.0, 20.0), (30.0, 20.0), (-5.0, 15.0), (-30.0, 0.0)])
def test_a_step_reached_before_this_process_counts_by_the_earlier_clock(ahead: float, ago: float) -> None:
    soak, now = SoakClock(), Instant(NOW, 100.0)
    record = Rollout(step=1, step_reached_time=rfc3339(NOW - 20))
    soak.observe(DaemonSetStatus(update_revision="v2", rollout=record), now, ClockOffset(ahead=ahead))
    assert soak.since(now) == NOW - ago
    later = replace(record, step=2, step_reached_time=rfc3339(NOW + 1))
    soak.record("v2", later, now, ClockOffset())
    assert soak.since(now) == NOW + 1, "rounded up, as it is recorded"
