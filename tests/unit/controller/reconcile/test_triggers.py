"""Which DaemonSets a change of a DaemonSet, a pod, a node or a revision wakes, and how urgently."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, OnFailure, RolloutStep
from controller.api.in_place import UpdateInProgress
from controller.api.node import Node
from controller.api.objects import Key, StatusWriters
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.kube.client import Client
from controller.kube.decode import Malformed, Seen
from controller.kube.requests import NODES, PODS, PULLERS, REVISIONS, Resource
from controller.kube.sender import Sender
from controller.planner.world import FormerPod, Predecessor
from controller.reconcile.dependencies import Dependencies, Observer
from controller.reconcile.state import DaemonSetStates
from controller.reconcile.status_writer import FIRST_YIELD
from controller.reconcile.triggers import Triggers
from controller.runtime.clock import Instant, ServerClock
from controller.runtime.expectations import CacheProgress, Expectations
from controller.runtime.pacing import PacedQueue, Urgency
from controller.runtime.store import Change, Store
from controller.runtime.watch import Init
from tests.beds.scripted import Script
from tests.beds.stores import caches_of
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import LABELS, NOW, OURS, ds, matching, node, pending, pod, revision, taint, template, where

T = TypeVar("T", DaemonSet, Node, Pod, Revision)

_SPEC = ds(pods=matching(app="other")).spec
_LABELLED = replace(_SPEC, template={**_SPEC.template, "metadata": {"labels": {"app": "other"}}})
OTHER = replace(ds(), name="other", uid="uid-other", spec=_LABELLED)
"""Another DaemonSet, with another selector."""
TWIN = replace(ds(), name="twin", uid="uid-twin")
RUNNING = pod("node-0")
NODE = Key("", "node-0")
URGENT: list[tuple[str, Urgency]] = [("demo", "urgent")]


class Observed(Observer):
    """Keeps what is reported in `Woken`."""

    def __init__(self, woken: Woken) -> None:
        self.woken = woken

    def daemonset_gone(self, uid: str) -> None:
        self.woken.forgotten.append(uid)

    def node_gone(self, name: str) -> None:
        self.woken.forgotten.append(name)

    def pod_seen(self, daemonset: DaemonSet, pod: Pod) -> None:
        self.woken.seen.append(pod.name)

    def foreign_status(self, daemonset: DaemonSet, manager: str) -> None:
        self.woken.foreign.append((daemonset.name, manager))


class Recorded(PacedQueue[Key]):
    """Keeps what is enqueued."""

    def __init__(self) -> None:
        super().__init__()
        self.enqueued: list[tuple[str, Urgency]] = []

    def enqueue(self, key: Key, urgency: Urgency, reason: str) -> None:
        assert reason
        self.enqueued.append((key.name, urgency))


class Woken:
    """The stores and what hangs on them; `told` is who was woken since the last look, with the urgency."""

    def __init__(self, *daemonsets: DaemonSet, pods: Iterable[Pod] = (), nodes: Iterable[Node] = ()) -> None:
        self.caches, self.states = caches_of(), DaemonSetStates()
        self.pods = self.caches.pods.writers[""]
        self.forgotten: list[str] = []
        self.foreign: list[tuple[str, str]] = []
        self.seen: list[str] = []
        self._queue, self.expectations = Recorded(), Expectations()
        self.triggers = Triggers(
            self.caches,
            self.states,
            self._queue,
            Dependencies(
                client=Client(Sender(Script())),
                expectations=self.expectations,
                clock=lambda: NOW,
                observer=Observed(self),
                server_clock=ServerClock(),
            ),
            moment=lambda: 0.0,
        )
        for one in daemonsets or (ds(),):
            self.daemonset(one)
        for machine in nodes:
            self.node(machine)
        for each in pods:
            self.pod(each)
        self.told()

    def told(self) -> list[tuple[str, Urgency]]:
        told, self._queue.enqueued = self._queue.enqueued, []
        return told

    def daemonset(self, new: DaemonSet | None, key: Key | None = None) -> None:
        for change in _fed(self.caches.daemonsets, new, key):
            self.triggers.on_daemonset(change)

    def pod(self, new: Pod | None, key: Key | None = None) -> None:
        for change in _fed(self.caches.pods, new, key):
            self.triggers.on_pod(change)

    def malformed_pod(self, name: str) -> None:
        bad = Malformed(key=Key("default", name), version=str(next(_versions)), reason="labels")
        for change in self.pods.apply(bad):
            self.triggers.on_pod(change)

    def node(self, new: Node | None, key: Key = NODE) -> None:
        for change in _fed(self.caches.nodes, new, key if new is None else None):
            self.triggers.on_node(change)

    def revision(self, new: Revision | None, key: Key | None = None) -> None:
        for change in _fed(self.caches.revisions, new, key):
            self.triggers.on_revision(change)


_versions = iter(range(100, 10_000))


def _fed(store: Store[T], new: T | None, key: Key | None) -> Sequence[Change[T]]:
    version = str(next(_versions))
    if new is not None:
        new = replace(new, version=version)
        key = key or new.key
    assert key is not None
    return store.writers[""].apply(Seen(key=key, version=version, obj=new))


def test_a_wish_that_changes_is_urgent_and_what_only_counts_is_not() -> None:
    woken = Woken()
    changed = ds()
    for change in (
        {"generation": 2},
        {"annotations": {"kruise-ds/progress-deadline-seconds": "9"}},
        {"terminating": True},
    ):
        changed = replace(changed, **change)
        woken.daemonset(changed)
        assert woken.told() == URGENT, change
    woken.daemonset(replace(changed, created=5.0))
    assert woken.told() == [("demo", "lazy")]


def test_our_own_status_coming_back_wakes_none() -> None:
    woken = Woken()
    (shown,) = woken.caches.daemonsets.values()
    written = replace(shown, version="99999")
    woken.states.of(OURS).status_writer.own.version = 99999
    woken.triggers.on_daemonset(Change(key=shown.key, old=shown, new=written))
    assert woken.told() == []
    woken.triggers.on_daemonset(Change(key=shown.key, old=shown, new=replace(written, generation=2)))
    assert woken.told() == URGENT, "an edit that came with it is seen all the same"


def test_a_daemonset_that_is_gone_or_replaced_is_forgotten() -> None:
    woken = Woken()
    before = woken.states.of(OURS)
    woken.daemonset(replace(ds(), uid="uid-successor"))
    assert woken.forgotten == [OURS]
    woken.daemonset(None, ds().key)
    assert woken.forgotten == [OURS, "uid-successor"]
    assert woken.states.of(OURS) is not before


@virtual_time
async def test_another_writer_of_the_status_is_reported_and_left_alone() -> None:
    woken = Woken(replace(ds(), status_writers=StatusWriters(ours=NOW)))
    woken.daemonset(replace(ds(), status_writers=StatusWriters(ours=NOW, theirs=NOW, other="kruise-manager")))
    assert woken.foreign == [("demo", "kruise-manager")]
    assert woken.states.of(OURS).seconds_yielded(ds(), Instant(NOW, now())) == FIRST_YIELD


def test_all_are_woken_when_the_server_is_back() -> None:
    woken = Woken(ds(), OTHER)
    woken.triggers.on_server_back()
    assert woken.told() == [*URGENT, ("other", "urgent")]


# pods


RESTARTING = UpdateInProgress(until=inf, restarting=("agent",), not_started=True)
UPDATING = replace(RUNNING, in_progress=RESTARTING)


@pytest.mark.parametrize(
    ("before", "changed", "urgency", "while_work_is_left"),
    [
        pytest.param(None, RUNNING, "lazy", "soon", id="it is new"),
        pytest.param(RUNNING, replace(RUNNING, ready=False), "lazy", "soon", id="its readiness"),
        pytest.param(RUNNING, replace(RUNNING, phase="Failed"), "urgent", "urgent", id="it failed"),
        pytest.param(RUNNING, replace(RUNNING, phase="Succeeded"), "urgent", "urgent", id="it ended"),
        pytest.param(RUNNING, replace(RUNNING, labels={"app": "other"}), "urgent", "urgent", id="its labels"),
        pytest.param(RUNNING, replace(RUNNING, labels={**RUNNING.labels}), "lazy", "soon", id="equal labels"),
        pytest.param(RUNNING, replace(RUNNING, terminating=True), "lazy", "lazy", id="it terminates"),
        pytest.param(
            RUNNING, replace(RUNNING, terminating=True, phase="Failed"), "lazy", "lazy", id="it terminates and failed"
        ),
        pytest.param(UPDATING, replace(UPDATING, version="2"), "lazy", "soon", id="no change of its update"),
        pytest.param(UPDATING, RUNNING, "urgent", "urgent", id="its update is over"),
        pytest.param(
            UPDATING,
            replace(RUNNING, in_progress=UpdateInProgress(until=inf, has_next_batch=True)),
            "urgent",
            "urgent",
            id="the next containers are due",
        ),
        pytest.param(
            UPDATING,
            replace(RUNNING, in_progress=replace(RESTARTING, not_started=False)),
            "lazy",
            "soon",
            id="its update may be over",
        ),
    ],
)
def test_a_pods_change_says_how_soon_its_owner_looks(
    before: Pod | None, changed: Pod, urgency: Urgency, while_work_is_left: Urgency
) -> None:
    for eager, expected in ((False, urgency), (True, while_work_is_left)):
        woken = Woken(pods=[] if before is None else [before])
        woken.states.of(OURS).eager = eager
        woken.pod(changed)
        assert woken.told() == [("demo", expected)]


@pytest.mark.parametrize("then", [None, replace(node("node-0"), uid="uid-another")], ids=["gone", "another"])
def test_a_pod_that_is_gone_is_remembered_as_long_as_its_node_is_there(then: Node | None) -> None:
    elsewhere = pod("node-9")
    woken = Woken(nodes=[node("node-0")], pods=[RUNNING, elsewhere])
    woken.pod(None, RUNNING.key)
    assert woken.told() == URGENT
    assert woken.seen == [RUNNING.name, elsewhere.name]
    woken.pod(None, elsewhere.key)
    before = Predecessor(uid=RUNNING.uid, pod=FormerPod(hash="v1", created=RUNNING.created))
    assert woken.states.of(OURS).predecessors == {"node-0": before}, "the other would never be forgotten"
    woken.node(then)
    assert woken.states.of(OURS).predecessors == {}


def test_who_finds_a_pod_gone_in_a_list_finds_what_it_was() -> None:
    woken = Woken(nodes=[node("node-0")], pods=[RUNNING])
    woken.pods.apply(Init())
    for _ in woken.pods.replace("9999"):
        there = RUNNING.key in woken.caches.pods
        assert ("node-0" in woken.states.of(OURS).predecessors) is not there
    assert not there


ORPHAN = replace(RUNNING, owner_uid="")
FOR_OTHER = replace(ORPHAN, labels={"app": "other"})
LOOKS_AT_OTHER: list[tuple[str, Urgency]] = [("other", "urgent")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(RUNNING, replace(RUNNING, owner_uid=OTHER.uid), [*URGENT, ("other", "lazy")], id="handed over"),
        pytest.param(RUNNING, FOR_OTHER, [*URGENT, *LOOKS_AT_OTHER], id="released and relabelled"),
        pytest.param(RUNNING, ORPHAN, URGENT * 2, id="released with its labels"),
        pytest.param(FOR_OTHER, ORPHAN, [*URGENT, *LOOKS_AT_OTHER], id="relabelled: one may, the other may not"),
        pytest.param(None, ORPHAN, URGENT, id="a new orphan"),
        pytest.param(ORPHAN, replace(ORPHAN, ready=False), [], id="an orphan's status"),
        pytest.param(ORPHAN, RUNNING, [("demo", "lazy")], id="adopted, as any pod"),
        pytest.param(ORPHAN, replace(ORPHAN, owner_uid=OTHER.uid), [*URGENT, ("other", "lazy")], id="by another"),
        pytest.param(ORPHAN, None, URGENT, id="gone"),
        pytest.param(ORPHAN, replace(ORPHAN, terminating=True), URGENT, id="terminating"),
        pytest.param(ORPHAN, replace(ORPHAN, phase="Failed"), URGENT, id="ended"),
        pytest.param(ORPHAN, replace(ORPHAN, labels={"app": "none's"}), URGENT, id="relabelled"),
    ],
)
def test_who_may_own_a_pod_looks_when_it_changes_hands(
    before: Pod | None, after: Pod | None, expected: list[tuple[str, Urgency]]
) -> None:
    woken = Woken(ds(), OTHER, pods=[] if before is None else [before])
    woken.pod(after, ORPHAN.key)
    assert sorted(woken.told()) == expected
    if after is not None and not after.owner_uid and not after.adoptable:
        woken.pod(None, ORPHAN.key)
        assert woken.told() == [], "of an orphan that none may adopt"


def test_a_released_pod_wakes_all_whom_its_labels_match() -> None:
    woken = Woken(ds(), TWIN, pods=[RUNNING])
    woken.pod(ORPHAN)
    assert sorted(woken.told()) == [*URGENT, *URGENT, ("twin", "urgent")]


def test_a_broken_daemonset_does_not_hide_others() -> None:
    broken = replace(ds(pods=where("app", "Like", "demo")), name="broken", uid="uid-broken")
    empty = replace(ds(pods=matching()), name="empty", uid="uid-empty")
    woken = Woken(broken, empty, ds())
    woken.pod(replace(RUNNING, owner_uid=""))
    assert woken.told() == URGENT, "selectors that are empty or broken match no orphan"
    woken = Woken(replace(ds(nodeSelector="everywhere"), name="senseless", uid="uid-senseless"), ds())
    woken.node(node("node-0"))
    assert woken.told() == URGENT


@pytest.mark.parametrize("readable_before", [True, False])
def test_a_pod_that_cannot_be_read_wakes_by_its_name_and_so_does_its_end(readable_before: bool) -> None:
    """The name alone decides whose condition Degraded tells it."""
    before = [replace(RUNNING, name="other-x1y2", owner_uid="", labels={"app": "none's"})] if readable_before else []
    woken = Woken(ds(), OTHER, pods=before)
    woken.malformed_pod("other-x1y2")
    assert woken.told() == [("other", "urgent")]
    woken.malformed_pod("other-x1y2")
    assert woken.told() == [], "it is the same as before"
    woken.pod(None, Key("default", "other-x1y2"))
    assert woken.told() == [("other", "urgent")]
    woken.malformed_pod("stranger-x1y2")
    woken.pod(None, Key("default", "stranger-x1y2"))
    assert woken.told() == [], "it is named after none of them"


def test_a_node_that_falls_silent_or_is_selected_makes_a_difference_too() -> None:
    unreachable = taint("node.kubernetes.io/unreachable", "NoExecute")
    woken = Woken(ds(selector={"track": "canary"}), nodes=[node("node-0")])
    woken.node(node("node-0", unreachable))
    assert woken.told() == URGENT
    woken.node(node("node-0", unreachable, labels={"track": "canary"}))
    assert woken.told() == URGENT


def test_a_node_wakes_those_for_whom_it_makes_a_difference() -> None:
    picky = replace(ds(nodeSelector={"pool": "a"}), name="picky", uid="uid-picky")
    woken = Woken(ds(), picky)
    woken.node(node("node-0"))
    assert woken.told() == URGENT
    woken.node(node("node-0", labels={"pool": "b"}))
    assert woken.told() == []
    woken.node(node("node-0", labels={"pool": "a"}))
    assert woken.told() == [("picky", "urgent")]
    woken.node(node("node-0", taint("x"), labels={"pool": "a"}))
    assert woken.told() == [*URGENT, ("picky", "urgent")]


@pytest.mark.parametrize(
    ("rolling", "woken_by_it"),
    [
        ({"partition": 1}, True),
        ({"partition": "10%"}, True),
        ({"paused": True}, True),
        ({"rolling": {"steps": (RolloutStep(nodes=1),)}}, True),
        ({"rolling": {"on_failure": OnFailure(restarts=3)}}, True),
        ({}, False),
    ],
    ids=["partition", "percentage", "pause", "step", "abort", "nothing is held back"],
)
@pytest.mark.parametrize(
    ("selector", "without", "able"),
    [
        ({"pool": "a"}, node("node-0"), node("node-0", labels={"pool": "a"})),
        ({}, node("node-0", taint("x")), node("node-0")),
    ],
    ids=["label", "taint"],
)
def test_a_node_on_which_an_older_revision_may_run_now_makes_a_difference(
    rolling: dict[str, Any], woken_by_it: bool, selector: dict[str, str], without: Node, able: Node
) -> None:
    """An empty node that may not hold the current revision gets it, as soon as its own placement says so."""
    daemonset = ds(tolerations=[{"key": "x", "operator": "Exists"}], **rolling)
    older = revision("v0", of=template("v0", nodeSelector=selector))
    woken = Woken(daemonset)
    woken.states.of(OURS).compiled_for(daemonset).placements([older])
    woken.node(without)
    woken.told()
    for one in (able, without):
        woken.node(one)
        assert woken.told() == (URGENT if woken_by_it else [])


def test_a_node_on_which_no_other_revision_runs_makes_no_difference() -> None:
    daemonset = ds(partition=1)
    woken = Woken(daemonset)
    broken = revision("v1", of=template("v1", nodeSelector="a"))
    woken.states.of(OURS).compiled_for(daemonset).placements([revision("v0"), broken])
    woken.node(node("node-0"))
    woken.told()
    woken.node(node("node-0", labels={"pool": "a"}))
    assert woken.told() == []


@pytest.mark.parametrize(
    ("there", "expected"),
    [([], []), ([RUNNING], URGENT), ([pending("node-0")], URGENT), ([pod("node-1")], [])],
    ids=["no pod", "a pod", "one aimed at it", "a pod elsewhere"],
)
def test_a_tainted_node_makes_a_difference_only_where_a_pod_is_on_it(
    there: list[Pod], expected: list[tuple[str, Urgency]]
) -> None:
    """It counts as misscheduled while the node is there, and is deleted where the node comes back under its name."""
    woken = Woken(pods=there)
    woken.node(node("node-0", taint("x", "NoExecute")))
    assert woken.told() == expected
    woken.node(None)
    assert woken.told() == expected


def test_a_node_that_goes_costs_the_same_with_more_pods_elsewhere() -> None:
    """Counted in calls, generators included: for thousands of nodes that vanish at once it makes minutes."""
    sets = [replace(ds(nodeSelector={"pool": "b"}), name=f"ds-{n}", uid=f"uid-{n}") for n in range(10)]

    def calls(pods: int) -> int:
        elsewhere = [
            replace(pod(f"elsewhere-{number}"), name=f"{one.name}-{number}", owner_uid=one.uid)
            for one in sets
            for number in range(pods)
        ]
        woken = Woken(*sets, pods=elsewhere, nodes=[node("node-0")])
        counted = itertools.count()
        sys.setprofile(lambda frame, event, arg: next(counted) if event == "call" else None)
        try:
            woken.node(None)
        finally:
            sys.setprofile(None)
        return next(counted)

    assert calls(50) <= calls(1)


def test_the_sorted_nodes_are_the_same_until_one_comes_or_goes() -> None:
    woken = Woken(nodes=[node("node-1")])
    before = woken.caches.fleet
    woken.node(node("node-1"))
    assert woken.caches.fleet is before, "a heartbeat"
    woken.node(node("node-0"))
    assert [one.name for one in woken.caches.fleet] == ["node-0", "node-1"]
    woken.node(None, Key("", "node-1"))
    assert [one.name for one in woken.caches.fleet] == ["node-0"]
    assert woken.forgotten == ["node-1"]


# a restored server


@pytest.mark.parametrize(
    ("noticed_by", "namespace", "waits_for_pods"),
    [
        (PODS, "", False),
        (PODS, ds().namespace, False),
        (PODS, "another", True),
        (PULLERS, "", True),
        (REVISIONS, "", True),
        (NODES, "", True),
    ],
)
def test_no_plan_is_made_before_all_pods_are_listed_again(
    noticed_by: Resource[Any, Any], namespace: str, waits_for_pods: bool
) -> None:
    """A list of the pullers alone, which are pods too, or of the pods of another namespace is not enough."""
    woken = Woken()
    woken.triggers.on_server_restored(noticed_by, namespace)
    listed = {REVISIONS.name: CacheProgress(listed=1.0)}
    stale = woken.expectations.check(ds().uid, listed, lambda _: False, 2.0)
    assert (stale is not None) is waits_for_pods


# revisions


def test_a_revision_that_comes_or_goes_wakes_its_owner() -> None:
    woken = Woken()
    woken.revision(revision("v1"))
    assert woken.told() == URGENT
    woken.revision(None, revision("v1").key)
    assert woken.told() == URGENT


def test_an_orphaned_revision_wakes_those_that_may_claim_it() -> None:
    woken = Woken(ds(), TWIN, OTHER)
    orphan = revision("v1", owner_uid="")
    assert orphan.labels.items() >= LABELS.items()
    woken.revision(orphan)
    assert woken.told() == [*URGENT, ("twin", "urgent")]
    woken.revision(None, orphan.key)
    assert woken.told() == []
