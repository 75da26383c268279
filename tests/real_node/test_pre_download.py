"""Image pull jobs on real nodes, and images that are there before the update of a DaemonSet begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.beds.api import ACCOUNTS, DAEMONSETS, EVENTS, IMAGE_PULL_JOBS, NAMESPACES, PODS, Object, Refusal
from tests.beds.installed.plugin import Plugin
from tests.beds.objects import condition, image_of, node_of
from tests.beds.oci import image, layer
from tests.beds.real_node import Manners
from tests.beds.real_node.clients import asking, asking_pods
from tests.beds.real_node.node import LONG
from tests.beds.real_node.workloads import agent_pod, agent_set
from tests.real_node.bed import LOGIN, Bed, deployed, deployed_as, opens, served_by, settled, update
from tests.system.in_place import identity, restarts

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("puller")]

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


async def pulled(bed: Bed, name: str, **spec: Any) -> Object:
    """Make a job for the image and wait until it is over and no puller left; returns its status."""
    await bed.api.patch(NAMESPACES, bed.namespace, {"metadata": {"labels": RESTRICTED}})
    whole = {"image": f"registry.test/{name}", "completionPolicy": {}, **spec}
    made = await bed.api.create(IMAGE_PULL_JOBS, {"metadata": {"generateName": "pull-"}, "spec": whole})

    def is_over(found: list[Object]) -> bool:
        return bool(found) and "completionTime" in (found[0].get("status") or {})

    query = {"fieldSelector": f"metadata.name={made['metadata']['name']}"}
    (found,) = await bed.api.wait_for(IMAGE_PULL_JOBS, is_over, "the job is over", seconds=LONG, **query)
    await bed.api.wait_for(PODS, lambda pods: not pods, "no puller is left", seconds=LONG)
    status: Object = found["status"]
    return status


async def admitted(bed: Bed, pod: Object) -> None:
    """Create it as soon as the server has seen that its namespace is free again, which takes a moment."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                await bed.api.create(PODS, pod)
                return
            except Refusal as refused:
                if "violates PodSecurity" not in refused.message:
                    raise
                await asyncio.sleep(0.1)


async def test_an_image_is_there_before_its_pod_and_pulled_once(bed: Bed) -> None:
    registry = bed.ours.registry
    registry.put("early:v1", bed.ours.images.agent("early"))
    nodes = len(bed.nodes)
    for _ in range(2):  # the second job finds it on every node
        status = await pulled(bed, "early:v1", parallelism="100%")
        assert (status["desired"], status["succeeded"], status["failed"]) == (nodes, nodes, 0), status
        assert registry.pulls["early:v1"] == nodes
    await bed.api.patch(NAMESPACES, bed.namespace, {"metadata": {"labels": dict.fromkeys(RESTRICTED)}})
    registry.behave("early:v1", Manners(status=500))
    await admitted(bed, agent_pod("agent", "early:v1", on="node-1"))
    assert await bed.version_of(await bed.is_ready("agent")) == "early"


async def test_an_image_without_any_program_is_pulled_like_others(bed: Bed) -> None:
    bed.ours.registry.put("data:v1", image([layer({"data": b"1"})]))
    status = await pulled(bed, "data:v1", selector={"names": ["node-1"]})
    assert (status["desired"], status["succeeded"]) == (1, 1), status


async def test_a_registry_that_fails_one_node_keeps_no_other_one_waiting(bed: Bed) -> None:
    """The job and the plugin tell it in the kubelet's words; afterwards that node gets it too."""
    bed.ours.registry.put("partly:v1", bed.ours.images.agent("partly"))
    everywhere = ("pull", "registry.test/partly:v1", "--parallelism", "100%", "--timeout", "5m")
    plane = bed.ours.plane
    plugin = Plugin(plane.kubectl, plane.kubeconfig, bed.namespace)
    with bed.nodes["node-2"].without_registry():
        once = {"backoffLimit": 0}
        status = await pulled(bed, "partly:v1", pullPolicy=once)
        assert (status["succeeded"], status["failed"], status["failedNodes"]) == (2, 1, ["node-2"]), status
        assert "connection refused" in status["message"]
        ran = await plugin.run(*everywhere, seconds=LONG)
        assert ran.code == 4, str(ran)
        assert "image there on 2 of 3 nodes, failed on 1" in ran.out
        (told,) = [line for line in ran.out.splitlines() if line.startswith("  failed on node-2: ErrImagePull: ")]
        assert "connection refused" in told
    assert "image there on 3 of 3 nodes" in await plugin.ok(*everywhere, seconds=LONG)


