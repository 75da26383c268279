"""How memory and caches become the world of one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

import msgspec
import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.caches import Caches
from controller.daemonset.state import DaemonSetState, DaemonSetStates
from controller.daemonset.unanswered import Unanswered
from controller.daemonset.world_of import world_of
from controller.kube.decode import Malformed, Seen
from controller.planner.actions import Action, DeletePod, DeleteReason, PrepareDelete
from controller.planner.place import Place
from controller.planner.plan import Plan, plan
from controller.planner.world import World
from controller.runtime.backoff import failed_pod_backoff
from controller.telemetry.daemonset_gauges import measured
from tests.beds.stores import open_store
from tests.beds.worlds import NOW, OURS, ds, failed, pod, world


def caches_with(
    pods: Iterable[Pod] = (), *, malformed: Key | None = None, daemonset: DaemonSet | None = None
) -> Caches:
    (daemonsets, ours), (writer, theirs) = open_store(DaemonSet), open_store(Pod)
    daemonsets.feed(Seen(key=ds().key, version="1", obj=daemonset or ds()))
    for one in pods:
        writer.feed(Seen(key=one.key, version="1", obj=one))
    if malformed is not None:
        writer.feed(Malformed(key=malformed, version="2", reason="too deep"))
    return Caches(ours, theirs, open_store(Node)[1], open_store(Revision)[1])


class Awaiting(Unanswered):
    """An earlier pass has begun these actions."""

    def __init__(self, *actions: Action) -> None:
        super().__init__()
        self._actions = list(actions)

    @property
    def actions(self) -> list[Action]:
        return self._actions


def seen(caches: Caches, state: DaemonSetState | None = None) -> World:
    (daemonset,) = caches.daemonsets.values()
    backoff = failed_pod_backoff()
    for _ in range(3):
        backoff.strike((OURS, 4, "node-0"), NOW - 1)
    cached, state = caches.snapshot(daemonset), state or DaemonSetState()
    return world_of(daemonset, state.compiled_for(daemonset), cached, state, backoff, NOW, NOW, fresh=True)


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
    found = seen(caches_with([pod("node-0")]), state)
    assert len(kept) > 10
    assert [name for name in World.__struct_fields__ if id(getattr(found, name)) in kept] == []


@pytest.mark.parametrize(("generation", "moment"), [(4, NOW + 3), (5, NOW)], ids=["its own", "another"])
def test_a_failed_pod_waits_for_the_rest_of_its_back_off_in_its_generation(generation: int, moment: float) -> None:
    """4 seconds at the third time, a second ago. A new template deserves a new try."""
    pods = [failed("node-0"), pod("node-1"), pod("node-2", phase="Succeeded")]
    found = seen(caches_with(pods, daemonset=ds(generation=generation)))
    assert found.not_before == {"node-0": moment}


@pytest.mark.parametrize(("remembered", "written"), [(3, 1), (1, 3), (3, None)])
def test_collisions_are_counted_on_from_the_higher_number(remembered: int, written: int | None) -> None:
    """A restart forgets them, and the cache may lag."""
    counted = replace(ds(), status=DaemonSetStatus(collision_count=written))
    found = seen(caches_with(daemonset=counted), DaemonSetState(collisions=remembered))
    assert found.collisions == 3


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (Key("default", "demo-x"), True),
        (Key("elsewhere", "demo-x"), False),
        (Key("default", "demo-two-x"), False),
        (Key("default", "demo"), False),
    ],
)
def test_a_pod_that_cannot_be_read_is_told_where_it_seems_to_belong(key: Key, told: bool) -> None:
    found = seen(caches_with(malformed=key))
    assert bool(found.unreadable) is told


def test_what_the_server_has_not_answered_is_awaited_and_left_alone_wherever_it_is() -> None:
    leaving = pod("node-0")
    asked = DeletePod(pod=leaving.ref, node="node-0", why=DeleteReason.OUTDATED)
    found = seen(caches_with([leaving]), DaemonSetState(unanswered=Awaiting(asked)))
    assert found.awaited == frozenset({Place.of_object(leaving.uid)})
    assert found.held_back == {Place.of_object(leaving.uid): inf}
    assert [one.dying for one in found.pods] == [True], "it may have been deleted"


def test_a_pod_that_may_have_been_prepared_is_unavailable_until_it_is_seen_to_be() -> None:
    leaving = pod("node-0")
    asked = PrepareDelete(pod=leaving.ref, node="node-0", why=DeleteReason.OUTDATED, mark=False, held_by="label a=b")
    found = seen(caches_with([leaving]), DaemonSetState(unanswered=Awaiting(asked)))
    assert [one.ready for one in found.pods] == [False]


def test_a_pod_that_is_dying_is_not_waited_for_any_more() -> None:
    is_alive = caches_with([pod("node-0"), pod("node-1", dying=True)]).aliveness(ds())
    assert [is_alive(one.uid) for one in (pod("node-0"), pod("node-1"), pod("node-2"))] == [True, False, False]


def test_metrics_show_what_the_last_pass_saw_but_not_of_what_is_on_its_way_out() -> None:
    states = DaemonSetStates()
    states.of(OURS).decided(ds(), Plan(summary=plan(world()).summary), NOW)
    (daemonsets, ours) = open_store(DaemonSet)
    caches = Caches(ours, open_store(Pod)[1], open_store(Node)[1], open_store(Revision)[1])
    for version, dying in (("1", False), ("2", True)):
        one = replace(ds(dying=dying), version=version)
        daemonsets.feed(Seen(key=one.key, version=version, obj=one))
        (found,) = measured(caches, states, NOW)
        assert (found.summary is None) is dying
