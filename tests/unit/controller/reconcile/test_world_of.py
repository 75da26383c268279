"""How memory and caches become the world of one pass, and from when on pods count as ready or restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.objects import Key
from controller.api.pod import Pod
from controller.inplace.change import InPlaceChange
from controller.kube.decode import Malformed
from controller.planner.actions import (
    Action,
    AdoptPod,
    CreatePod,
    DeletePod,
    DeleteReason,
    PrepareDelete,
    UpdateInPlace,
)
from controller.planner.world import BackoffKey, ClockOffset, FormerPod, Predecessor, World
from controller.reconcile.caches import Caches
from controller.reconcile.first_seen import ReadyTimes, SeenTimes
from controller.reconcile.reconcile import MOST_RECREATED, ImagePulls, world_of
from controller.reconcile.state import DaemonSetState, PendingWrite
from controller.runtime.clock import Instant
from controller.settings import FeatureGates
from tests.beds.stores import caches_of
from tests.beds.worlds import NOW, OURS, ds, pod, revision

BEGAN = NOW - 500.0
"""When our machine began to count `elapsed`."""


def caches_with(
    pods: Iterable[Pod] = (), *, malformed: Key | None = None, daemonset: DaemonSet | None = None
) -> Caches:
    caches = caches_of([daemonset or ds()], pods)
    if malformed is not None:
        caches.pods.writers[""].apply(Malformed(key=malformed, version="2", reason="too deep"))
    return caches


AT = Instant(NOW, NOW)


def world_seen(caches: Caches, state: DaemonSetState | None = None, at: Instant = AT) -> World:
    (daemonset,) = caches.daemonsets.values()
    cached, state = caches.snapshot(daemonset), state or DaemonSetState()
    return world_of(daemonset, cached, state, at, fresh=True, image_pulls=ImagePulls(), server_offset=ClockOffset())


def begun(action: Action) -> DaemonSetState:
    """A pass has begun this action."""
    return DaemonSetState(pending_writes={action.backoff_key: PendingWrite(action=action)})


def changeable(held: object) -> Iterator[object]:
    """Every dictionary, list and set in `held`."""
    match held:
        case dict() | list() | set():
            yield held
        case msgspec.Struct():
            for name in type(held).__struct_fields__:
                yield from changeable(getattr(held, name))
        case object(__dict__=fields):
            for one in fields.values():
                yield from changeable(one)


def test_a_world_holds_nothing_of_the_state_that_is_changed_later() -> None:
    """A plan is a function of a value: what answers teach meanwhile must not reach it."""
    state = DaemonSetState()
    kept = {id(one) for one in changeable(state)}
    found = world_seen(caches_with([pod("node-0")]), state)
    assert len(kept) > 8
    assert [name for name in World.__struct_fields__ if id(getattr(found, name)) in kept] == []


@pytest.mark.parametrize(("remembered", "written"), [(3, 1), (1, 3), (3, None)])
def test_collisions_are_counted_on_from_the_higher_number(remembered: int, written: int | None) -> None:
    """A restart forgets them, and the cache may lag."""
    counted = replace(ds(), status=DaemonSetStatus(collision_count=written))
    found = world_seen(caches_with(daemonset=counted), DaemonSetState(collisions=remembered))
    assert found.collisions == 3


@pytest.mark.parametrize(
    ("namespace", "name", "told"),
    [
        ("default", "demo-x", True),
        ("elsewhere", "demo-x", False),
        ("default", "demo-two-x", False),
        ("default", "demo", False),
    ],
)
def test_a_pod_that_cannot_be_read_is_reported_where_it_may_belong(namespace: str, name: str, told: bool) -> None:
    assert bool(world_seen(caches_with(malformed=Key(namespace, name))).unreadable) is told


def test_what_the_server_has_not_answered_is_awaited_and_left_alone() -> None:
    leaving = pod("node-0")
    asked = DeletePod(pod=leaving.ref, node="node-0", why=DeleteReason.OUTDATED)
    found = world_seen(caches_with([leaving]), begun(asked))
    assert found.in_flight == frozenset({BackoffKey("object", leaving.uid)})
    assert found.in_backoff == {BackoffKey("object", leaving.uid): inf}
    assert [one.terminating for one in found.pods] == [True], "it may have been deleted"


def test_a_pod_that_may_be_there_counts_as_there() -> None:
    made = CreatePod(node="node-1", name="demo-1", revision=revision("v2"))
    left = pod("node-0")
    asked = DeletePod(pod=left.ref, node="node-0", why=DeleteReason.OUTDATED)
    state = begun(made)
    state.pending_writes[asked.backoff_key] = PendingWrite(action=asked)
    state.predecessors = {"node-1": Predecessor(uid="uid-before", pod=FormerPod(hash="v1"))}
    found = world_seen(caches_with([left]), state)
    assert (found.pending_creates, found.pending_deletes) == ({"node-1": "v2"}, frozenset({"node-0"}))
    assert found.predecessors == {
        "node-1": Predecessor(uid="uid-before", pod=FormerPod(hash="v2", created=NOW)),
    }, "it gets the name that it had, and is of the new revision"


def test_an_orphan_that_may_have_been_adopted_is_ours() -> None:
    orphan = pod("node-0", owner="")
    asked = AdoptPod(pod=orphan.ref, owners=0)
    found = world_seen(caches_with([orphan]), begun(asked))
    assert ([one.owner_uid for one in found.pods], found.orphans) == ([OURS], ())


def test_moments_of_the_state_are_told_by_the_clock() -> None:
    state, key = DaemonSetState(), BackoffKey("label", "uid")
    state.verdicts.retry_dry_run_at = BEGAN
    state.write_backoff.hold(key, 9.0, NOW - BEGAN)
    state.reverted_writes.reverted_externally.add(key)
    found = world_seen(caches_with(), state, at=Instant(NOW, NOW - BEGAN))
    assert (found.retry_dry_run_at, found.in_backoff) == (BEGAN + BEGAN, {key: NOW + 9.0})
    assert found.reverted_externally


@pytest.mark.parametrize("count", [MOST_RECREATED, MOST_RECREATED + 1])
def test_of_very_many_pods_that_another_controller_makes_none_waits(count: int) -> None:
    state = DaemonSetState()
    for number in range(2):
        state.node_backoff.ended(pod("node-0", name=f"theirs-{number}", created=NOW + number), NOW)
    going = pod("node-0", name="demo-going", terminating=True)
    found = world_seen(caches_with([going, *(pod("node-0", name=f"demo-{one}") for one in range(count))]), state)
    assert found.recreated_externally == (frozenset({"node-0"}) if count <= MOST_RECREATED else frozenset())


def test_a_pod_that_may_have_been_prepared_is_unavailable() -> None:
    leaving = pod("node-0")
    asked = PrepareDelete(pod=leaving.ref, node="node-0", why=DeleteReason.OUTDATED, mark=False, held_by="label a=b")
    found = world_seen(caches_with([leaving]), begun(asked))
    assert [one.ready for one in found.pods] == [False]


@pytest.mark.parametrize(("label", "ready"), [("v1", False), ("v2", True)])
def test_a_pod_that_may_be_updating_is_unavailable_until_it_shows(label: str, ready: bool) -> None:
    there = pod("node-0", label)
    asked = UpdateInPlace(
        pod=there.ref, node="node-0", before="v1", revision=revision("v2"), change=InPlaceChange(labels={"a": "b"})
    )
    assert [one.ready for one in world_seen(caches_with([there]), begun(asked)).pods] == [ready]


@pytest.mark.parametrize(
    ("gate", "why", "expected"),
    [
        (True, "", ""),
        (False, "", "the controller may not change cpu and memory in place any more"),
        (True, "too old", "too old"),
        (False, "too old", "too old"),
    ],
)
def test_where_pods_can_be_resized(gate: bool, why: str, expected: str) -> None:
    state = DaemonSetState(gates=FeatureGates(resize=gate), no_resize=why)
    assert world_seen(caches_with(), state).no_resize == expected


def test_a_pod_that_is_terminating_is_not_waited_for_any_more() -> None:
    is_alive = caches_with([pod("node-0"), pod("node-1", terminating=True)]).aliveness(ds())
    assert [is_alive(one.uid) for one in (pod("node-0"), pod("node-1"), pod("node-2"))] == [True, False, False]


def seen(state: ReadyTimes, *pods: Pod, at: float = NOW, ahead: float = 0.0) -> dict[str, float]:
    """Since when they are ready, in true time, where v2 is current; by so many seconds our clock is ahead of that."""
    now = Instant(at + ahead, at - BEGAN)
    state.observe(pods, {"v2"}, now)
    return {uid: since - ahead for uid, since in state.since(now).items()}


def looked() -> ReadyTimes:
    """No pod was ready yet at the first look."""
    state = ReadyTimes()
    seen(state, at=NOW - 1)
    return state


def test_a_ready_pod_counts_from_its_first_sight_where_the_clock_is_ahead() -> None:
    state = looked()
    ahead, right = pod("node-0", ready=NOW + 90), pod("node-1", ready=NOW - 1)
    assert seen(state, ahead, right) == {ahead.uid: NOW}
    assert seen(state, ahead, right, at=NOW + 100) == {ahead.uid: NOW}, "also once our clock has caught up"


def test_at_the_first_look_a_pod_counts_by_its_creation_or_revision() -> None:
    """After a restart of the controller nothing better is known, and the old pods must not all seem unavailable."""
    ahead = pod("node-0", ready=NOW + 90, created=NOW - 3600)
    assert seen(ReadyTimes(), ahead) == {ahead.uid: NOW - 3600}
    old, current = (pod("node-0", rev, ready=NOW - 90, created=NOW - 100) for rev in ("v1", "v2"))
    assert seen(ReadyTimes(), old, current, ahead=-3600) == {old.uid: -inf, current.uid: NOW}, "our clock is behind"


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


def restarts(state: SeenTimes, *pods: Pod, at: float = NOW) -> dict[str, float]:
    state.observe(pods, at - BEGAN)
    return state.since(Instant(at, at - BEGAN))


def restarted(said: float, **fields: float) -> Pod:
    return replace(pod("node-0"), restarted_at=said, **fields)


def test_a_restart_counts_from_when_it_was_first_seen() -> None:
    state, never = SeenTimes(), pod("node-0")
    assert restarts(state, never, at=NOW - 1) == {}
    once = restarted(NOW - 90)
    assert restarts(state, once) == {once.uid: NOW}
    assert restarts(state, once, at=NOW + 5) == {once.uid: NOW}
    assert restarts(state, restarted(NOW - 80), at=NOW + 9) == {once.uid: NOW + 9}, "and the next one"
    state = SeenTimes()
    for at in (NOW, NOW + 5):
        assert restarts(state, once, at=at) == {}, "one from before this process counts by its node's word"


def test_a_first_update_in_place_is_not_taken_for_a_restart() -> None:
    state, crashed = SeenTimes(), restarted(NOW - 9)
    restarts(state, at=NOW - 99)
    assert restarts(state, crashed) == {crashed.uid: NOW}
    assert restarts(state, restarted(NOW - 9, updated_at=NOW - 9), at=NOW + 60) == {crashed.uid: NOW}
    assert restarts(state, at=NOW + 61) == {}
    assert state.known == {}, "nothing is kept of a pod that is gone"
