"""What is counted of DaemonSets: how their rollouts and updates of nodes ended, and how long they took."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout
from controller.api.names import InPlaceRefusal
from controller.api.objects import rfc3339
from controller.observe.daemonset_counters import (
    OF_FALLBACKS,
    OF_OPERATIONS,
    RolloutRecord,
    follow_rollout,
)
from controller.observe.metrics import Metrics
from tests.beds.worlds import ds


class Counting:
    """The counters of one DaemonSet, and a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        metrics = Metrics(version="0.1.0")
        self.registry, self.counters = metrics.registry, metrics.daemonset_counters
        self.daemonset: DaemonSet = ds()
        self.counters.show(lambda: (self.daemonset,), lambda: self.now)
        self._status: DaemonSetStatus | None = None

    def rollout(self, revision: str, *, created: bool = False) -> None:
        """A rollout to it begins, ten seconds after the last one."""
        self.now += 10
        if created:
            self.counters.revision_created(self.daemonset.uid, revision)
        record = Rollout(phase="Progressing", start_time=rfc3339(self.now))
        before, self._status = self._status, DaemonSetStatus(update_revision=revision, rollout=record)
        self.counters.status_written(self.daemonset.uid, before, self._status)

    def ends(self) -> dict[str, float]:
        found = {}
        for result in ("completed", "rolled_back", "superseded"):
            labels = {"namespace": self.daemonset.namespace, "daemonset": self.daemonset.name, "result": result}
            found[result] = self.registry.get_sample_value("kruise_daemonset_rollouts_total", labels)
        return {result: number for result, number in found.items() if number}

    def began(self, at: float, *, pod: str = "new", node: str = "node-0", uid: str = "uid") -> None:
        """The node's pod is replaced by this one."""
        self.counters.updates.began(uid, node, "recreate", at)
        self.counters.updates.created(uid, node, pod, "v2")

    def seen(self, at: float, *, pod: str = "new", node: str = "node-0", uid: str = "uid", rev: str = "v2") -> None:
        """It is ready, and available after five seconds."""
        self.counters.updates.pod_seen(uid, node, pod, rev, ready=True, wait=5, now=at)

    def unready(self, at: float) -> None:
        self.counters.updates.pod_seen("uid", "node-0", "new", "v2", ready=False, wait=5, now=at)

    def scraped(self, at: float) -> tuple[float, float]:
        """How many updates of nodes were timed until then, and their seconds in all."""
        self.now = at
        self.counters.end_finished()
        name, labels = "kruise_ds_node_update_duration_seconds", {"method": "recreate"}
        count, total = (self.registry.get_sample_value(f"{name}_{part}", labels) for part in ("count", "sum"))
        return count or 0, total or 0


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


def test_every_return_to_a_revision_rolls_the_other_one_back() -> None:
    counting = Counting()
    counting.rollout("a", created=True)
    counting.rollout("b", created=True)
    assert counting.ends() == {"superseded": 1}
    counting.rollout("a")
    assert counting.ends() == {"superseded": 1, "rolled_back": 1}
    counting.rollout("b")
    assert counting.ends() == {"superseded": 1, "rolled_back": 2}, "b was made for the first rollout to it only"


began, seen, unready, scraped = Counting.began, Counting.seen, Counting.unready, Counting.scraped
NEWER = {"pod": "newer"}
Step = tuple[Callable[..., object], float] | tuple[Callable[..., object], float, dict[str, str]]


@pytest.mark.parametrize(
    ("steps", "timed"),
    [
        pytest.param([(began, 100), (seen, 110)], (1, 15), id="available, whenever that is noticed"),
        pytest.param([(began, 100), (seen, 110), (unready, 115)], (1, 15), id="unready after it was available"),
        pytest.param([(began, 100), (seen, 110), (scraped, 200), (seen, 201)], (1, 15), id="seen after it ended"),
        pytest.param([(began, 100), (seen, 110), (unready, 112), (seen, 120)], (1, 25), id="unready in time"),
        pytest.param([(began, 100), (seen, 396)], (0, 0), id="ready, not available yet"),
        pytest.param([(began, 100), (seen, 101, {"pod": "old"})], (0, 0), id="the old pod"),
        pytest.param([(began, 100), (seen, 101, {"rev": "v1"})], (0, 0), id="the same pod, not updated yet"),
        pytest.param([(began, 100), (seen, 101, {"rev": "v1"}), (seen, 302)], (1, 207), id="updated at last"),
        pytest.param([(began, 100), (seen, 110), (began, 120, NEWER)], (1, 15), id="the next one begins"),
        pytest.param(
            [
                (began, 100),
                (seen, 110),
                (unready, 114),
                (began, 120, NEWER),
                (seen, 130, NEWER),
            ],
            (1, 15),
            id="the next one begins before its end",
        ),
    ],
)
def test_an_update_ends_once_its_pod_is_available(steps: list[Step], timed: tuple[float, float]) -> None:
    counting = Counting()
    for step, at, *fields in steps:
        step(counting, at, **dict(*fields))
    assert counting.scraped(400) == timed


def test_what_is_gone_takes_only_its_own_updates_with_it() -> None:
    counting = Counting()
    for uid in ("uid", "other"):
        for node in ("node-0", "node-1"):
            counting.began(100, node=node, uid=uid)
    counting.counters.updates.forget_node("node-1")
    counting.counters.updates.forget("other")
    for node, uid in (("node-0", "uid"), ("node-1", "uid"), ("node-0", "other")):
        counting.seen(110, node=node, uid=uid)
    assert counting.scraped(400) == (1, 15)


def test_counts_of_updates_in_place_exist_where_asked_for_or_done() -> None:
    counting = Counting()

    def reasons() -> set[str]:
        families = [one for one in counting.counters.collect() if one.name == "kruise_daemonset_in_place_fallbacks"]
        return {sample.labels["reason"] for family in families for sample in family.samples}

    assert reasons() == set()
    counting.counters.count(counting.daemonset.uid, OF_FALLBACKS, InPlaceRefusal.RESTART.value)
    assert reasons() == {"Restart"}
    counting.daemonset = ds(rolling_update_type="InPlaceIfPossible")
    assert reasons() == {one.value for one in InPlaceRefusal}


def test_of_a_daemonset_that_is_gone_nothing_is_kept() -> None:
    counting = Counting()
    uid = counting.daemonset.uid
    counting.rollout("v1")
    counting.counters.count(uid, OF_OPERATIONS, "create", "success")
    counting.counters.revision_created(uid, "v2")
    counting.counters.updates.began(uid, "node-0", "recreate", 100)
    counting.counters.forget(uid)
    counters = counting.counters
    assert [counters._counts, counters._rollouts, counters._new_revisions, counters.updates._open] == [{}] * 4