async def test_a_slow_registry_is_waited_for_and_no_longer_than_asked(bed: Bed) -> None:
    registry = bed.ours.registry
    registry.put("slow:v1", bed.ours.images.agent("slow"), Manners(delay=5.0))
    once = {"timeoutSeconds": 1, "backoffLimit": 0}
    status = await pulled(bed, "slow:v1", selector={"names": ["node-1"]}, pullPolicy=once)
    assert "not pulled within 1 s" in status["message"]
    status = await pulled(bed, "slow:v1", selector={"names": ["node-2"]})
    assert (status["succeeded"], status["failed"]) == (1, 0), status


async def test_a_secret_opens_the_registry(bed: Bed) -> None:
    bed.ours.registry.put("private:v1", bed.ours.images.agent("private"), Manners(login=LOGIN))
    here = {"names": ["node-3"]}
    status = await pulled(bed, "private:v1", selector=here, pullPolicy={"backoffLimit": 0})
    assert status["failed"] == 1
    await opens(bed, LOGIN, "key")
    status = await pulled(bed, "private:v1", selector=here, pullSecrets=["key"])
    assert (status["succeeded"], status["failed"]) == (1, 0), status
    await bed.api.patch(ACCOUNTS, "default", {"imagePullSecrets": [{"name": "key"}]})
    status = await pulled(bed, "private:v1", selector={"names": ["node-2"]})
    assert (status["succeeded"], status["failed"]) == (1, 0), "the account of every puller"


@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "not ahead"])
async def test_in_place_a_client_waits_for_a_pull_only_without_pre_download(bed: Bed, ahead: bool) -> None:
    """A pull takes ten seconds at least: two requests, of five seconds each. By EndpointSlices a client waits for the
    kubelet's word too, that the pod is ready again; by address for the program alone."""
    tag = f"far-{ahead}".lower()
    bed.ours.registry.put(f"agent:{tag}", bed.ours.images.agent(tag), Manners(delay=5.0))
    wait = f"kruise-ds/image-predownload-wait={str(ahead).lower()}"
    nodes = f"apps.kruise.io/image-predownload-parallelism={'100%' if ahead else '0'}"
    async with deployed(bed, rollingUpdateType="InPlaceIfPossible", maxUnavailable=2) as witness:
        witness.floor, witness.most_pairs = len(bed.workers) - 2, len(bed.workers)  # pullers are pods too
        await bed.kubectl("annotate", "ads", "agent", wait, nodes)
        async with asking(bed.ours, bed.api, "agent") as clients, asking_pods(bed.ours, bed.api) as direct:
            await update(bed, f"agent:{tag}")
            await settled(bed)
            await clients.all_have_an_answer()
        for way, waited in (("EndpointSlices", clients.waited), ("address", direct.waited)):
            print(f"seconds without an answer by {way}, ahead={ahead}: {dict(waited)}")
            assert (max(waited.values(), default=0.0) < 10) is ahead, (way, dict(waited))


IN_PLACE: dict[str, Any] = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}
EVERYWHERE = {"apps.kruise.io/image-predownload-parallelism": "100%"}
KEY = {"imagePullSecrets": [{"name": "key"}]}


@asynccontextmanager
async def updated_in_place(
    bed: Bed, annotations: Mapping[str, str] | None = None, *, pod: Mapping[str, Any] = KEY
) -> AsyncIterator[dict[str, tuple[str, ...]]]:
    """v1 on all nodes, of which one at most may be without a ready pod; yields the identity of each node's pod. `pod`
    are fields of the pod spec, by which the registry may be opened."""
    new = agent_set("agent:v1", **IN_PLACE)
    new["metadata"]["annotations"] = {**EVERYWHERE, **(annotations or {})}
    new["spec"]["template"]["spec"] |= pod
    async with deployed_as(bed, new) as witness:
        nodes = len(bed.workers)
        witness.floor, witness.most_pairs = nodes - 1, nodes  # pullers are pods too
        yield {node: identity(pod) for node, pod in (await agents(bed)).items()}


