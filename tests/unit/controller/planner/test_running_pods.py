"""What pods need that are being updated in place, or have a readiness gate of ours."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.in_place import UpdateInProgress
from controller.inplace.change import NotPossible
from controller.planner.actions import ContinueInPlace
from controller.planner.plan import plan
from controller.planner.world import BackoffKey, Unpullable
from tests.beds.worlds import (
    BY_LABEL,
    CONTINUES,
    DEFERRED,
    LONG,
    NOW,
    REFUSED,
    RESIZING,
    RESTARTING,
    REVERTED,
    WANTED,
    ago,
    changing,
    check,
    ds,
    failed,
    gated,
    in_place,
    node,
    pending,
    pod,
    refusing,
    taint,
    world,
)

FALLBACK = {"kruise-ds/resize-fallback": "Recreate"}
UID = "uid-node-0-v2"


def on(pods: Any, daemonset: Any = None, **fields: Any) -> Any:
    """One node, with the current revision unless the pod is of v1."""
    return changing(daemonset, pods=[pods], nodes=1, **fields)


def new(in_progress: UpdateInProgress | None = None, **how: Any) -> Any:
    return gated(pod("node-0", "v2", ready=ago(LONG)), in_progress=in_progress, **how)


# gates


def test_a_gate_that_nobody_has_set_is_opened_and_one_that_is_open_left() -> None:
    check(on(new(present=False, open_=False)), "open node-0-v2")
    check(on(new(open_=False)), "open node-0-v2")
    check(on(new()))
    check(on(pod("node-0", "v2")))


@pytest.mark.parametrize("type_", ["Standard", "OnDelete", "paused"])
def test_whatever_the_strategy_is_by_now(type_: str) -> None:
    daemonset = {"Standard": ds("v2"), "OnDelete": ds("v2", on_delete=True), "paused": in_place(paused=True)}[type_]
    check(on(new(draining=True, since=NOW), daemonset), "open node-0-v2")


@pytest.mark.parametrize(
    "one",
    [
        replace(new(open_=False), terminating=True, finalizers=("a/b",)),
        gated(pending("node-0", "v2"), open_=False),
    ],
    ids=["on its way out", "on no node yet"],
)
def test_of_a_pod_that_cannot_be_ready_it_is_left(one: Any) -> None:
    check(on(one))


def test_of_one_that_failed_too() -> None:
    start = on(gated(failed("node-0", "v2"), open_=False), not_before={"node-0": NOW + 30})
    check(start)


def test_not_before_it_runs_what_the_spec_asks_for() -> None:
    check(on(new(RESTARTING, draining=True)))
    check(on(new(UpdateInProgress(until=NOW, restarting=("main",)), draining=True)), "open node-0-v2")


def test_what_only_time_can_tell_is_looked_at_then() -> None:
    found = check(on(new(UpdateInProgress(until=NOW + 7, restarting=("main",)), draining=True)))
    assert found.wake_at == NOW + 7


def test_a_moment_of_a_wrong_clock_is_not_waited_for() -> None:
    check(on(new(UpdateInProgress(until=NOW + 3600, restarting=("main",)), draining=True)), "open node-0-v2")
    available = plan(on(new(UpdateInProgress(until=NOW + 3600, restarting=("main",))))).status
    assert available is not None
    assert available.counts is not None
    assert available.counts.number_available == 1


@pytest.mark.parametrize("until", [NOW + 30, float("inf")])
def test_where_opening_it_fails_it_is_left_alone_for_a_while(until: float) -> None:
    check(on(new(open_=False), in_backoff={BackoffKey("gates", UID): until}))


# closed for an update that comes next


def closed(**how: Any) -> Any:
    return gated(pod("node-0", "v1"), draining=True, since=ago(5), **how)


def test_a_drained_one_stays_closed_until_its_turn() -> None:
    check(on(closed(), in_place(grace=30)))


@pytest.mark.parametrize(
    ("daemonset", "fields"),
    [
        (in_place(grace=30, paused=True), {}),
        (in_place(grace=30, partition=1), {}),
        (in_place(grace=30, selector={"track": "canary"}), {}),
        (ds("v2", on_delete=True), {}),
        (in_place(grace=30), {"verdicts": refusing("v2", "refused"), "ask_at": NOW + 60}),
        (in_place(grace=30), {"in_backoff": {BackoffKey("object", "uid-node-0-v1"): NOW + 30}}),
        (in_place("v1", grace=30), {}),
        (in_place(grace=30), {"unpulled": {"node-0": Unpullable(why="not found")}}),
    ],
    ids=[
        "a pause",
        "a partition",
        "a selector",
        "OnDelete",
        "a template that is refused",
        "a failure",
        "a revert",
        "an image that cannot be pulled",
    ],
)
def test_it_gets_its_traffic_back_where_nothing_comes_of_it(daemonset: Any, fields: Any) -> None:
    check(on(closed(), daemonset, **fields), "open node-0-v1")


def test_also_on_a_node_that_may_only_keep_it() -> None:
    start = changing(in_place(grace=30), pods=[closed()], nodes=[node("node-0", taint("x"))])
    check(start, "open node-0-v1")


def test_where_it_is_recreated_instead_it_goes() -> None:
    check(on(closed(), in_place(grace=30), change=NotPossible(why="x"), now=NOW + 60), "-node-0 v1")


# the next batch


def test_the_next_batch_is_not_due_before_the_first_counts_as_run() -> None:
    later = replace(CONTINUES, due=NOW + 5)
    assert check(on(new(later))).wake_at == NOW + 5
    check(on(new(replace(CONTINUES, due=NOW))), "ContinueInPlace node-0")


def test_the_next_batch_is_asked_for() -> None:
    check(on(new(CONTINUES)), "ContinueInPlace node-0")
    check(on(new(CONTINUES), in_backoff={BackoffKey("object", UID): NOW + 30}))
    check(
        on(
            new(CONTINUES),
            awaited=frozenset([BackoffKey("object", UID)]),
            in_backoff={BackoffKey("object", UID): float("inf")},
        )
    )


def test_of_an_older_revision_too_while_nothing_else_comes() -> None:
    """Half of it would stay, not ready, for as long as the pause lasts."""
    half = gated(pod("node-0", "v1", ready=None), in_progress=CONTINUES)
    found = check(on(half, in_place(paused=True)), "ContinueInPlace node-0")
    (action,) = found.actions
    assert isinstance(action, ContinueInPlace)
    assert action.revision.hash == "v1"
    check(on(half, unpulled={"node-0": Unpullable(why="not found")}), "ContinueInPlace node-0")
    check(on(half), "*node-0 v2")


def test_of_a_revision_that_is_not_stored_any_more_too() -> None:
    half = gated(pod("node-0", "v1", ready=None), in_progress=CONTINUES)
    start = on(half, in_place(paused=True))
    kept = tuple(one for one in start.revisions if one.hash != "v1")
    (action,) = plan(replace(start, revisions=kept)).actions
    assert isinstance(action, ContinueInPlace)


# resizes


def test_a_resize_that_is_not_written_yet_is() -> None:
    check(on(new(WANTED)), "ResizePod node-0")
    check(on(new(RESIZING)))
    check(on(new(DEFERRED)))


def test_a_refusal_of_the_kubelet_is_told_and_recreated_where_wanted() -> None:
    told = check(on(new(REFUSED))).notes
    assert [(one.reason, "no room" in one.message) for one in told] == [("ResizeRefused", True)]
    check(on(new(REFUSED), in_place(annotations=FALLBACK)), "-node-0 v2")


def test_what_the_server_refuses_too_and_is_tried_again() -> None:
    told = check(on(new(WANTED), refused_resizes={UID: "403"}), "ResizePod node-0").notes
    assert [(one.reason, "403" in one.message) for one in told] == [("ResizeRefused", True)]
    start = on(new(WANTED), in_place(annotations=FALLBACK), refused_resizes={UID: "403"})
    check(start, "-node-0 v2")


def test_where_nobody_can_resize_it_is_recreated_whatever_was_asked_for() -> None:
    check(on(new(WANTED), refused_resizes={UID: "404"}, resizable=False), "-node-0 v2")


# beside the rest


def test_care_is_taken_beside_the_rollout_and_never_of_the_same_pod() -> None:
    pods = [
        gated(pod("node-0", "v2"), open_=False),
        gated(pod("node-1", "v1", ready=None), in_progress=WANTED),
        gated(pod("node-2", "v2"), in_progress=WANTED),
    ]
    start = changing(pods=pods, nodes=3, change=BY_LABEL)
    check(start, "*node-1 v2", "open node-0-v2", "ResizePod node-2")


def test_no_more_than_the_burst() -> None:
    pods = [gated(pod(f"node-{n}", "v2"), open_=False) for n in range(5)]
    check(changing(in_place(burst=2), pods=pods), "open node-0-v2", "open node-1-v2")


def test_nothing_while_the_caches_are_behind() -> None:
    check(on(new(open_=False), fresh=False))
    assert not plan(world(ds("v2"), nodes=1, pods=[new(WANTED)], fresh=False)).actions


# what somebody takes back


def test_a_pod_whose_image_was_put_back_gets_its_former_label() -> None:
    check(on(new(REVERTED)), "relabel node-0-v2 v1")
    check(on(new(REVERTED), in_backoff={BackoffKey("object", UID): LONG}), "relabel node-0-v2 v1")
    check(on(new(REVERTED), in_backoff={BackoffKey("label", UID): LONG}))


# while a resize waits


@pytest.mark.parametrize("waiting", [DEFERRED, REFUSED])
def test_a_running_container_gets_traffic_back_while_its_resize_waits(waiting: UpdateInProgress) -> None:
    check(on(new(waiting, draining=True)), "open node-0-v2")
    check(on(new(replace(waiting, restarting=("main",)), draining=True)))
    check(on(new(RESIZING, draining=True)))


def test_so_it_does_where_the_server_refuses_the_resize() -> None:
    check(
        on(
            new(WANTED, draining=True), refused_resizes={UID: "no room"}, in_backoff={BackoffKey("object", UID): LONG}
        ),
        "open node-0-v2",
    )
    check(on(new(WANTED, draining=True), in_backoff={BackoffKey("object", UID): LONG}))


def test_not_while_it_is_resized_again() -> None:
    check(on(new(WANTED, draining=True), refused_resizes={UID: "no room"}), "ResizePod node-0")


@pytest.mark.parametrize(
    ("no_resize", "words"),
    [("", "the controller may not change cpu and memory in place any more"), ("it is too old", "it is too old")],
)
def test_without_the_gate_a_pod_with_new_resources_is_replaced(no_resize: str, words: str) -> None:
    """Whom the server has not answered itself hears what it said of another pod."""
    told = check(on(new(WANTED), resizable=False, no_resize=no_resize), "-node-0 v2").notes
    assert [one.message.partition(" cannot be resized: ")[2] for one in told] == [words]
