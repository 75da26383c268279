"""How long a node waits for its new pod."""

from __future__ import annotations

from controller.telemetry.node_updates import Method, NodeUpdates


class Timed:
    def __init__(self) -> None:
        self.ended: list[tuple[Method, float]] = []
        self.updates = NodeUpdates(lambda method, seconds: self.ended.append((method, seconds)))

    def begin(self, uid: str, node: str, at: float) -> None:
        self.updates.began(uid, node, "recreate", at)
        self.updates.created(uid, node, "new", "v2")

    def see(self, pod: str, at: float, *, ready: bool = True, revision: str = "v2") -> None:
        self.updates.seen("uid", "node-0", pod, revision, ready=ready, wait=5, now=at)


def test_it_ends_when_the_new_pod_is_available_whenever_that_is_found_out() -> None:
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
    timed.updates.seen("uid", "node-1", "new", "v2", ready=True, wait=0, now=110)
    timed.updates.seen("other", "node-0", "new", "v2", ready=True, wait=0, now=110)
    timed.updates.settle(400)
    assert timed.ended == [("recreate", 15.0)]
