"""The controller is cut off at every single write of an update in place: just before it is done and the next one is
there at once, or just after and the kubelets have gone on before there is another one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from controller.settings import FeatureGates
from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.opening import simulated
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, condition
from tests.beds.simulator.faults import Hang, Rule
from tests.system.in_place import by_priority, container_of, identities, in_place, is_open, restarts, runs
from tests.system.monitor import monitoring

GRACE = {"kruise-ds/in-place-grace-seconds": "5"}
HOOK: Object = {"preDelete": {"labelsHandler": {"app": "agent"}, "markPodNotReady": True}}
QUICK = Behaviour(notice=0.1, terminate=0.2, start=0.2, gate=0.1)
BY_LABEL: Object = {"metadata": {"labels": {"team": "blue"}}}


def small(cpu: str) -> Object:
    return {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def containers(image: str, cpu: str = "") -> Object:
    return {"spec": {"containers": [{"name": "agent", "image": image, **({"resources": small(cpu)} if cpu else {})}]}}


def in_turn(image: str) -> Object:
    return {"spec": {"containers": by_priority(image, agent="p_1", first="p_9")}}


def restarted_for(memory: str) -> Object:
    """Its memory takes a restart."""
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    resources = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"cpu": "1", "memory": "1Gi"}}
    return {"spec": {"containers": [{"name": "agent", "image": V1, "resizePolicy": policy, "resources": resources}]}}


def has_of(pod: Object, resource: str) -> str:
    return str(container_of(pod)["resources"]["requests"][resource])


@dataclass(frozen=True)
class Case:
    """An edit of a DaemonSet, and what it has done to each pod in the end."""

    edit: Object
    done: Callable[[Object], bool]
    restarts: int = 1
    unready: int = 1
    """Pods at most at a time."""
    nodes: int = 1
    """Of two the second one waits for the first."""
    pod: Object = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    kubelets: Behaviour = QUICK
    stays: bool = True
    """Whether it is the same pod in the end."""


CASES = {
    "an image": Case(containers(V2), lambda pod: runs(pod, V2), nodes=2),
    "a label": Case(BY_LABEL, lambda pod: pod["metadata"]["labels"]["team"] == "blue", restarts=0, unready=0),
    "an image after a grace period": Case(containers(V2), lambda pod: runs(pod, V2), annotations=GRACE),
    "an image and resources": Case(
        containers(V2, "200m"),
        lambda pod: runs(pod, V2) and has_of(pod, "cpu") == "200m",
        pod=containers(V1, "100m")["spec"],
    ),
    "resources": Case(
        containers(V1, "200m"),
        lambda pod: has_of(pod, "cpu") == "200m",
        restarts=0,
        unready=0,
        pod=containers(V1, "100m")["spec"],
    ),
    "resources, by a restart": Case(
        restarted_for("128Mi"), lambda pod: has_of(pod, "memory") == "128Mi", pod=restarted_for("64Mi")["spec"]
    ),
    "images one launch priority after the other": Case(
        in_turn(V2), lambda pod: runs(pod, V2) and runs(pod, V2, "first"), pod=in_turn(V1)["spec"]
    ),
    "resources that are refused, so that new pods are made": Case(
        containers(V1, "200m"),
        lambda pod: has_of(pod, "cpu") == "200m",
        restarts=0,
        pod=containers(V1, "100m")["spec"],
        annotations={"kruise-ds/resize-fallback": "Recreate"},
        kubelets=replace(QUICK, resizes="Infeasible"),
        stays=False,
    ),
    "an image, with a hook that would hold a deletion": Case(
        containers(V2), lambda pod: runs(pod, V2), spec={"lifecycle": HOOK}
    ),
}


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it, for a while"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_a_controller_cut_off_at_any_write_is_carried_on(case: Case, done: bool) -> None:
    for number in itertools.count(1):
        if not await cut_off(case, number, done=done):
            assert number > case.nodes, "there are as many writes as pods at least"
            return


async def cut_off(case: Case, number: int, *, done: bool) -> bool:
    """Whether there was a write of this number to cut it off at, counted from the edit; events are none."""
    cut = Rule(verb="create,patch,update,delete", resource="[!e]*", nth=(number,), effect=Hang(done=done))
    async with simulated() as bed:
        settings = msgspec.structs.replace(bed.controller.settings, gates=FeatureGates(resize=True))
        await bed.controller.stop()
        bed.controller.start(settings)
        nodes = await bed.add_nodes(case.nodes)
        new = in_place(pod=dict(case.pod), **case.spec)
        new["metadata"]["annotations"] = dict(case.annotations)
        await bed.deploy(new)
        before = await bed.pods()
        bed.nodes.behave("*", case.kubelets)
        faults = bed.simulator.link.faults
        faults.add(cut)
        async with monitoring(bed, most_unavailable=case.unready):
            await bed.edit({"template": case.edit})
            if was_cut := await happened(bed, lambda: bool(faults.fired(cut))):
                await bed.controller.kill()
                faults.remove(cut)
                await asyncio.sleep(2.0 if done else 0.0)
                bed.controller.start(settings)
            await bed.settled()
            await bed.idle()
        faults.remove(cut)
        after = await bed.runs_on(*nodes)
        where = f"cut off at write {number}\n{bed.journal}"
        same = {*identities(after).values()} & {*identities(before).values()}
        assert len(same) == (case.nodes if case.stays else 0), where
        assert len({*bed.journal.deleted}) == len(bed.journal.deleted), f"none was deleted twice; {where}"
        for pod in after.values():
            assert case.done(pod), where
            names = [one["name"] for one in pod["spec"]["containers"]]
            assert [restarts(pod, name) for name in names] == [case.restarts] * len(names), f"updated once; {where}"
            assert is_open(pod), where
            assert condition(pod, "Ready")["status"] == "True", where
        return was_cut


async def happened(bed: Bed, holds: Callable[[], bool]) -> bool:
    """Whether it did before the update was over."""
    over = asyncio.create_task(bed.settled(), name="settled")
    try:
        while not over.done():
            if holds():
                return True
            await asyncio.sleep(0.01)
        return holds()
    finally:
        over.cancel()
