"""What is counted of DaemonSets, from one status write or one node to the next."""

from __future__ import annotations

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout
from controller.api.names import InPlaceRefusal
from controller.api.objects import rfc3339
from controller.observe.daemonset_counters import OF_FALLBACKS, OF_OPERATIONS, DaemonSetCounters
from controller.observe.process_metrics import Registry
from tests.beds.worlds import ds


class Counting:
    """The counters of one DaemonSet, and a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.registry = Registry()
        self.counters = DaemonSetCounters(self.registry)
        self.registry.register(self.counters)
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

    def recreate(self, pod: str, at: float) -> None:
        """The node's pod is replaced by this one."""
        self.counters.updates.began("uid", "node-0", "recreate", at)
        self.counters.updates.created("uid", "node-0", pod, "v2")

    def seen(self, pod: str, at: float, *, ready: bool) -> None:
        """Ready pods are available after five seconds."""
        self.counters.updates.pod_seen("uid", "node-0", pod, "v2", ready=ready, wait=5, now=at)

    def scraped(self, at: float) -> tuple[float, float]:
        """How many updates of nodes were timed until then, and their seconds in all."""
        self.now = at
        self.counters.settle()
        name, labels = "kruise_ds_node_update_duration_seconds", {"method": "recreate"}
        count, total = (self.registry.get_sample_value(f"{name}_{part}", labels) for part in ("count", "sum"))
        return count or 0, total or 0


def test_every_return_to_a_revision_rolls_the_other_one_back() -> None:
    counting = Counting()
    counting.rollout("a", created=True)
    counting.rollout("b", created=True)
    assert counting.ends() == {"superseded": 1}
    counting.rollout("a")
    assert counting.ends() == {"superseded": 1, "rolled_back": 1}
    counting.rollout("b")
    assert counting.ends() == {"superseded": 1, "rolled_back": 2}, "b was made for the first rollout to it only"


def test_an_update_ends_when_its_pod_is_available_before_the_scrape() -> None:
    counting = Counting()
    counting.recreate("new", 100)
    counting.seen("new", 110, ready=True)
    assert counting.scraped(114) == (0, 0), "ready, not available yet"
    counting.seen("new", 115, ready=False)
    assert counting.scraped(200) == (1, 15)
    counting.seen("new", 201, ready=True)
    assert counting.scraped(300) == (1, 15), "each ends once"


def test_an_ended_update_counts_though_the_next_begins_before_a_scrape() -> None:
    counting = Counting()
    counting.recreate("new", 100)
    counting.seen("new", 110, ready=True)
    counting.recreate("newer", 120)
    assert counting.scraped(200) == (1, 15)


def test_an_update_that_had_not_ended_begins_anew() -> None:
    counting = Counting()
    counting.recreate("new", 100)
    counting.seen("new", 110, ready=True)
    counting.seen("new", 114, ready=False)
    counting.recreate("newer", 120)
    counting.seen("newer", 130, ready=True)
    assert counting.scraped(200) == (1, 15)


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
