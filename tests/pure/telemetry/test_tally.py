"""What is counted of DaemonSets, from one status write or one node to the next."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Rollout
from controller.api.meta import rfc3339
from controller.telemetry.tally import Tally
from tests.builders import ds


class Counting:
    """The tally of one DaemonSet, and a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.registry = CollectorRegistry()
        self.tally = Tally(self.registry)
        self.daemonset: DaemonSet = ds()
        self.tally.show(lambda: (self.daemonset,), lambda: self.now)
        self._status: DaemonSetStatus | None = None

    def rollout(self, revision: str, *, created: bool = False) -> None:
        """A rollout to it begins, ten seconds after the last one."""
        self.now += 10
        if created:
            self.tally.made_revision(self.daemonset.uid, revision)
        record = Rollout(phase="Progressing", start_time=rfc3339(self.now))
        before, self._status = self._status, DaemonSetStatus(update_revision=revision, rollout=record)
        self.tally.wrote_status(self.daemonset.uid, before, self._status)

    def ends(self) -> dict[str, float]:
        found = {}
        for result in ("completed", "rolled_back", "superseded"):
            labels = {"namespace": self.daemonset.namespace, "daemonset": self.daemonset.name, "result": result}
            found[result] = self.registry.get_sample_value("kruise_daemonset_rollouts_total", labels)
        return {result: number for result, number in found.items() if number}


def test_every_return_to_a_revision_rolls_the_other_one_back() -> None:
    counting = Counting()
    counting.rollout("a", created=True)
    counting.rollout("b", created=True)
    assert counting.ends() == {"superseded": 1}
    counting.rollout("a")
    assert counting.ends() == {"superseded": 1, "rolled_back": 1}
    counting.rollout("b")
    assert counting.ends() == {"superseded": 1, "rolled_back": 2}, "b was made for the first rollout to it only"
