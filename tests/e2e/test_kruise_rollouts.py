"""kruise-rollouts' own manager drives our DaemonSets: a story in each namespace, all of them at once.

Each story stops once in the middle. There the manager is killed and started anew, and the stories go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.beds.api import DAEMONSETS, NAMESPACES, PODS, ROLLOUTS, Api, Object, Objects
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.witness import witnessing
from tests.beds.installed.workspace import Workspace, bed_on
from tests.beds.kruise_rollouts import Manager, Rollouts, managing
from tests.beds.objects import PROBED, V1, V2, V3, daemonset, demo, image_of, is_live, node_of, serves

pytestmark = [
    pytest.mark.real,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("controller"),
]

NODES = tuple(f"node-{number}" for number in range(5))
STEPS = (1, "40%", "100%")
"""Of five nodes: one, two, all."""
MARKS = ("rollouts.kruise.io/in-progressing", "batchrelease.rollouts.kruise.io/control-info")
"""Annotations by which one sees that it has a DaemonSet in hand."""

LABEL = "rollouts.kruise.io/workload-type"
"""By which its webhook selects: an edit before it is there goes to all nodes."""


def rollout(*steps: int | str, version: str = "v1alpha1") -> Object:
    """Each step waits for approval; a last one of 100 % does not."""
    canary: Object = {"steps": [{"replicas": one, "pause": {}} for one in steps]}
    workload = {"apiVersion": f"apps.kruise.io/{version}", "kind": "DaemonSet", "name": "agent"}
    return {"metadata": {"name": "agent"}, "spec": {"workloadRef": workload, "strategy": {"canary": canary}}}


class Story(Workspace):
    """One DaemonSet, the Rollout for it, and what a person does who uses both."""

    def __init__(self, bed: Workspace, namespace: str, rollouts: Rollouts) -> None:
        super().__init__(bed.plane, Api(bed.api.transport, namespace), bed.nodes, bed.clocks)
        self.rollouts = rollouts
        self.halted, self.goes_on = asyncio.Event(), asyncio.Event()

    async def halts(self) -> None:
        """Here the manager is restarted."""
        self.halted.set()
        await self.goes_on.wait()

    async def begins(self, made: Object | None = None, guide: Object | None = None) -> None:
        """A DaemonSet on all nodes, and a Rollout that has found it."""
        made, guide = made or daemonset(pod=PROBED), guide or rollout(*STEPS)
        self.name, self.guide = made["metadata"]["name"], guide["metadata"]["name"]
        for document in ({"apiVersion": DAEMONSETS.api_version, "kind": "DaemonSet", **made}, guide):
            await self.apply({"apiVersion": ROLLOUTS.api_version, "kind": "Rollout", **document})
        await self.settled(len(NODES), self.name)
        await self.api.wait_for(DAEMONSETS, lambda found: LABEL in found[0]["metadata"]["labels"], "its label")
        await self.ends()

    async def becomes(self, image: str) -> None:
        containers = [{**PROBED["containers"][0], "image": image}]
        await self.patched({"spec": {"template": {"spec": {"containers": containers}}}})

    async def patched(self, patch: Object) -> Object:
        return await self.api.patch(DAEMONSETS, self.name, patch)

    async def daemonset(self) -> Object:
        return await self.api.get(DAEMONSETS, self.name)

    async def waits_at(self, step: int) -> None:
        """Wait until the Rollout waits for approval after this step."""
        await self.until(lambda at: (at["currentStepIndex"], at["currentStepState"]) == (step, "StepPaused"), step)

    async def approved(self) -> None:
        """As `kubectl kruise rollout approve`."""
        await self.leaves_by(currentStepState="StepReady")

    async def leaves_by(self, **canary: Any) -> None:
        """Write this into the status of the Rollout, where its own command does so, until it leaves its step.

        The manager may write its own state over it, so it is said again.
        """
        step = (await self.at())["currentStepIndex"]
        while (now := await self.at())["currentStepIndex"] == step:
            if not canary.items() <= now.items():
                await self.api.patch(ROLLOUTS, self.guide, {"status": {"canaryStatus": canary}}, sub="status")
            await asyncio.sleep(0.5)  # another process decides, and nothing tells whether it has seen it

    async def ends(self) -> None:
        """Wait until the Rollout has nothing in hand, and what is left of it at the DaemonSet."""
        await self.api.wait_for(ROLLOUTS, _healthy, "the Rollout is Healthy")
        found = await self.daemonset()
        assert not set(MARKS) & set(found["metadata"].get("annotations") or ())
        assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0

    async def has(self, image: str, nodes: int) -> None:
        """Wait until so many nodes have a pod of this image, and all are served; then the status says so."""

        def is_so(pods: Objects) -> bool:
            live = [pod for pod in pods if is_live(pod)]
            served = sorted(map(node_of, filter(serves, live))) == sorted(NODES)
            return served and sum(image_of(pod) == image for pod in live) == nodes

        await self.api.wait_for(PODS, is_so, f"{image} on {nodes} nodes")
        await self.status(self.name, numberAvailable=len(NODES))

    async def stands(self, phase: str, updated: int) -> Object:
        """Wait until our status says so; returns the record of the rollout."""
        status = await self.status(self.name, updatedNumberScheduled=updated, numberAvailable=len(NODES))
        assert status["rollout"]["phase"] == phase
        found: Object = status["rollout"]
        return found

    async def until(self, holds: Callable[[Object], bool], step: int) -> None:
        def is_so(found: Objects) -> bool:
            return bool(found) and holds(_canary(found[0]))

        await self.api.wait_for(ROLLOUTS, is_so, f"the Rollout waits at step {step}")

    async def at(self) -> Object:
        return _canary(await self.api.get(ROLLOUTS, self.guide))


def _canary(found: Object) -> Object:
    at: Object = (found.get("status") or {}).get("canaryStatus") or {}
    return {"currentStepIndex": 0, "currentStepState": "", **at}


def _healthy(found: Objects) -> bool:
    return bool(found) and (found[0].get("status") or {}).get("phase") == "Healthy"


async def its_steps_move_as_many_nodes_as_they_say(story: Story) -> None:
    """And a lost pod comes back as it was."""
    await story.begins()
    await story.becomes(V2)
    await story.waits_at(1)
    await story.has(V2, 1)
    await story.stands("Held", 1)
    await story.halts()
    await story.approved()
    await story.waits_at(2)
    await story.has(V2, 2)
    lost = next(pod for pod in await story.pods() if image_of(pod) == V1)
    await story.api.delete(PODS, lost["metadata"]["name"])
    await story.has(V1, 3)
    assert lost["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in await story.pods()}
    await story.approved()
    await story.has(V2, 5)
    await story.ends()
    await story.stands("Healthy", 5)


async def its_own_examples_run(story: Story) -> None:
    """The manifests of its tests of DaemonSets, of v1alpha1: one node, then all."""
    of_them = [story.rollouts.example(f"{one}.yaml") for one in ("daemonset", "rollout_canary_daemonset_base")]
    for one in of_them:
        one["metadata"]["namespace"] = story.namespace
    await story.begins(*of_them)
    env = [{"name": "NODE_NAME", "value": "version2"}]
    template = (await story.daemonset())["spec"]["template"]
    template["spec"]["containers"][0]["env"] = env
    await story.patched({"spec": {"template": template}})
    await story.waits_at(1)
    assert await _with_env(story, env, 1)
    await story.halts()
    await story.approved()
    assert await _with_env(story, env, len(NODES))
    await story.ends()


async def _with_env(story: Story, env: Objects, nodes: int) -> Objects:
    def is_so(pods: Objects) -> bool:
        new = [pod for pod in pods if pod["spec"]["containers"][0].get("env") == env and serves(pod)]
        return len(new) == nodes

    return await story.api.wait_for(PODS, is_so, f"{nodes} pods have the new environment")


async def a_rollback_goes_through_the_steps_again(story: Story) -> None:
    """Nodes that have the wanted revision already count, so those of the abandoned one keep it to the last step.

    A jump to that one, as docs/kruise-rollouts.md has it, takes them back at once.
    """
    await story.begins()
    await story.becomes(V2)
    await story.waits_at(1)
    await story.has(V2, 1)
    await story.halts()
    await story.becomes(V1)
    await story.stands("Held", 4)
    await story.until(lambda at: at["currentStepState"] != "StepPaused", 1)
    await story.waits_at(1)
    await story.has(V2, 1)
    await story.leaves_by(nextStepIndex=len(STEPS))
    await story.has(V1, 5)
    await story.ends()


async def a_newer_template_in_the_middle_begins_with_step_one(story: Story) -> None:
    """Which moves one node to it."""
    await story.begins(guide=rollout(2, "100%"))
    await story.becomes(V2)
    await story.waits_at(1)
    await story.has(V2, 2)
    await story.halts()
    before = (await story.at())["canaryRevision"]
    await story.becomes(V3)
    # the partition of V2 lets two nodes have it, perhaps before the manager has seen it
    await story.until(lambda at: at.get("canaryRevision", before) != before, 1)
    await story.has(V3, 2)
    await story.waits_at(1)
    await story.approved()
    await story.has(V3, 5)
    await story.ends()


async def deleting_the_rollout_updates_the_whole_fleet(story: Story) -> None:
    await story.begins()
    await story.becomes(V2)
    await story.waits_at(1)
    await story.has(V2, 1)
    await story.halts()
    await story.api.delete(ROLLOUTS, story.guide)
    await story.has(V2, 5)
    found = await story.daemonset()
    assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 0


async def in_place_every_pod_stays(story: Story) -> None:
    rolling = {"maxUnavailable": 1, "rollingUpdateType": "InPlaceIfPossible"}
    await story.begins(daemonset(pod=PROBED, rolling=rolling), rollout(1, "100%"))
    before = await _uids(story)
    await story.becomes(V2)
    await story.waits_at(1)
    await story.has(V2, 1)
    await story.halts()
    await story.approved()
    await story.has(V2, 5)
    assert await _uids(story) == before
    await story.ends()


async def _uids(story: Story) -> dict[str, str]:
    return {node_of(pod): pod["metadata"]["uid"] for pod in await story.pods()}


async def with_max_surge_every_node_is_served_all_the_time(story: Story) -> None:
    await story.begins(daemonset(pod=PROBED, rolling={"maxSurge": 1, "maxUnavailable": 0}), rollout(1, "100%"))
    async with witnessing(story.api) as witness:
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        witness.floor, witness.most_pairs = len(NODES), 1
        await story.becomes(V2)
        await story.waits_at(1)
        await story.has(V2, 1)
        await story.halts()
        await story.approved()
        await story.has(V2, 5)
        await story.ends()


async def with_on_delete_a_step_waits_for_the_deletions(story: Story) -> None:
    """Here `rollingUpdate` is not given, and there all the same: it writes the partition there unasked."""
    await story.begins(daemonset(pod=PROBED, updateStrategy={"type": "OnDelete"}), rollout(1, "100%"))
    await story.becomes(V2)
    await story.until(lambda at: at["currentStepState"] == "StepUpgrade", 1)
    await story.has(V1, 5)
    await story.stands("Manual", 0)
    await story.halts()
    await _delete_one(story)
    await story.has(V2, 1)
    await story.waits_at(1)
    await story.approved()
    for updated in range(2, len(NODES) + 1):
        await _delete_one(story)
        await story.has(V2, updated)
    await story.ends()


async def _delete_one(story: Story) -> None:
    old = next(pod for pod in await story.pods() if image_of(pod) == V1)
    await story.api.delete(PODS, old["metadata"]["name"])


async def by_v1beta1_the_first_step_updates_the_whole_fleet(story: Story) -> None:
    """It takes the DaemonSet for a kind like StatefulSet with one replica, and never gets beyond its first step."""
    await story.begins(guide=rollout(*STEPS, version="v1beta1"))
    await story.becomes(V2)
    await story.has(V2, 5)
    await story.halts()
    assert (await story.at())["currentStepState"] == "StepUpgrade"


STORIES: tuple[Callable[[Story], Awaitable[None]], ...] = (
    its_steps_move_as_many_nodes_as_they_say,
    its_own_examples_run,
    a_rollback_goes_through_the_steps_again,
    a_newer_template_in_the_middle_begins_with_step_one,
    deleting_the_rollout_updates_the_whole_fleet,
    in_place_every_pod_stays,
    with_max_surge_every_node_is_served_all_the_time,
    with_on_delete_a_step_waits_for_the_deletions,
    by_v1beta1_the_first_step_updates_the_whole_fleet,
)


class Told(NamedTuple):
    """The manager, a place without a story, and how each story ended: None where all went as it says."""

    manager: Manager
    bed: Workspace
    outcomes: Mapping[str, BaseException | None]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(plane: ControlPlane, kruise_rollouts: Rollouts) -> AsyncIterator[Told]:
    async with managing(plane, kruise_rollouts) as manager, bed_on(plane, "rollouts") as bed:
        await bed.workers(*NODES)
        places = [Story(bed, tell.__name__.replace("_", "-")[:63], kruise_rollouts) for tell in STORIES]
        for place in places:
            await bed.api.create(NAMESPACES, {"metadata": {"name": place.namespace}})
        stories = [asyncio.create_task(_told(tell, place)) for tell, place in zip(STORIES, places, strict=True)]
        for place in places:
            await place.halted.wait()
        await manager.restart()
        for place in places:
            place.goes_on.set()
        outcomes = await asyncio.gather(*stories)
        for place in places:
            await place.api.delete_all(ROLLOUTS)
        await bed.api.wait_for(ROLLOUTS, lambda found: not found, "no Rollout is left", namespace="")
        yield Told(manager, bed, dict(zip((tell.__name__ for tell in STORIES), outcomes, strict=True)))
        for place in places:
            await place.clear()


async def _told(tell: Callable[[Story], Awaitable[None]], place: Story) -> BaseException | None:
    try:
        await tell(place)
    except Exception as failure:
        return failure
    finally:
        place.halted.set()
    return None


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_it_drives_our_daemonsets(told: Told, story: Callable[[Story], Awaitable[None]]) -> None:
    failure = told.outcomes[story.__name__]
    if failure is not None:
        raise failure


async def test_one_percentage_as_partition_anywhere_blinds_it(told: Told) -> None:
    """It reads partitions as int32, and all DaemonSets with one watch."""
    await told.bed.apply(demo(updateStrategy={"rollingUpdate": {"partition": "50%"}}))

    async def complains() -> bool:
        return "cannot unmarshal string" in told.manager.process.log.read_text()

    await told.manager.process.until(complains, what="complaining", seconds=60)
