"""Other people's DaemonSets through creation, a canary, its rollback and an update in place."""

from __future__ import annotations

import pytest

from tests.beds.api import DAEMONSETS, PODS, Object
from tests.beds.controller.bed import Bed, uids
from tests.beds.objects import V1, V2, V3, image_of
from tests.system.public_daemonsets import NODES, PUBLIC, Public


def manifest(name: str, of: Public) -> Object:
    """Moved to our group as its users would: nothing else is changed."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": of.pod}
    strategy = {"updateStrategy": of.strategy} if of.strategy else {}
    spec = {"selector": {"matchLabels": labels}, "template": template, **strategy, **of.spec}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def images(bed: Bed, name: str) -> dict[str, str]:
    return {node: image_of(pod) for node, pod in (await bed.pods(name)).items()}


async def ask(bed: Bed, name: str, image: str, **rolling: object) -> None:
    """A new image, with these fields of rollingUpdate."""
    await bed.edit({"updateStrategy": {"rollingUpdate": rolling}}, name)
    await bed.set_image(image, name)
    await bed.seen(name)


@pytest.mark.parametrize("name", PUBLIC)
async def test_it_is_created_tried_on_one_node_taken_back_and_updated_in_place(bed: Bed, name: str) -> None:
    of = PUBLIC[name]
    by_hand = of.strategy.get("type") == "OnDelete"
    for node, (labels, taints) in NODES.items():
        await bed.nodes.add(node, labels=labels, taints=taints)
    await bed.heard()
    await bed.deploy(manifest(name, of))
    created = await bed.pods(name)
    assert {*created} == {*of.nodes}, of.special

    canary = max(of.nodes)
    await ask(bed, name, V2, partition=len(of.nodes) - 1)
    if by_hand:
        await bed.api.delete(PODS, created[canary]["metadata"]["name"])
    await bed.status(name, updated=1, available=len(of.nodes))
    await bed.idle()
    assert await images(bed, name) == dict.fromkeys(of.nodes, V1) | {canary: V2}

    await ask(bed, name, V1)
    if by_hand:
        await bed.api.delete(PODS, (await bed.pods(name))[canary]["metadata"]["name"])
    await bed.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}}, name)
    await bed.settled(name)
    back = await bed.pods(name)
    untouched = {node: pod for node, pod in created.items() if node != canary}
    assert uids(untouched).items() <= uids(back).items(), "no other node was touched"
    assert await images(bed, name) == dict.fromkeys(of.nodes, V1)

    await bed.edit({"updateStrategy": {"type": "RollingUpdate"}}, name)
    await ask(bed, name, V2, rollingUpdateType="InPlaceIfPossible")  # whose pods get the gate that this needs
    await bed.settled(name)
    before = await bed.pods(name)
    await ask(bed, name, V3)
    await bed.settled(name)
    await bed.idle()
    assert uids(await bed.pods(name)) == uids(before), "in place every pod stays"
    assert await images(bed, name) == dict.fromkeys(of.nodes, V3)
    stored = await bed.api.get(DAEMONSETS, name)
    stored["spec"]["template"]["spec"]["containers"][0]["image"] = V1
    assert stored["spec"]["template"]["spec"] == of.pod, "the template was changed by nobody else"


def test_there_are_all_of_them_and_each_is_special() -> None:
    assert len(PUBLIC) == 31
    assert len({one.special for one in PUBLIC.values()}) == 31
