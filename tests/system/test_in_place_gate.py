"""When the condition of the readiness gate is written, and how long before the pod: grace periods, and refusals."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.beds.api import PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V1, V2, condition, daemonset, is_ready
from tests.system import in_place as updates
from tests.system.both import both_beds
from tests.system.in_place import identities, in_place, restarts, runs, told
from tests.system.monitor import monitoring
from tests.system.webhook import webhook_down


@both_beds
@pytest.mark.parametrize("gated", [True, False], ids=["with the gate", "made before the switch"])
async def test_what_restarts_nothing_writes_no_condition(bed: Bed, gated: bool) -> None:
    await bed.deploy(updates.in_place() if gated else daemonset(), nodes=2)
    await bed.edit({"updateStrategy": {"rollingUpdate": updates.ONE_BY_ONE}})
    bed.journal.clear()
    await bed.edit({"template": {"metadata": {"labels": {"team": "blue"}}}})
    await bed.settled()
    await bed.idle()
    assert sorted(updates.told(bed)[1:]) == ["node-0 pods", "node-1 pods"], str(bed.journal)
    assert [bool(condition(pod, updates.GATE)) for pod in (await bed.pods()).values()] == [gated] * 2


async def test_a_grace_period_lets_traffic_leave_before_the_restart(bed: Bed) -> None:
    grace = 20
    nodes = await bed.deploy(updates.with_grace(grace), nodes=2)
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=1):
        await bed.set_image(V2)
        bed.patience = 120.0
        closed = await bed.until(
            PODS, lambda pods: "" if not all(map(is_ready, pods)) else "all have traffic", "one has none"
        )
        assert [updates.restarts(pod) for pod in closed] == [0, 0]
        await bed.settled()
    await bed.idle()
    steps = ("pods/status", "pods", "pods/status")
    assert updates.told(bed)[1:] == [f"{node} {what}" for node in nodes[::-1] for what in steps], str(bed.journal)
    closed_at = [write.at for write in bed.journal.of("pods/status")][::2]
    changed_at = [write.began for write in bed.journal.of("pods", "patch")]
    waited = [after - before for before, after in zip(closed_at, changed_at, strict=True)]
    assert [seconds >= grace for seconds in waited] == [True, True], waited


def asked(bed: Bed) -> Counter[str]:
    """How often a dry run was made for each pod."""
    return Counter(write.name for write in bed.journal.work if write.verb == "probe")


async def test_where_updates_are_refused_traffic_comes_back_once(bed: Bed) -> None:
    """Whether the server would take them is asked by dry runs from then on."""
    nodes = await bed.deploy(updates.in_place(), nodes=2)
    before = await bed.pods()
    names = {pod["metadata"]["name"] for pod in before.values()}
    bed.journal.clear()
    async with monitoring(bed, most_unavailable=1):
        async with webhook_down(bed, "update"):
            await bed.set_image(V2)
            for name in names:
                told_of = await bed.event("FailedUpdatePodInPlace", f"failed to update pod {name} in-place")
                assert told_of["type"] == "Warning"
            assert "failed calling webhook" in (await bed.condition("Degraded", "WritesFail"))["message"]
            while any(asked(bed)[name] < 3 for name in names):
                assert await bed.journal.news(bed.patience), str(bed.journal)
            assert all(updates.is_open(pod) and updates.runs(pod, V1) for pod in (await bed.pods()).values())
            gates = Counter(write.node for write in bed.journal.of("pods/status"))
            assert gates == dict.fromkeys(nodes, 2), str(bed.journal)
        await bed.settled()
    assert updates.identities(await bed.pods()) == updates.identities(before)
    assert await updates.serving(bed, V2) == {*nodes}
    assert bed.journal.deleted == []


READS = [{"name": "TRACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['track']"}}}]


def template(track: str, image: str = V1, *, sidecar: bool = False) -> Object:
    """What reads the label is the agent, or a sidecar beside it."""
    agent: Object = {"name": "agent", "image": image, **({} if sidecar else {"env": READS})}
    side: Object = {"name": "side", "image": V1, "restartPolicy": "Always", "env": READS}
    spec: Object = {"containers": [agent], **({"initContainers": [side]} if sidecar else {})}
    return {"metadata": {"labels": {"app": "agent", "track": track}}, "spec": spec}


async def deployed(bed: Bed, *, sidecar: bool = False) -> dict[str, tuple[str, ...]]:
    await bed.add_nodes(2)
    new = in_place()
    new["spec"]["template"] = template("a", sidecar=sidecar)
    await bed.deploy(new)
    return identities(await bed.pods())


@both_beds
async def test_a_label_and_an_image_in_one_edit_are_one_write_and_one_restart(bed: Bed) -> None:
    before = await deployed(bed)
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": template("b", V2)})
        await bed.settled()
    after = await bed.pods()
    assert identities(after) == before
    for pod in after.values():
        assert (pod["metadata"]["labels"]["track"], restarts(pod), runs(pod, V2)) == ("b", 1, True)
        assert bed.nodes.environment_of(pod) == {"TRACK": "b"}, "the container has started after the label"
    await bed.idle()
    writes = ("pods/status", "pods", "pods/status")
    assert told(bed)[1:] == [f"node-{number} {what}" for number in (1, 0) for what in writes]


@pytest.mark.parametrize(
    ("sidecar", "image", "why"),
    [
        (False, V1, "container agent reads a changed label or annotation from its environment, and no node agent"),
        (True, V1, "spec.initContainers[side] reads a changed label or annotation from its environment"),
        (True, V2, "spec.initContainers[side] reads a changed label or annotation from its environment"),
    ],
    ids=["a container", "a sidecar", "a sidecar, beside a new image"],
)
async def test_where_no_restart_would_show_the_label_new_pods_do(
    bed: Bed, sidecar: bool, image: str, why: str
) -> None:
    before = await deployed(bed, sidecar=sidecar)
    async with monitoring(bed, most_unavailable=1):
        await bed.edit({"template": template("b", image, sidecar=sidecar)})
        await bed.settled()
    after = await bed.pods()
    assert not {*identities(after).values()} & {*before.values()}
    assert {pod["metadata"]["labels"]["track"] for pod in after.values()} == {"b"}
    await bed.event("InPlaceUpdateNotPossible", why)
