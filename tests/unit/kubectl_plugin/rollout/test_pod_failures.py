"""What is wrong with a pod, what a node waits for, what was noted, and what looks like the network."""

from __future__ import annotations

from typing import Any

import pytest

from controller.api.objects import JSONObject
from controller.planner.world import World
from kubectl_plugin.rollout.doctor_checks import network_sign
from kubectl_plugin.rollout.last_action import LAST_ACTION, last_action
from kubectl_plugin.rollout.nodes import failure_of
from kubectl_plugin.rollout.reasons import reason_of
from kubectl_plugin.rollout.snapshot import Container, PodDetail
from kubectl_plugin.rollout.survey import survey
from tests.beds.snapshots import container, crashing, detail, observed, of_world
from tests.beds.worlds import ago, ds, everywhere, failed, pending, pod, served, world

NOT_READY = pod("node-0", ready=None)


@pytest.mark.parametrize(
    ("one", "brief"),
    [
        (detail(NOT_READY, crashing()), "CrashLoopBackOff, exit 1"),
        (detail(NOT_READY, container(ready=False, waiting="ErrImagePull")), "ErrImagePull"),
        (detail(NOT_READY, container(ready=False, exit_code=137, ended="OOMKilled")), "OOMKilled, exit 137"),
        (
            detail(NOT_READY, container(), container("side", ready=False, waiting="InvalidImageName")),
            "InvalidImageName",
        ),
        (detail(failed("node-0"), reason="Evicted"), "Evicted"),
        (detail(failed("node-0"), container(ready=False, exit_code=2)), "Failed, exit 2"),
        (detail(pending("node-0"), unschedulable="0/1 nodes: insufficient cpu"), "Unschedulable"),
        (
            PodDetail(pod=NOT_READY, init_containers=(container("init", ready=False, waiting="CrashLoopBackOff"),)),
            "CrashLoopBackOff",
        ),
        (
            PodDetail(
                pod=NOT_READY,
                init_containers=(container("init", ready=False, waiting="CrashLoopBackOff"),),
                containers=(container(ready=False, waiting="ErrImagePull"),),
            ),
            "CrashLoopBackOff",
        ),
    ],
)
def test_what_is_wrong(one: PodDetail, brief: str) -> None:
    failure = failure_of(one)
    assert failure is not None
    assert failure.brief == brief


@pytest.mark.parametrize(
    "fine",
    [
        container(ready=False, waiting="ContainerCreating"),
        container(ready=False),
        container(restarts=5, exit_code=1, ended="Error"),
        container(ready=False, exit_code=0, ended="Completed"),
    ],
    ids=["starts", "not ready yet", "failed once and runs again", "ended well"],
)
def test_what_may_still_get_well(fine: Container) -> None:
    assert failure_of(detail(pod("node-0", ready=None if not fine.ready else 0.0), fine)) is None


STARTING = pod("node-2", "v2", ready=None)


def surging(surge: int | str, *beside: Any, **more: Any) -> World:
    return world(observed(ds("v2", max_surge=surge)), nodes=3, pods=[*everywhere(3), *beside], **more)


def updating(unavailable: int, *pods: Any) -> World:
    return world(observed(ds("v2", max_unavailable=unavailable)), nodes=3, pods=pods)


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (surging(1), "Updating"),
        (surging(1, STARTING), "MaxSurgeInUse"),
        (surging(2, STARTING), "Updating"),
        (surging(2, STARTING, pod("node-1", "v2", ready=None)), "MaxSurgeInUse"),
        (surging(1, failed("node-2", "v2"), not_before={"node-2": ago(-60)}), "MaxSurgeInUse"),
        (surging("100%", *(pod(f"node-{one}", "v2", ready=None) for one in range(3))), "PodsStarting"),
        (updating(1, *everywhere(3)), "Updating"),
        (updating(1, *everywhere(2), STARTING), "MaxUnavailableInUse"),
        (updating(2, *everywhere(2), STARTING), "Updating"),
        (updating(1, *served("node-0", "node-1", rev="v2"), STARTING), "PodsStarting"),
        (updating(1, *served("node-0", "node-1", rev="v2")), "PodsMissing"),
    ],
    ids=[
        "nothing has begun",
        "one of one has two pods",
        "one of two has two pods",
        "two of two have two pods",
        "a failed new pod waits out its back-off",
        "all have two pods",
        "every node serves",
        "one of one does not serve",
        "one of two does not serve",
        "the last one",
        "the last one has no pod yet",
    ],
)
def test_what_the_next_node_waits_for(case: World, word: str) -> None:
    assert reason_of(survey(of_world(case))).word == word


@pytest.mark.parametrize(
    "text",
    [
        "",
        "paused",
        "[]",
        '{"verb":3}',
        '{"verb":"pause"}',
        '{"verb":"pause","at":"garbage","client":"x"}',
        '{"verb":"pause","at":"2025-13-20T09:04:10Z","client":"x"}',
        '{"verb":"pause","at":7,"client":"x"}',
        '{"verb":"restart","at":"2025-11-20T09:04:10Z","client":"x","pause":{"verb":"pause","at":"?","client":"x"}}',
        '{"pause":' * 5_000,
    ],
    ids=lambda text: text[-40:],
)
def test_a_garbled_note_is_none(text: str) -> None:
    assert last_action({LAST_ACTION: text}) is None


NONE: JSONObject = {}
PROXY: JSONObject = {"k8s-app": "kube-proxy"}
CNI = "mounts /var/lib/rancher/k3s/agent/etc/cni/net.d as a network plugin does"


def daemonset(
    *,
    name: str = "agent",
    namespace: str = "kube-system",
    host: bool = True,
    labels: JSONObject = NONE,
    template: JSONObject = NONE,
    path: str = "/run/xtables.lock",
) -> JSONObject:
    pod: JSONObject = {"hostNetwork": host, "volumes": [{"name": "x", "hostPath": {"path": path}}]}
    spec: JSONObject = {"template": {"metadata": {"labels": template}, "spec": pod}}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "kube-proxy"}, "looks like kube-proxy"),
        ({"labels": PROXY}, "looks like kube-proxy"),
        ({"template": PROXY}, "looks like kube-proxy"),
        ({"template": PROXY, "namespace": "agents"}, ""),
        ({"template": PROXY, "host": False}, ""),
        ({"template": {"k8s-app": "node-local-dns"}}, ""),
        ({"path": "/var/lib/rancher/k3s/agent/etc/cni/net.d", "namespace": "agents", "host": False}, CNI),
        ({"path": "/var/lib/cnidata"}, ""),
    ],
)
def test_it_looks_like(changes: Any, expected: str) -> None:
    assert network_sign(daemonset(**changes)) == expected
