"""The model without any transport: what a test may turn, and what the contract cannot reach."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from controller.kube.requests import Request
from tests.beds.objects import demo, pod
from tests.beds.simulator import Attempt, Cluster, api
from tests.beds.simulator.deletion import DeleteOptions
from tests.beds.simulator.kinds import DAEMONSETS, NAMESPACES, PODS
from tests.beds.simulator.objects import Kind
from tests.beds.simulator.refusal import Refused, forbidden
from tests.beds.simulator.updates import UpdateRequest

NOON = 1_790_000_000.0


def cluster_at_noon(**options: Any) -> Cluster:
    return Cluster(lambda: NOON, **options)


def lines(cluster: Cluster, **query: str) -> list[bytes]:
    request = Request(method="GET", path="/api/v1/pods", query=(("watch", "1"), *query.items()))
    return api.watch(cluster, request).take()


def test_an_admission_hook_refuses_what_it_likes() -> None:
    cluster = cluster_at_noon()

    def quota(attempt: Attempt) -> None:
        if attempt.verb == "create" and attempt.kind is PODS and len(cluster.store.objects[PODS]) >= 2:
            raise forbidden(PODS, attempt.name, "exceeded quota: pods")

    cluster.admission.append(quota)
    cluster.create(PODS, "default", pod("one"))
    cluster.create(PODS, "default", pod("two"))
    with pytest.raises(Refused, match='pods "three" is forbidden: exceeded quota: pods'):
        cluster.create(PODS, "default", pod("three"))
    cluster.delete(PODS, "default", "one", DeleteOptions())
    cluster.create(PODS, "default", pod("three"))


def test_namespaces_come_into_being_unless_the_cluster_is_strict() -> None:
    cluster_at_noon().create(PODS, "new", pod("one"))
    with pytest.raises(Refused, match='namespaces "new" not found'):
        cluster_at_noon(strict_namespaces=True).create(PODS, "new", pod("one"))


def test_garbage_waits_until_it_is_collected_where_a_test_wants_that() -> None:
    cluster = cluster_at_noon(collect=False)
    head = cluster.create(DAEMONSETS, "default", demo())
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "name": "demo", "uid": head.uid}
    cluster.create(PODS, "default", pod("one", ownerReferences=[owner]))
    cluster.delete(DAEMONSETS, "default", "demo", DeleteOptions())
    assert ("default", "one") in cluster.store.objects[PODS]
    cluster.collect_garbage()
    assert cluster.store.objects[PODS] == {}


def test_a_namespace_goes_with_everything_in_it() -> None:
    cluster = cluster_at_noon()
    cluster.create(PODS, "team", pod("free"))
    cluster.create(PODS, "team", pod("bound", on="worker-01"))
    cluster.delete(NAMESPACES, "", "team", DeleteOptions())
    assert list(cluster.store.objects[PODS]) == [("team", "bound")]
    assert cluster.get(NAMESPACES, "", "team").object["status"]["phase"] == "Terminating"
    cluster.delete(PODS, "team", "bound", DeleteOptions(grace=0))
    with pytest.raises(Refused, match="not found"):
        cluster.get(NAMESPACES, "", "team")


def test_a_short_history_forgets_and_says_so() -> None:
    cluster = Cluster(lambda: NOON, history=3)
    first = cluster.create(PODS, "default", pod("p0"))
    for number in range(1, 6):
        cluster.create(PODS, "default", pod(f"p{number}"))
    (line,) = lines(cluster, resourceVersion=str(first.version))
    assert b'"type":"ERROR"' in line
    assert b'"code":410' in line
    cluster.gone_as_event = False
    with pytest.raises(Refused) as caught:
        lines(cluster, resourceVersion=str(first.version))
    assert caught.value.code == 410
    assert len(lines(cluster, resourceVersion=str(cluster.store.version - 2))) == 2


def test_an_old_server_knows_no_streaming_of_initial_events() -> None:
    cluster = cluster_at_noon(watch_list=False)
    with pytest.raises(Refused) as caught:
        lines(cluster, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_a_kind_is_a_row_that_a_test_may_add_and_take_away() -> None:
    cluster = cluster_at_noon()
    jobs = Kind("apps.kruise.io", ("v1alpha1",), "broadcastjobs", "BroadcastJob", custom=True, status=True)
    path = "/apis/apps.kruise.io/v1alpha1/namespaces/default/broadcastjobs"
    assert api.handle(cluster, Request(method="GET", path=path)).status == 404
    cluster.store.add_kind(jobs)
    body = b'{"apiVersion":"apps.kruise.io/v1alpha1","kind":"BroadcastJob","metadata":{"name":"one"},"spec":{}}'
    assert api.handle(cluster, Request(method="POST", path=path, body=body)).status == 201
    cluster.store.remove_kind(jobs)
    assert api.handle(cluster, Request(method="GET", path=path)).status == 404


def test_times_come_from_the_given_clock() -> None:
    cluster = cluster_at_noon()
    made = cluster.create(PODS, "default", pod("one", on="worker-01"))
    assert made.metadata["creationTimestamp"] == "2026-09-21T14:13:20Z"
    terminating = cluster.delete(PODS, "default", "one", DeleteOptions()).object
    assert terminating.metadata["deletionTimestamp"] == "2026-09-21T14:13:50Z"


def test_the_same_seed_gives_the_same_names_and_uids() -> None:
    made = [Cluster(lambda: NOON, seed=7).create(PODS, "default", pod("", generateName="x-")) for _ in range(2)]
    assert made[0].object == made[1].object
    other = Cluster(lambda: NOON, seed=8).create(PODS, "default", pod("", generateName="x-"))
    assert other.uid != made[0].uid


def test_what_is_stored_never_changes_in_place() -> None:
    cluster = cluster_at_noon()
    before = cluster.create(PODS, "default", pod("one", labels={"a": "1"}))
    kept = before.copy()

    def relabel(found: dict[str, object]) -> dict[str, object]:
        metadata = found["metadata"]
        assert isinstance(metadata, dict)
        metadata["labels"]["a"] = "2"
        return found

    after = cluster.update(PODS, "default", "one", UpdateRequest(relabel))
    assert before.object == kept
    assert after.metadata["labels"] == {"a": "2"}


def test_a_restored_backup_brings_back_what_there_was_and_its_version() -> None:
    cluster = cluster_at_noon()
    store = cluster.store
    one = cluster.create(PODS, "default", pod("one"))
    backup = store.backup()
    cluster.create(PODS, "default", pod("two"))
    cluster.delete(PODS, "default", "one", DeleteOptions())
    watch = api.watch(cluster, Request(method="GET", path="/api/v1/pods", query=(("watch", "1"),)))
    store.restore(backup)
    assert watch.closed
    assert (store.version, store.objects[PODS]) == (one.version, {("default", "one"): one})
    assert store.by_uid[one.uid] is one
    with pytest.raises(Refused, match="Too large resource version"):
        lines(cluster, resourceVersion=str(one.version + 1))
    assert int(cluster.create(PODS, "default", pod("three")).metadata["resourceVersion"]) == one.version + 1


def lines_run(work: Callable[[], object]) -> int:
    """Lines of Python, each as often as it is run: unlike seconds, they are the same on a busy machine."""
    run = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal run
        run += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return run


def test_a_create_is_a_few_hundred_lines_among_a_thousand_objects() -> None:
    cluster = cluster_at_noon()
    watch = api.watch(cluster, Request(method="GET", path="/api/v1/pods", query=(("watch", "1"),)))
    first = lines_run(lambda: cluster.create(PODS, "default", pod("pod-0")))
    for number in range(1, 999):
        cluster.create(PODS, "default", pod(f"pod-{number}"))
    last = lines_run(lambda: cluster.create(PODS, "default", pod("pod-999")))
    assert last <= first < 500, "5,000 nodes would be no fun"
    assert len(watch.take()) == 1000
