"""How long rollouts and updates of nodes took, and how they ended."""

from __future__ import annotations

import pytest

from controller.api.daemonset import DaemonSetStatus, Rollout
from controller.api.objects import rfc3339
from controller.observe.daemonset_counters import Method, NodeUpdates, RolloutRecord, follow_rollout


def status(
    revision: str, phase: str, start: float, *, since: float = 0.0, completed: float | None = None, target: int = 3
) -> DaemonSetStatus:
    """Of three nodes."""
    return DaemonSetStatus(
        desired_number_scheduled=3,
        update_revision=revision,
        rollout=Rollout(
            phase=phase,
            target=target,
            start_time=rfc3339(start),
            last_transition_time=rfc3339(since or start),
            completion_time=None if completed is None else rfc3339(completed),
        ),
    )


HEALTHY = status("b", "Healthy", 100, completed=160)
AGAIN = status("a", "Progressing", 500)


@pytest.mark.parametrize(
    ("before", "after", "is_new", "reported"),
    [
        (None, status("b", "Progressing", 100), True, None),
        (None, HEALTHY, True, ("completed", 400)),
        (status("b", "Progressing", 100), HEALTHY, True, ("completed", 400)),
        (status("b", "Progressing", 100), AGAIN, True, ("superseded", 400)),
        (status("b", "Progressing", 100), AGAIN, False, ("rolled_back", 400)),
        (status("b", "Held", 100, completed=160), AGAIN, True, ("completed", 60)),
        (status("b", "Held", 100, completed=160), AGAIN, False, ("rolled_back", 400)),
        (status("b", "Progressing", 100), status("b", "Held", 100, completed=160), True, None),
        (HEALTHY, AGAIN, False, None),
        (status("b", "Degraded", 100, completed=160), HEALTHY, True, None),
        (status("b", "Degraded", 100, completed=160, target=1), HEALTHY, True, ("completed", 400)),
    ],
    ids=[
        "begun",
        "healthy at the first look",
        "healthy",
        "replaced",
        "back",
        "held then replaced",
        "held then back",
        "held",
        "over",
        "well again",
        "ill while held by a partition, under another leader",
    ],
)
def test_how_a_rollout_ends(
    before: DaemonSetStatus | None, after: DaemonSetStatus, is_new: bool, reported: tuple[str, float] | None
) -> None:
    _, end = follow_rollout(RolloutRecord(), before, after, is_new=is_new, now=500)
    assert (end and (end.result, end.seconds)) == reported


def test_waiting_counts_and_each_end_is_reported_once() -> None:
    steps = [
        (status("b", "Progressing", 100), 100.0),
        (status("b", "Paused", 100, since=200), 200.0),
        (status("b", "Progressing", 100, since=260), 260.0),
        (status("b", "Held", 100, since=300, completed=300), 300.0),
        (status("b", "Progressing", 100, since=340), 340.0),
        (status("b", "Healthy", 100, since=400, completed=400), 400.0),
        (status("b", "Degraded", 100, since=450, completed=400), 450.0),
        (status("b", "Healthy", 100, since=460, completed=400), 460.0),
    ]
    record, before, reported = RolloutRecord(), None, []
    for after, now in steps:
        record, end = follow_rollout(record, before, after, is_new=True, now=now)
        before = after
        if end is not None:
            reported.append((end.result, end.seconds, end.waited))
    assert reported == [("completed", 300, 100)]


def test_a_pause_is_counted_once_and_reported_with_the_end() -> None:
    paused, record = status("b", "Paused", 100, since=200), RolloutRecord()
    for after, now in ((paused, 250.0), (paused, 280.0), (status("b", "Progressing", 100, since=300), 300.0)):
        record, end = follow_rollout(record, paused, after, is_new=False, now=now)
        assert end is None
    record, end = follow_rollout(record, status("b", "Progressing", 100), HEALTHY, is_new=False, now=400.0)
    assert end is not None
    assert (end.waited, end.seconds) == (100.0, 300.0)


class Timed:
    def __init__(self) -> None:
        self.ended: list[tuple[Method, float]] = []
        self.updates = NodeUpdates(lambda method, seconds: self.ended.append((method, seconds)))

    def begin(self, uid: str, node: str, at: float) -> None:
        self.updates.began(uid, node, "recreate", at)
        self.updates.created(uid, node, "new", "v2")

    def see(self, pod: str, at: float, *, ready: bool = True, revision: str = "v2") -> None:
        self.updates.pod_seen("uid", "node-0", pod, revision, ready=ready, wait=5, now=at)


def test_an_update_ends_when_its_pod_is_available_not_when_noticed() -> None:
    timed = Timed()
    timed.begin("uid", "node-0", 100)
    timed.see("new", 110)
    timed.updates.settle(400)
    timed.updates.settle(500)
    assert timed.ended == [("recreate", 15.0)]


def test_the_old_pod_ends_nothing() -> None:
    timed = Timed()
    timed.begin("uid", "node-0", 100)
    timed.see("old", 101)
    timed.updates.settle(400)
    assert timed.ended == []


def test_a_pod_that_is_updated_in_place_ends_nothing_as_it_was() -> None:
    timed = Timed()
    timed.begin("uid", "node-0", 100)
    timed.see("new", 101, revision="v1")
    timed.updates.settle(400)
    assert timed.ended == []
    timed.see("new", 402)
    timed.updates.settle(500)
    assert timed.ended == [("recreate", 307.0)]


def test_a_pod_that_gets_unready_in_time_begins_its_wait_anew() -> None:
    timed = Timed()
    timed.begin("uid", "node-0", 100)
    timed.see("new", 110)
    timed.see("new", 112, ready=False)
    timed.see("new", 120)
    timed.updates.settle(400)
    assert timed.ended == [("recreate", 25.0)]


def test_what_is_gone_takes_only_its_own_updates_with_it() -> None:
    timed = Timed()
    for uid in ("uid", "other"):
        for node in ("node-0", "node-1"):
            timed.begin(uid, node, 100)
    timed.updates.forget_node("node-1")
    timed.updates.forget("other")
    timed.see("new", 110)
    timed.updates.pod_seen("uid", "node-1", "new", "v2", ready=True, wait=0, now=110)
    timed.updates.pod_seen("other", "node-0", "new", "v2", ready=True, wait=0, now=110)
    timed.updates.settle(400)
    assert timed.ended == [("recreate", 15.0)]
