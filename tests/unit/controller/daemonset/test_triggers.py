"""Whom a change of a DaemonSet or of a pod wakes, how urgently, and who is not woken."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from controller.api.in_place import Underway
from controller.api.meta import Key
from controller.api.pod import Pod
from controller.api.status_writers import StatusWriters
from controller.daemonset.status_conflict import STAND_BACK_FIRST
from controller.planner.world import FormerPod, Predecessor
from controller.runtime.pacing import Urgency
from controller.runtime.store import Change
from tests.beds.virtual_time import now, virtual_time
from tests.beds.worlds import NOW, OURS, ds, matching, node, pod, where
from tests.unit.controller.daemonset.woken import OTHER, Woken


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
    woken.states.of(OURS).status_writer.own.version = 99999
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


@virtual_time
async def test_another_writer_of_the_status_is_told_and_left_alone() -> None:
    woken = Woken(replace(ds(), status_writers=StatusWriters(ours=NOW)))
    woken.daemonset(replace(ds(), status_writers=StatusWriters(ours=NOW, theirs=NOW, other="kruise-manager")))
    assert woken.foreign == [("demo", "kruise-manager")]
    assert woken.states.of(OURS).stands_back(ds(), NOW, now()) == STAND_BACK_FIRST


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
        (replace(RUNNING, labels={**RUNNING.labels}), "lazy"),
        (replace(RUNNING, dying=True), "lazy"),
        (replace(RUNNING, dying=True, phase="Failed"), "lazy"),
    ],
    ids=[
        "its readiness",
        "it failed",
        "it ended",
        "its labels",
        "equal labels",
        "it is dying",
        "it is dying and has failed",
    ],
)
def test_what_changes_about_a_pod_says_how_soon_its_owner_looks(changed: Pod, urgency: Urgency) -> None:
    woken = Woken()
    woken.pod(RUNNING)
    assert woken.told() == [("demo", "lazy")], "our own pod coming back is no news"
    woken.pod(changed)
    assert woken.told() == [("demo", urgency)]


RESTARTING = Underway(until=inf, restarting=("agent",), unseen=True)


@pytest.mark.parametrize(
    ("underway", "urgency"),
    [
        (None, "urgent"),
        (Underway(until=inf, continues=True), "urgent"),
        (replace(RESTARTING, unseen=False), "soon"),
        (RESTARTING, "soon"),
    ],
    ids=["it is over", "the next containers are due", "it may be over", "no change"],
)
def test_a_pod_whose_kubelet_has_done_its_part_gets_its_traffic_back_at_once(
    underway: Underway | None, urgency: Urgency
) -> None:
    woken = Woken()
    woken.states.of(OURS).eager = True
    woken.pod(replace(RUNNING, underway=RESTARTING))
    woken.told()
    woken.pod(replace(RUNNING, underway=underway, version="2"))
    assert woken.told() == [("demo", urgency)]


def test_a_rollout_that_waits_for_pods_looks_soon() -> None:
    woken = Woken()
    woken.states.of(OURS).eager = True
    woken.pod(RUNNING)
    woken.pod(replace(RUNNING, ready=False))
    assert woken.told() == [("demo", "soon")] * 2


def test_a_pod_that_is_gone_is_urgent_and_told() -> None:
    woken = Woken()
    woken.pod(RUNNING)
    woken.told()
    woken.pod(None, RUNNING.key)
    assert woken.told() == [("demo", "urgent")]
    assert woken.seen == [RUNNING.name]


def test_a_pod_that_is_gone_is_remembered_as_long_as_its_node_is_there() -> None:
    woken = Woken()
    woken.node(node("node-0"))
    running, elsewhere = pod("node-0"), pod("node-9")
    for one in (running, elsewhere):
        woken.pod(one)
        woken.pod(None, one.key)
    before = Predecessor(uid=running.uid, pod=FormerPod(hash="v1", created=running.created))
    assert woken.states.of(OURS).predecessors == {"node-0": before}, "of the other nobody would ever forget it"
    woken.node(None, Key("", "node-0"))
    assert woken.states.of(OURS).predecessors == {}


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


@pytest.mark.parametrize("readable_before", [True, False])
def test_a_pod_that_cannot_be_read_wakes_by_its_name_and_so_does_its_end(readable_before: bool) -> None:
    """The name alone decides whose condition Degraded tells it."""
    woken = Woken(ds(), OTHER)
    if readable_before:
        woken.pod(replace(RUNNING, name="other-x1y2", owner_uid=""))
        woken.told()
    woken.malformed_pod("other-x1y2")
    assert woken.told() == [("other", "urgent")]
    woken.malformed_pod("other-x1y2")
    assert woken.told() == [], "it is the same as before"
    woken.pod(None, Key("default", "other-x1y2"))
    assert woken.told() == [("other", "urgent")]


def test_a_pod_that_cannot_be_read_and_is_named_after_nobody_wakes_nobody() -> None:
    woken = Woken()
    woken.malformed_pod("stranger-x1y2")
    woken.pod(None, Key("default", "stranger-x1y2"))
    assert woken.told() == []