async def agents(bed: Bed) -> dict[str, Object]:
    """The daemon pods by node, without pullers."""
    return {node_of(pod): pod for pod in await bed.pods() if pod["metadata"]["labels"].get("app") == "agent"}


async def left_alone(bed: Bed, words: str, *nodes: str) -> None:
    """Wait until these are named, by condition, events and `nodes`; nothing has happened to their pods."""

    def told(found: list[Object]) -> str:
        one = condition(found[0], "Reconciling") if found else {}
        return str(one.get("message")) if one.get("reason") == "ImagesNotPulled" else ""

    def all_told(found: list[Object]) -> bool:
        return all(node in told(found) for node in nodes)

    await bed.api.wait_for(DAEMONSETS, all_told, f"{nodes} are named", seconds=LONG)

    def by_events(found: list[Object]) -> dict[str, str]:
        failed = [one["message"] for one in found if one["reason"] == "ImagePullFailed"]
        return dict(message.split(": ", 1) for message in failed)

    events = await bed.api.wait_for(EVENTS, lambda one: by_events(one).keys() == {*nodes}, "events", seconds=LONG)
    assert all(words in message for message in by_events(events).values()), by_events(events)

    def counted(found: list[Object]) -> bool:
        return [(one.get("status") or {}).get("failedNodes") for one in found] == [sorted(nodes)]

    await bed.api.wait_for(IMAGE_PULL_JOBS, counted, "told by the job", seconds=LONG)
    plane = bed.ours.plane
    printed = await Plugin(plane.kubectl, plane.kubeconfig, bed.namespace).ok("nodes", "agent", "-o", "wide")
    lines = {line.split()[0]: line for line in printed.splitlines() if line.startswith("node-")}
    assert {node for node, line in lines.items() if "its new image cannot be pulled" in line} == {*nodes}, printed
    assert all(words in lines[node] for node in nodes), printed
    pods = await agents(bed)
    assert [(image_of(pods[node]).rpartition(":")[2], restarts(pods[node])) for node in nodes] == [("v1", 0)] * len(
        nodes
    )


async def test_a_node_whose_registry_fails_waits_for_the_next_image(bed: Bed) -> None:
    registry, images = bed.ours.registry, bed.ours.images
    for version in ("half", "whole"):
        registry.put(f"agent:{version}", images.agent(version))
    async with updated_in_place(bed) as before, asking_pods(bed.ours, bed.api) as asked:
        with bed.nodes["node-2"].without_registry():
            await update(bed, "agent:half")
            await left_alone(bed, "connection refused", "node-2")
            others = {"node-1", "node-3"}
            await bed.api.wait_for(
                PODS, lambda pods: served_by(pods, "half") == others, "the others have it", seconds=LONG
            )
            assert await bed.versions() == {"node-1": "half", "node-2": "v1", "node-3": "half"}
            assert "node-2" not in asked.waited
        await update(bed, "agent:whole")
        await settled(bed)
        pods = await agents(bed)
        assert {node: identity(pod) for node, pod in pods.items()} == before
        assert {node: restarts(pod) for node, pod in pods.items()} == {"node-1": 2, "node-2": 1, "node-3": 2}
        assert await bed.versions() == bed.everywhere("whole")


async def test_without_its_secret_a_template_reaches_no_node_and_with_it_all(bed: Bed) -> None:
    registry, images = bed.ours.registry, bed.ours.images
    for version in ("closed", "opened"):
        registry.put(f"agent:{version}", images.agent(version), Manners(login=LOGIN))
    async with updated_in_place(bed) as before, asking_pods(bed.ours, bed.api) as asked:
        await update(bed, "agent:closed")
        await left_alone(bed, "authorization failed", *bed.workers)
        assert await bed.versions() == bed.everywhere("v1")
        assert dict(asked.waited) == {}
        await opens(bed, LOGIN, "key")
        await update(bed, "agent:opened")
        await settled(bed)
        pods = await agents(bed)
        assert {node: identity(pod) for node, pod in pods.items()} == before
        assert [restarts(pod) for pod in pods.values()] == [1, 1, 1]
        assert await bed.versions() == bed.everywhere("opened")
