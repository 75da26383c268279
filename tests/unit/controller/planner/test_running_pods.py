"""What pods need that are being updated in place, or have a readiness gate of ours."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.in_place import UpdateInProgress
from controller.inplace.change import NotPossible
from controller.planner.actions import ContinueInPlace
from controller.planner.plan import plan
from controller.planner.world import RESIZE_DISABLED, BackoffKey, Unpullable, World
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
    node,
    pending,
    pod,
    refusing,
    taint,
)

FALLBACK = {"kruise-ds/resize-fallback": "Recreate"}
UID = "uid-node-0-v2"
UNPULLED = {"node-0": Unpullable(why="not found")}


def on(one: Any, daemonset: Any = None, **fields: Any) -> World:
    """One node, with the current revision unless the pod is of v1."""
    return changing(daemonset, pods=[one], nodes=fields.pop("nodes", 1), **fields)


def new(in_progress: UpdateInProgress | None = None, **how: Any) -> Any:
    return gated(pod("node-0", "v2", ready=ago(LONG)), in_progress=in_progress, **how)


def drained(until: float) -> Any:
    """It restarts, which may count as run at that moment."""
    return new(UpdateInProgress(until=until, restarting=("main",)), draining=True)


def waits(kind: Any, until: float = NOW + 30, uid: str = UID) -> dict[Any, float]:
    return {BackoffKey(kind, uid): until}


CLOSED = gated(pod("node-0", "v1"), draining=True, since=ago(5))
HALF = gated(pod("node-0", "v1", ready=None), in_progress=CONTINUES)
TWO_DONE = replace(DEFERRED, restarting=("main",)), replace(REFUSED, restarting=("main",))
CASES: dict[str, tuple[World, str]] = {
    "a gate that nobody has set is opened": (on(new(present=False, open_=False)), "open node-0-v2"),
    "one that is closed too": (on(new(open_=False)), "open node-0-v2"),
    "one that is open is left": (on(new()), ""),
    "a pod without one too": (on(pod("node-0", "v2")), ""),
    "with Standard it is opened": (on(new(draining=True, since=NOW), ds("v2")), "open node-0-v2"),
    "with OnDelete": (on(new(draining=True, since=NOW), ds("v2", on_delete=True)), "open node-0-v2"),
    "while paused": (on(new(draining=True, since=NOW), paused=True), "open node-0-v2"),
    "not of a pod on its way out": (on(replace(new(open_=False), terminating=True, finalizers=("a/b",))), ""),
    "nor on no node yet": (on(gated(pending("node-0", "v2"), open_=False)), ""),
    "nor of one that failed": (on(gated(failed("node-0", "v2"), open_=False), not_before={"node-0": NOW + 30}), ""),
    "nor before it runs what the spec asks for": (on(new(RESTARTING, draining=True)), ""),
    "but once that may count": (on(drained(NOW)), "open node-0-v2"),
    "a moment of a wrong clock is not waited for": (on(drained(NOW + 3600)), "open node-0-v2"),
    "where opening it fails it is left alone for a while": (on(new(open_=False), in_backoff=waits("gates")), ""),
    "or until there is an answer": (on(new(open_=False), in_backoff=waits("gates", inf)), ""),
    "or while something else is written to the pod": (
        on(new(open_=False), in_flight=frozenset(waits("object")), in_backoff=waits("object", inf)),
        "",
    ),
    "no more gates than the burst": (
        changing(pods=[gated(pod(f"node-{n}", "v2"), open_=False) for n in range(5)], burst=2),
        "open node-0-v2, open node-1-v2",
    ),
    "none while the caches are behind": (on(new(open_=False), fresh=False), ""),
    "nor is anything else done": (on(new(WANTED), ds("v2"), fresh=False), ""),
    "a drained one stays closed until its turn": (on(CLOSED, grace=30), ""),
    "a pause opens it": (on(CLOSED, grace=30, paused=True), "open node-0-v1"),
    "a partition": (on(CLOSED, grace=30, partition=1), "open node-0-v1"),
    "a selector": (on(CLOSED, grace=30, selector={"track": "canary"}), "open node-0-v1"),
    "OnDelete": (on(CLOSED, ds("v2", on_delete=True)), "open node-0-v1"),
    "a template that is refused": (
        on(CLOSED, grace=30, verdicts=refusing("v2", "refused"), retry_dry_run_at=NOW + 60),
        "open node-0-v1",
    ),
    "a failure": (on(CLOSED, grace=30, in_backoff=waits("object", uid=CLOSED.uid)), "open node-0-v1"),
    "a revert": (on(CLOSED, rev="v1", grace=30), "open node-0-v1"),
    "an image that cannot be pulled": (on(CLOSED, grace=30, unpulled=UNPULLED), "open node-0-v1"),
    "a node that may only keep it": (on(CLOSED, grace=30, nodes=[node("node-0", taint("x"))]), "open node-0-v1"),
    "where it is recreated instead it goes": (
        on(CLOSED, grace=30, change=NotPossible(why="x"), now=NOW + 60),
        "-node-0 v1",
    ),
    "the next batch is asked for": (on(new(CONTINUES)), "ContinueInPlace node-0"),
    "not again while that fails": (on(new(CONTINUES), in_backoff=waits("object")), ""),
    "nor before there is an answer": (
        on(new(CONTINUES), in_flight=frozenset(waits("object")), in_backoff=waits("object", inf)),
        "",
    ),
    "once the first counts as run": (on(new(replace(CONTINUES, due=NOW))), "ContinueInPlace node-0"),
    "of an older revision too while its image cannot be pulled": (
        on(HALF, unpulled=UNPULLED),
        "ContinueInPlace node-0",
    ),
    "else it is updated": (on(HALF), "*node-0 v2"),
    "a resize that is not written yet is": (on(new(WANTED)), "ResizePod node-0"),
    "one that is, is not": (on(new(RESIZING)), ""),
    "nor one that is deferred": (on(new(DEFERRED)), ""),
    "refused by the kubelet it is recreated where wanted": (on(new(REFUSED), annotations=FALLBACK), "-node-0 v2"),
    "by the server too": (on(new(WANTED), annotations=FALLBACK, refused_resizes={UID: "403"}), "-node-0 v2"),
    "where nobody can resize it always is": (
        on(new(WANTED), refused_resizes={UID: "404"}, no_resize=RESIZE_DISABLED),
        "-node-0 v2",
    ),
    "a running container gets traffic back while its resize is deferred": (
        on(new(DEFERRED, draining=True)),
        "open node-0-v2",
    ),
    "or refused": (on(new(REFUSED, draining=True)), "open node-0-v2"),
    "not one that restarts": (on(new(TWO_DONE[0], draining=True)), ""),
    "nor that": (on(new(TWO_DONE[1], draining=True)), ""),
    "nor one that is resized": (on(new(RESIZING, draining=True)), ""),
    "it does where the server refuses the resize": (
        on(new(WANTED, draining=True), refused_resizes={UID: "no room"}, in_backoff=waits("object", LONG)),
        "open node-0-v2",
    ),
    "not where it only failed": (on(new(WANTED, draining=True), in_backoff=waits("object", LONG)), ""),
    "nor while it is resized again": (
        on(new(WANTED, draining=True), refused_resizes={UID: "no room"}),
        "ResizePod node-0",
    ),
    "a pod whose image was put back gets its former label": (on(new(REVERTED)), "relabel node-0-v2 v1"),
    "though another write to it failed": (
        on(new(REVERTED), in_backoff=waits("object", LONG)),
        "relabel node-0-v2 v1",
    ),
    "not again while that fails there": (on(new(REVERTED), in_backoff=waits("label", LONG)), ""),
    "beside the rollout, and never of the same pod": (
        changing(
            change=BY_LABEL,
            pods=[
                gated(pod("node-0", "v2"), open_=False),
                gated(pod("node-1", "v1", ready=None), in_progress=WANTED),
                gated(pod("node-2", "v2"), in_progress=WANTED),
            ],
        ),
        "*node-1 v2, open node-0-v2, ResizePod node-2",
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_care_for_running_pods(of: World, expected: str) -> None:
    check(of, expected)


def test_what_only_time_can_tell_is_looked_at_then() -> None:
    assert check(on(drained(NOW + 7))).wake_at == NOW + 7
    assert check(on(new(replace(CONTINUES, due=NOW + 5)))).wake_at == NOW + 5
    available = plan(on(new(UpdateInProgress(until=NOW + 3600, restarting=("main",))))).status
    assert available is not None
    assert available.counts is not None
    assert available.counts.number_available == 1, "a wrong clock is not believed"


@pytest.mark.parametrize("stored", [True, False])
def test_the_next_batch_of_an_older_revision_is_its_own(stored: bool) -> None:
    """Half of it would stay, not ready, for as long as the pause lasts; also where it is not stored any more."""
    start = on(HALF, paused=True)
    kept = tuple(one for one in start.revisions if stored or one.hash != "v1")
    (action,) = plan(replace(start, revisions=kept)).actions
    assert isinstance(action, ContinueInPlace)
    assert not stored or action.revision.hash == "v1"


@pytest.mark.parametrize(
    ("in_progress", "refused", "words", "expected"),
    [(REFUSED, {}, "no room", ""), (WANTED, {UID: "403"}, "403", "ResizePod node-0")],
    ids=["by the kubelet", "by the server, and it is tried again"],
)
def test_a_refused_resize_is_reported(in_progress: Any, refused: dict[str, str], words: str, expected: str) -> None:
    told = check(on(new(in_progress), refused_resizes=refused), expected).notes
    assert [(one.reason, words in one.message) for one in told] == [("ResizeRefused", True)]


@pytest.mark.parametrize("words", [RESIZE_DISABLED, "it is too old"])
def test_without_the_gate_a_pod_with_new_resources_is_replaced(words: str) -> None:
    """Whom the server has not answered itself hears what it said of another pod."""
    told = check(on(new(WANTED), no_resize=words), "-node-0 v2").notes
    assert [one.message.partition(" cannot be resized: ")[2] for one in told] == [words]
