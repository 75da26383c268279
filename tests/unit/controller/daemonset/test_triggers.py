"""Whom a change in a store wakes, how urgently, and who is not woken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.managed import StatusWriters
from controller.api.meta import Key
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.caches import Caches
from controller.daemonset.memory import Memories
from controller.daemonset.triggers import Triggers
from controller.kube.decode import Seen
from controller.planner.world import Predecessor
from controller.runtime.pacing import Urgency
from controller.runtime.store import Change, StoreWriter, open_store
from tests.beds.worlds import LABELS, NOW, OURS, ds, matching, node, pending, pod, revision, taint, where

T = TypeVar("T", DaemonSet, Node, Pod, Revision)

UNREACHABLE = taint("node.kubernetes.io/unreachable", "NoExecute")
OTHER = replace(ds(pods=matching(app="other")), name="other", uid="uid-other")


class Woken:
    """The stores and what hangs on them; `told` is who was woken since the last look, with the urgency."""

    def __init__(self, *daemonsets: DaemonSet) -> None:
        (self.daemonsets, ours), (self.pods, pods) = open_store(DaemonSet), open_store(Pod)
        (self.nodes, nodes), (self.revisions, revisions) = open_store(Node), open_store(Revision)
        self.caches = Caches(ours, pods, nodes, revisions)
        self.memories = Memories()
        self.forgotten: list[str] = []
        self.foreign: list[tuple[str, str]] = []
        self.seen: list[str] = []
        self._told: list[tuple[str, Urgency]] = []
        self.triggers = Triggers(
            self.caches,
            self.memories,
            self._enqueue,
            self.forgotten.append,
            self.forgotten.append,
            lambda one: self.seen.append(one.name),
            lambda one, manager: self.foreign.append((one.name, manager)),
        )
        for one in daemonsets or (ds(),):
            self.daemonset(one)
        self.told()

    def _enqueue(self, key: Key, urgency: Urgency, reason: str) -> None:
        assert reason
        self._told.append((key.name, urgency))

    def told(self) -> list[tuple[str, Urgency]]:
        told, self._told = self._told, []
        return told

    def daemonset(self, new: DaemonSet | None, key: Key | None = None) -> None:
        for change in _fed(self.daemonsets, new, key):
            self.triggers.on_daemonset(change)

    def pod(self, new: Pod | None, key: Key | None = None) -> None:
        for change in _fed(self.pods, new, key):
            self.triggers.on_pod(change)

    def node(self, new: Node | None, key: Key | None = None) -> None:
        for change in _fed(self.nodes, new, key):
            self.triggers.on_node(change)

    def revision(self, new: Revision | None, key: Key | None = None) -> None:
        for change in _fed(self.revisions, new, key):
            self.triggers.on_revision(change)


_versions = iter(range(100, 10_000))


def _fed(writer: StoreWriter[T], new: T | None, key: Key | None) -> Sequence[Change[T]]:
    version = str(next(_versions))
    if new is None:
        assert key is not None
        return writer.feed(Seen(key=key, version=version, obj=None))
    new = replace(new, version=version)
    return writer.feed(Seen(key=key or new.key, version=version, obj=new))


# DaemonSets


def test_a_wish_that_changes_is_urgent_and_what_only_counts_is_not() -> None:
    woken = Woken()
    changes = [
        replace(ds(), generation=2),
        replace(ds(), generation=2, annotations={"kruise-ds/progress-deadline-seconds": "9"}),
        replace(ds(), generation=2, dying=True),
    ]
    for changed in changes:
        woken.daemonset(changed)
        assert woken.told() == [("demo", "urgent")]
    woken.daemonset(replace(changes[-1], created=5.0))
    assert woken.told() == [("demo", "lazy")]


def test_our_own_status_coming_back_wakes_nobody() -> None:
    woken = Woken()
    (shown,) = woken.caches.daemonsets.values()
    written = replace(shown, version="99999")
    woken.memories.of(OURS).status_version = 99999
    woken.triggers.on_daemonset(Change(key=shown.key, old=shown, new=written))
    assert woken.told() == []
    edited = replace(written, generation=2)
    woken.triggers.on_daemonset(Change(key=shown.key, old=shown, new=edited))
    assert woken.told() == [("demo", "urgent")], "an edit that came with it is seen all the same"


def test_who_is_gone_or_replaced_is_forgotten() -> None:
    woken = Woken()
    woken.daemonset(replace(ds(), uid="uid-successor"))
    assert woken.forgotten == [OURS]
    woken.daemonset(None, ds().key)
    assert woken.forgotten == [OURS, "uid-successor"]


def test_another_writer_of_the_status_is_told() -> None:
    woken = Woken(replace(ds(), status_writers=StatusWriters(ours=NOW)))
    woken.daemonset(replace(ds(), status_writers=StatusWriters(ours=NOW, theirs=NOW, other="kruise-manager")))
    assert woken.foreign == [("demo", "kruise-manager")]


def test_everybody_is_woken_when_the_server_is_back() -> None:
    woken = Woken(ds(), OTHER)
    woken.triggers.on_server_back()
    assert woken.told() == [("demo", "urgent"), ("other", "urgent")]


# pods


RUNNING = pod("node-0")


@pytest.mark.parametrize(
    ("changed", "urgency"),
    [
        (replace(RUNNING, ready=False), "lazy"),
        (replace(RUNNING, phase="Failed"), "urgent"),
        (replace(RUNNING, phase="Succeeded"), "urgent"),
        (replace(RUNNING, labels={**RUNNING.labels, "app": "other"}), "urgent"),
        (replace(RUNNING, dying=True), "lazy"),
        (replace(RUNNING, dying=True, phase="Failed"), "lazy"),
    ],
    ids=["its readiness", "it failed", "it ended", "its labels", "it is dying", "it is dying and has failed"],
)
def test_what_changes_about_a_pod_says_how_soon_its_owner_looks(changed: Pod, urgency: Urgency) -> None:
    woken = Woken()
    woken.pod(RUNNING)
    assert woken.told() == [("demo", "lazy")], "our own pod coming back is no news"
    woken.pod(changed)
    assert woken.told() == [("demo", urgency)]


def test_a_rollout_that_waits_for_pods_looks_soon() -> None:
    woken = Woken()
    woken.memories.of(OURS).eager = True
    woken.pod(RUNNING)
    woken.pod(replace(RUNNING, ready=False))
    assert woken.told() == [("demo", "soon")] * 2


def test_a_pod_that_is_gone_is_urgent_and_remembered() -> None:
    woken = Woken()
    woken.node(node("node-0"))
    woken.pod(RUNNING)
    woken.told()
    woken.pod(None, RUNNING.key)
    assert woken.told() == [("demo", "urgent")]
    assert woken.memories.of(OURS).predecessors == {"node-0": Predecessor(uid=RUNNING.uid, hash="v1")}
    assert woken.seen == [RUNNING.name]


def test_a_pod_of_a_node_that_is_gone_is_not_remembered() -> None:
    """Nobody would ever forget it again."""
    woken = Woken()
    woken.pod(RUNNING)
    woken.pod(None, RUNNING.key)
    assert woken.memories.of(OURS).predecessors == {}


def test_a_pod_that_changes_hands_wakes_its_old_and_its_new_owner() -> None:
    woken = Woken(ds(), OTHER)
    woken.pod(RUNNING)
    woken.told()
    woken.pod(replace(RUNNING, owner_uid=OTHER.uid))
    assert woken.told() == [("demo", "urgent"), ("other", "lazy")]


def test_a_pod_that_is_let_go_wakes_its_old_owner_and_whoever_may_adopt_it() -> None:
    woken = Woken(ds(), OTHER)
    woken.pod(RUNNING)
    woken.told()
    woken.pod(replace(RUNNING, owner_uid="", labels={"app": "other"}))
    assert woken.told() == [("demo", "urgent"), ("other", "urgent")]
    woken.pod(replace(RUNNING, owner_uid=""))
    assert woken.told() == [("demo", "urgent")], "and now the first one may"


def test_a_pod_that_loses_its_owner_alone_wakes_whom_it_matches() -> None:
    twin = replace(ds(), name="twin", uid="uid-twin")
    woken = Woken(ds(), twin)
    woken.pod(RUNNING)
    woken.told()
    woken.pod(replace(RUNNING, owner_uid=""))
    assert sorted(woken.told()) == [("demo", "urgent"), ("demo", "urgent"), ("twin", "urgent")]


def test_an_orphan_wakes_whom_it_matches_once_and_its_status_nobody() -> None:
    woken = Woken(ds(), OTHER)
    orphan = replace(RUNNING, owner_uid="")
    woken.pod(orphan)
    assert woken.told() == [("demo", "urgent")]
    woken.pod(replace(orphan, ready=False))
    woken.pod(replace(orphan, labels={"app": "nobody's"}))
    woken.pod(None, orphan.key)
    assert woken.told() == []


def test_selectors_that_are_empty_or_broken_match_no_orphan_and_hide_nobody() -> None:
    broken = replace(ds(pods=where("app", "Like", "demo")), name="broken", uid="uid-broken")
    empty = replace(ds(pods=matching()), name="empty", uid="uid-empty")
    woken = Woken(broken, empty, ds())
    woken.pod(replace(RUNNING, owner_uid=""))
    assert woken.told() == [("demo", "urgent")]


# nodes


def test_a_node_wakes_those_for_whom_it_makes_a_difference() -> None:
    picky = replace(ds(nodeSelector={"pool": "a"}), name="picky", uid="uid-picky")
    woken = Woken(ds(), picky)
    woken.node(node("node-0"))
    assert woken.told() == [("demo", "urgent")]
    woken.node(node("node-0", labels={"pool": "b"}))
    assert woken.told() == []
    woken.node(node("node-0", labels={"pool": "a"}))
    assert woken.told() == [("picky", "urgent")]
    woken.node(node("node-0", taint("x"), labels={"pool": "a"}))
    assert woken.told() == [("demo", "urgent"), ("picky", "urgent")]


def test_a_node_that_falls_silent_or_is_selected_makes_a_difference_too() -> None:
    woken = Woken(ds(selector={"track": "canary"}))
    woken.node(node("node-0"))
    woken.told()
    woken.node(node("node-0", UNREACHABLE))
    assert woken.told() == [("demo", "urgent")]
    woken.node(node("node-0", UNREACHABLE, labels={"track": "canary"}))
    assert woken.told() == [("demo", "urgent")]


NOBODY = taint("x", "NoExecute")
"""No pod of ours may be there."""


@pytest.mark.parametrize("there", [[], [RUNNING], [pending("node-0")]], ids=["no pod", "a pod", "one aimed at it"])
def test_a_node_that_no_pod_should_be_on_makes_a_difference_where_one_is_after_all(there: list[Pod]) -> None:
    """It counts as misscheduled while the node is there, and is deleted where the node comes back under its name."""
    woken = Woken()
    for one in there:
        woken.pod(one)
    woken.told()
    expected: list[tuple[str, Urgency]] = [("demo", "urgent")] if there else []
    woken.node(node("node-0", NOBODY))
    assert woken.told() == expected
    woken.node(None, Key("", "node-0"))
    assert woken.told() == expected


def test_pods_on_other_nodes_make_no_difference() -> None:
    woken = Woken()
    woken.pod(pod("node-1"))
    woken.told()
    woken.node(node("node-0", NOBODY))
    assert woken.told() == []


def test_the_sorted_nodes_are_the_same_until_one_changes_its_place() -> None:
    woken = Woken()
    woken.node(node("node-1"))
    before = woken.caches.fleet.nodes
    woken.node(node("node-1"))
    assert woken.caches.fleet.nodes is before, "a heartbeat"
    woken.node(node("node-0"))
    assert [one.name for one in woken.caches.fleet.nodes] == ["node-0", "node-1"]
    woken.node(None, Key("", "node-1"))
    assert [one.name for one in woken.caches.fleet.nodes] == ["node-0"]


def test_what_was_known_of_a_node_goes_with_it() -> None:
    woken = Woken()
    woken.node(node("node-0"))
    woken.memories.of(OURS).predecessors["node-0"] = Predecessor(uid="before", hash="v1")
    woken.node(None, Key("", "node-0"))
    assert woken.memories.of(OURS).predecessors == {}
    assert woken.forgotten == ["node-0"]


def test_a_placement_that_makes_no_sense_hides_nobody() -> None:
    senseless = replace(ds(nodeSelector="everywhere"), name="senseless", uid="uid-senseless")
    woken = Woken(senseless, ds())
    woken.node(node("node-0"))
    assert woken.told() == [("demo", "urgent")]


# revisions


def test_a_revision_that_comes_or_goes_wakes_its_owner() -> None:
    woken = Woken()
    woken.revision(revision("v1"))
    assert woken.told() == [("demo", "urgent")]
    woken.revision(None, revision("v1").key)
    assert woken.told() == [("demo", "urgent")]


def test_an_orphaned_revision_wakes_its_old_owner_and_whoever_may_claim_it() -> None:
    twin = replace(ds(), name="twin", uid="uid-twin")
    woken = Woken(ds(), twin, OTHER)
    orphan = revision("v1", owner_uid="")
    assert orphan.labels.items() >= LABELS.items()
    woken.revision(orphan)
    assert woken.told() == [("demo", "urgent"), ("twin", "urgent")]
    woken.revision(None, orphan.key)
    assert woken.told() == []
