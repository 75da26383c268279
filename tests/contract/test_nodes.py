"""The played scheduler and kubelets, on both API servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.beds.api import LEASES, NODES, PODS, Api, Object, Predicate
from tests.beds.kubelet_cases import CASES, MISSING, image
from tests.beds.nodes import DEAD, MANUAL, Behaviour, Nodes
from tests.beds.objects import condition, is_ready, names, pod
from tests.beds.watched_pod import watching
from tests.contract.bed import WAIT_SECONDS, ApiServer

HARD_TAINT = {"key": "test", "value": "x", "effect": "NoSchedule"}


def ready(count: int = 1) -> Predicate:
    return lambda found: len(found) == count and all(is_ready(item) for item in found)


def each(test: Callable[[Object], bool]) -> Predicate:
    """There is something, and `test` holds for all of it."""
    return lambda found: bool(found) and all(test(item) for item in found)


def nothing(found: list[Object]) -> bool:
    return not found


def unschedulable(words: str) -> Predicate:
    def holds(found: list[Object]) -> bool:
        return any(
            condition(item, "PodScheduled").get("status") == "False"
            and words in condition(item, "PodScheduled").get("message", "")
            for item in found
        )

    return holds


def waits_with(reason: str) -> Predicate:
    return lambda found: (
        [
            state["state"].get("waiting", {}).get("reason")
            for item in found
            for state in item["status"].get("containerStatuses") or []
        ]
        == [reason]
    )


async def test_a_pod_is_bound_to_the_node_it_names_and_runs(bed: ApiServer) -> None:
    async with bed.nodes(3) as (_, (_, second, _)):
        await bed.api.create(PODS, pod("one", aimed_at=second))
        (found,) = await bed.api.wait_for(PODS, ready(), "one is ready")
        assert found["spec"]["nodeName"] == second
        status = found["status"]
        assert status["phase"] == "Running"
        assert status["podIP"]
        for name in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
            assert condition(found, name)["status"] == "True", name
            assert condition(found, name)["lastTransitionTime"], name
        (state,) = status["containerStatuses"]
        assert (state["name"], state["image"], state["ready"], state["restartCount"]) == ("main", "busybox", True, 0)
        assert state["imageID"]
        assert state["containerID"]
        assert "running" in state["state"]


async def test_a_deleted_pod_is_gone_when_its_node_has_let_it_go(bed: ApiServer) -> None:
    async with bed.nodes(behaviour=Behaviour(terminate=None)) as (nodes, (name,)):
        await bed.api.create(PODS, pod("one", aimed_at=name))
        await bed.api.wait_for(PODS, ready(), "one is ready")
        await bed.api.delete(PODS, "one")
        assert (await bed.api.get(PODS, "one"))["metadata"]["deletionTimestamp"]
        nodes.behave(name, Behaviour())
        await bed.api.wait_for(PODS, nothing, "one is gone")


async def test_a_taint_keeps_a_pod_away_until_it_is_gone(bed: ApiServer) -> None:
    async with bed.nodes(taints=[HARD_TAINT]) as (_, (name,)):
        await bed.api.create(PODS, pod("one", aimed_at=name))
        await bed.api.wait_for(PODS, unschedulable("untolerated taint"), "one is refused")
        await bed.api.patch(NODES, name, {"spec": {"taints": None}})
        await bed.api.wait_for(PODS, ready(), "one is ready")


async def test_an_image_that_cannot_be_pulled_leaves_the_container_waiting(bed: ApiServer) -> None:
    async with bed.nodes(behaviour=Behaviour(missing_images=("*:typo",))) as (nodes, (name,)):
        await bed.api.create(PODS, pod("one", aimed_at=name, image="busybox:typo"))
        (found,) = await bed.api.wait_for(PODS, waits_with("ErrImagePull"), "one waits")
        assert found["status"]["phase"] == "Pending"
        nodes.behave(name, Behaviour())
        await bed.api.wait_for(PODS, ready(), "one is ready")


async def test_a_rejected_pod_has_failed(bed: ApiServer) -> None:
    async with bed.nodes(behaviour=Behaviour(reject="OutOfcpu")) as (_, (name,)):
        await bed.api.create(PODS, pod("one", aimed_at=name))
        failed = each(lambda item: item["status"]["phase"] == "Failed")
        (found,) = await bed.api.wait_for(PODS, failed, "one has failed")
        assert found["status"]["reason"] == "OutOfcpu"
        await bed.api.delete(PODS, "one")
        assert await bed.api.find(PODS, "one") is None


async def test_nothing_happens_by_itself_on_a_manual_node(bed: ApiServer) -> None:
    async with bed.nodes(behaviour=MANUAL) as (nodes, (name,)):
        await bed.api.create(PODS, pod("one", aimed_at=name))
        bound = each(lambda item: bool(item["spec"].get("nodeName")))
        (found,) = await bed.api.wait_for(PODS, bound, "one is bound")
        assert found["status"]["phase"] == "Pending"
        assert is_ready(await nodes.ready(found))
        assert not is_ready(await nodes.ready(found, value=False))
        (state,) = (await nodes.crash(found))["status"]["containerStatuses"]
        assert state["lastState"]["terminated"]["exitCode"] == 1
        assert state["restartCount"] == 0, "it counts when it starts again"
        (again,) = (await nodes.ready(found))["status"]["containerStatuses"]
        assert again["restartCount"] == 1
        assert again["containerID"] != state["containerID"]
        assert (await nodes.fail(found, reason="Evicted"))["status"]["reason"] == "Evicted"
        await bed.api.delete(PODS, "one")
        await bed.api.create(PODS, pod("two", aimed_at=name))
        await bed.api.wait_for(PODS, bound, "two is bound")
        done = await nodes.succeed(await bed.api.get(PODS, "two"))
        assert done["status"]["phase"] == "Succeeded"


async def test_a_lost_node_is_tainted_and_holds_its_pods(bed: ApiServer) -> None:
    async with bed.nodes() as (nodes, (name,)):
        await bed.api.create(PODS, pod("one", aimed_at=name))
        await bed.api.wait_for(PODS, ready(), "one is ready")
        await nodes.lose(name)
        node = await bed.api.get(NODES, name)
        assert condition(node, "Ready")["status"] == "Unknown"
        assert {taint["key"] for taint in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
        await bed.api.delete(PODS, "one")
        assert (await bed.api.get(PODS, "one"))["metadata"]["deletionTimestamp"]
        await nodes.regain(name)
        await bed.api.wait_for(PODS, nothing, "one is gone")
        node = await bed.api.get(NODES, name)
        assert condition(node, "Ready")["status"] == "True"
        assert not node["spec"].get("taints")


async def test_a_node_has_a_heartbeat_unless_it_is_dead(bed: ApiServer) -> None:
    async with Nodes(bed.transport, heartbeat=0.05) as nodes:
        await nodes.add(f"{bed.name}-alive")
        await nodes.add(f"{bed.name}-dead", behaviour=DEAD)
        leases = Api(bed.transport, "kube-node-lease")

        def beats(found: list[Object]) -> bool:
            return f"{bed.name}-alive" in names(found)

        found = await leases.wait_for(LEASES, beats, "the living node beats")
        assert f"{bed.name}-dead" not in names(found)
        for name in nodes.names:
            await nodes.remove(name)
        await leases.delete(LEASES, f"{bed.name}-alive")


QUICK = (
    "a_new_image_without_probe",
    "an_init_container",
    "a_label_that_the_environment_reads",
    "a_readiness_gate",
    "a_resize",
    "a_resize_that_waits_for_room",
    "a_resize_that_no_node_like_this_can_do",
    "image_and_resources",
)


@pytest.mark.parametrize("case", QUICK)
async def test_a_running_pod_changes_in_place(bed: ApiServer, case: str) -> None:
    behaviour = Behaviour(missing_images=(image(MISSING),))
    async with bed.nodes(behaviour=behaviour) as (nodes, (node,)):

        async def environment(pod: Object) -> Mapping[str, str]:
            return nodes.environment_of(pod)

        async with watching(bed.api, CASES[case].pod(node), WAIT_SECONDS, environment) as pod:
            await CASES[case].play(pod)
