"""A pod that the preDelete hook matches is prepared for its deletion first, and never deleted while it does.

What was prepared stays after all once nothing wants it deleted any more.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import LifecycleHook
from controller.api.names import KRUISE_POD_READY
from controller.api.objects import rfc3339
from controller.api.pod import Pod
from controller.api.readiness_gates import ReadinessGate
from controller.inplace.change import InPlaceChange
from controller.planner.actions import DeletePod, OpenGates, PrepareDelete
from controller.planner.blockers import handlers
from controller.planner.plan import Plan, plan
from controller.planner.world import BackoffKey, World
from tests.beds.worlds import (
    NOW,
    ago,
    at,
    check,
    ds,
    failed,
    laid_out,
    node,
    pod,
    prepared,
    refusing,
    revision,
    status_in,
    taint,
    world,
)

HELD = {"drain": "wait"}
HOOK = LifecycleHook(labels_handler={**HELD, "backup": "todo"}, finalizers_handler=frozenset({"demo.io/hold"}))
MARKING = replace(HOOK, mark_pod_not_ready=True)
NOT_WINDOWS = {"matchExpressions": [{"key": "os", "operator": "NotIn", "values": ["windows"]}]}
LINUX: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NOT_WINDOWS]}}
    }
}
WINDOWS = {"os": "windows"}


def held(state: str, *waiting: int, rev: str = "v2", marked: bool = False, **fields: Any) -> World:
    """The hook matches all pods; those on the nodes of these numbers that are of v1 are prepared."""
    pods = [replace(one, labels={**one.labels, **HELD}) for one in laid_out(state)]
    names = [f"node-{number}-v1" for number in waiting]
    there = [prepared(one, marked_not_ready=marked) if one.name in names else one for one in pods]
    return at(state, rev, **{"pods": there, "hook": MARKING if marked else HOOK, **fields})


def changed(of: World, name: str, **fields: Any) -> World:
    """The same, but for that pod."""
    return replace(of, pods=tuple(replace(one, **fields) if one.name == name else one for one in of.pods))


@pytest.mark.parametrize(
    ("one", "holds"),
    [
        (pod("a", labels={"drain": "wait"}), True),
        (pod("a", labels={"backup": "todo", "drain": "done"}), True),
        (pod("a", finalizers=("demo.io/hold",)), True),
        (pod("a", labels={"drain": "done"}, finalizers=("demo.io/other",)), False),
        (pod("a"), False),
    ],
)
def test_any_label_or_any_finalizer_holds(one: Pod, holds: bool) -> None:
    assert bool(handlers(one, HOOK)) is holds
    assert not handlers(one, None)


NO_LONGER = {"ready": False, "ready_since": None}
UNREACHABLE = [node("node-0"), node("node-1", taint("node.kubernetes.io/unreachable", "NoExecute"))]
EXCLUDED = [node("node-0"), node("node-1", taint("x", "NoExecute"))]
STAYS = [node("node-0"), node("node-1"), node("node-2", taint("x"))]
MARKED = ReadinessGate(type=KRUISE_POD_READY, open=False, present=True, index=0, marked_not_ready=True)
HALF = changed(held("v1 v1"), "node-1-v1", gates=(MARKED,), **NO_LONGER)
"""Marked but not prepared: the controller may end between the two writes."""

CASES: dict[str, tuple[World, str]] = {
    "an empty hook never holds": (held("v1", hook=LifecycleHook()), "-node-0 v1"),
    "one of no labels neither": (held("v1", hook=LifecycleHook(labels_handler={})), "-node-0 v1"),
    "as many are prepared as the budget allows": (held("v1 v1 v1 v1"), "~node-3 v1"),
    "or more": (held("v1 v1 v1 v1", max_unavailable=2), "~node-3 v1, ~node-2 v1"),
    "counted once": (held("v1 v1 v1 v1", 3), ""),
    "or twice": (held("v1 v1 v1 v1", 3, 2, max_unavailable=2), ""),
    "a held unhealthy pod does not block a free one, even where one may go": (
        at(
            "v1 v1 v1! v1",
            hook=HOOK,
            burst=1,
            pods=[*laid_out("v1 v1 v1!"), prepared(pod("node-3", labels=HELD, ready=None))],
        ),
        "-node-2 v1",
    ),
    "prepared, it goes once its hook lets go": (
        at("v1 v1", hook=HOOK, pods=[pod("node-0"), prepared(pod("node-1"))]),
        "-node-1 v1",
    ),
    "or where the hook is no longer asked for": (held("v1 v1", 1, hook=None), "-node-1 v1"),
    "nothing is prepared for an unjudged template": (held("v1", verdicts={}), "probe v2 on node-0"),
    "nor for a refused one": (held("v1", verdicts=refusing("v2"), retry_dry_run_at=NOW + 60), ""),
    "surging, not before there is a successor": (held("v1 v1", max_surge=1), "+node-1 v2"),
    "but once that serves": (held("v1 v1+v2", max_surge=1), "~node-1 v1"),
    "then it waits": (held("v1 v1+v2", 1, max_surge=1), ""),
    "and goes": (held("v1 v1+v2", 1, max_surge=1, hook=None), "-node-1 v1"),
    "a node that excludes it makes it wait": (held("v1 v1", 1, rev="v1", nodes=EXCLUDED), ""),
    "a node that is eligible again keeps it": (held("v1 v1", 1, rev="v1"), "keep node-1-v1"),
    "also marked": (held("v1 v1", 1, rev="v1", marked=True), "keep node-1-v1"),
    "an update that was rolled back keeps it in the same pass": (
        held("v1 v1", 1, rev="v1", revisions=[revision("v1"), revision("v2")]),
        "renumber demo-v1 3, keep node-1-v1",
    ),
    "while it goes on it waits": (held("v1 v1", 1), ""),
    "a pause takes back what has begun": (held("v1 v1", 1, paused=True), "keep node-1-v1"),
    "OnDelete does": (held("v1 v1", 1, on_delete=True), "keep node-1-v1"),
    "the partition does": (held("v1 v1", 1, partition=2), "keep node-1-v1"),
    "the selector does": (held("v1 v1", 1, selector={"track": "canary"}), "keep node-1-v1"),
    "to a third revision it is still outdated": (held("v1 v1", 1, rev="v3"), ""),
    "for one that the server refuses it is not replaced": (
        held("v1 v1", 1, rev="v3", verdicts=refusing("v3"), retry_dry_run_at=NOW + 60),
        "keep node-1-v1",
    ),
    "surging, it serves again when its successor does not": (held("v1 v1+v2!", 1, max_surge=1), "keep node-1-v1"),
    "marked too": (held("v1 v1+v2!", 1, max_surge=1, marked=True), "keep node-1-v1"),
    "unless it could not serve": (
        changed(held("v1 v1+v2!", 1, max_surge=1, marked=True), "node-1-v1", drained=False, **NO_LONGER),
        "",
    ),
    "surging from now on the only pod of a node stays": (held("v1 v1", 1, max_surge=1), "+node-1 v2, keep node-1-v1"),
    "surging, what may only stay waits": (held("v2 v2 v1", 2, max_surge=1, nodes=STAYS), ""),
    "and stays when needed": (held("v2 v2! v1", 2, max_surge=1, nodes=STAYS), "keep node-2-v1"),
    "of two pods of one node the prepared one goes": (held("v1+v2", 0), ""),
    "if it does not alone serve": (held("v1+v2!", 0), "~node-0 v2, keep node-0-v1"),
    "a silent node changes nothing": (held("v1 v1", 1, nodes=UNREACHABLE), ""),
    "not even that it stays": (held("v1 v1", 1, rev="v1", nodes=UNREACHABLE), "keep node-1-v1"),
    "nor where it has a successor": (held("v1 v1+v2", 1, nodes=UNREACHABLE), ""),
    "a mark without the state is taken back too": (
        changed(held("v1 v1", rev="v1"), "node-1-v1", gates=(MARKED,), **NO_LONGER),
        "keep node-1-v1",
    ),
    "and goes on where it is to go": (HALF, "~node-1 v1"),
    "what cannot be taken back is left alone for a while": (
        held("v1 v1", 1, rev="v1", in_backoff={BackoffKey("cancel", "uid-node-1-v1"): NOW + 60}),
        "",
    ),
    "and while caches are behind": (held("v1 v1", 1, rev="v1", fresh=False), ""),
    "no more than the burst": (held("v1 v1 v1", 0, 1, 2, rev="v1", burst=2), "keep node-0-v1, keep node-1-v1"),
    "one that has failed is not kept": (held("v1 v1x", 1, rev="v1"), ""),
    "nor one that terminates": (held("v1 v1†", 1, rev="v1"), ""),
    "nor of a node that is gone": (held("v1 v1", 1, rev="v1", nodes=1), ""),
    "nor aimed at no node": (
        at("v1", "v1", hook=HOOK, pods=[pod("node-0", labels=HELD), prepared(pod("", labels=HELD))]),
        "",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_the_hook(of: World, expected: str) -> None:
    check(of, expected)


def test_updates_scale_in_duplicates_and_failures_go_through_the_same_hook() -> None:
    pods = [
        pod("node-0", labels=HELD),
        pod("node-1", name="a", created=ago(9)),
        pod("node-1", name="b", labels=HELD, created=ago(5)),
        failed("node-2", labels=HELD),
        pod("node-3", labels=HELD),
        pod("node-9", labels=HELD, bound=False),
    ]
    nodes = [node("node-0"), node("node-1"), node("node-2"), node("node-3", labels=WINDOWS)]
    hooked_set = ds("v1", hook=HOOK, **LINUX)
    check(world(hooked_set, nodes=nodes, pods=pods), "~node-1 v1 b, ~node-2 v1, ~node-3 v1, ~node-9 v1")
    waiting = [pods[0], pods[1], *map(prepared, pods[2:])]
    check(world(hooked_set, nodes=nodes, pods=waiting))
    released = [replace(one, labels={**one.labels, "drain": "done"}) for one in waiting]
    gone = "-node-1 v1 b, -node-2 v1, -node-3 v1, -node-9 v1"
    check(world(hooked_set, nodes=nodes, pods=released), gone)
    check(world(ds("v1", **LINUX), nodes=nodes, pods=waiting), gone)


def preparing(decided: Plan) -> list[PrepareDelete]:
    return [action for action in decided.actions if isinstance(action, PrepareDelete)]


def test_a_pod_is_made_not_ready_where_the_hook_asks_for_it() -> None:
    gate = ReadinessGate(type=KRUISE_POD_READY, open=True, present=True, index=0)
    gated = changed(held("v1", 0, hook=MARKING), "node-0-v1", gates=(gate,))
    assert [action.mark for action in preparing(check(gated, "~node-0 v1"))] == [True]
    check(held("v1", 0, marked=True))
    check(held("v1", 0, hook=MARKING))  # it has no gate
    assert [one.mark for one in preparing(check(held("v1", 0, marked=True, hook=HOOK), "~node-0 v1"))] == [False]


def test_a_message_about_a_held_pod_says_what_holds_it() -> None:
    one = pod("node-0", labels=HELD, finalizers=("demo.io/hold", "demo.io/other"))
    found = preparing(check(at("v1", hook=HOOK, pods=[one]), "~node-0 v1"))
    assert [action.held_by for action in found] == ["label drain=wait and finalizer demo.io/hold"]
    waiting = check(at("v1", hook=HOOK, pods=[prepared(one, since=NOW - 60)]))
    told = next(one.message for one in status_in(waiting).conditions if one.type == "Progressing")
    assert told == (
        "0 of 1 node have a pod of revision v2; the preDelete hook holds node-0-v1 by label drain=wait and "
        f"finalizer demo.io/hold since {rfc3339(NOW - 60)}"
    )


def test_the_generation_counts_as_observed_while_pods_are_held() -> None:
    misplaced = held("v1", 0, rev="v1", nodes=[node("node-0", labels=WINDOWS)], **LINUX)
    for waiting in (held("v1", 0), misplaced):
        decided = check(waiting)
        assert status_in(decided).observed_generation == 1


@pytest.mark.parametrize(
    ("pods", "warns"),
    [
        ([pod("node-0")], True),
        ([pod("node-0", labels={"drain": "wait"})], False),
        ([pod("node-0", finalizers=("demo.io/hold",))], False),
        ([pod("node-0", terminating=True)], False),
        ([prepared(pod("node-0"))], False),
        ([prepared(pod("node-0", labels={"drain": "wait"})), pod("node-1")], False),
    ],
)
def test_a_condition_warns_while_no_pod_has_what_the_hook_looks_for(pods: list[Pod], warns: bool) -> None:
    decided = plan(world(ds(hook=HOOK), nodes=len(pods), pods=pods))
    told = [found.message for found in status_in(decided).conditions if found.type == "HookUnmatched"]
    words = (
        "no pod has label drain=wait or label backup=todo or finalizer demo.io/hold: the preDelete hook holds none "
    )
    assert told == ([f"{words}of them back"] if warns else [])


def test_an_update_in_place_is_no_deletion() -> None:
    """The hook does not hold it, and what was prepared for a deletion stays."""
    how: dict[str, Any] = {
        "rolling_update_type": "InPlaceIfPossible",
        "changes": {"v1": InPlaceChange(labels={"a": "b"})},
    }
    check(held("v1 v1", **how), "*node-1 v2")
    check(held("v1 v1", 1, **how), "*node-1 v2")
    after = [pod("node-0", labels=HELD), prepared(pod("node-1", "v2", labels=HELD))]
    check(held("v1 v2", pods=after, **how), "keep node-1-v2")


def test_a_gate_is_opened_only_where_no_holder_wants_it_closed() -> None:
    gate = ReadinessGate(type=KRUISE_POD_READY, open=False, present=False, index=0)
    new = changed(at("v2!", hook=HOOK), "node-0-v2", gates=(gate,))
    decided = check(new, "open node-0-v2")
    assert [one.gates for one in decided.actions if isinstance(one, OpenGates)] == [(gate,)]
    for closed in (replace(gate, held_by_others=True), replace(gate, open=True)):
        check(changed(new, "node-0-v2", gates=(closed,)))
    check(held("v1", 0, marked=True))


@pytest.mark.parametrize("half", [False, True], ids=["let go", "not told to anybody"])
def test_where_the_next_write_fails_the_pod_serves_on_until_it_goes_well(half: bool) -> None:
    one = HALF.pods[1] if half else prepared(pod("node-1"))
    case, place = replace(HALF, pods=(HALF.pods[0], one)), BackoffKey("object", one.uid)
    check(replace(case, in_backoff={place: NOW + 60}), "keep node-1-v1")
    decided = check(replace(case, due_again={place: NOW - 1}), "~node-1 v1" if half else "-node-1 v1")
    assert [action.tried for action in preparing(decided)] == [True] * half
    check(replace(held("v1 v1"), in_backoff={place: NOW + 60}), "~node-0 v1")


def test_a_pod_that_waits_for_its_hook_survives_a_failed_write() -> None:
    case, place = held("v1 v1", 1), BackoffKey("object", "uid-node-1-v1")
    check(replace(case, in_backoff={place: NOW + 60}))
    check(replace(case, due_again={place: NOW - 1}))


@pytest.mark.parametrize("hook", [HOOK, None])
def test_a_pod_is_deleted_as_it_was_seen_where_a_hook_may_match_it_by_now(hook: LifecycleHook | None) -> None:
    (action,) = plan(at("v1", hook=hook)).actions
    assert isinstance(action, DeletePod)
    assert action.as_seen is (hook is not None)
