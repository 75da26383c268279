"""Labels that containers read into their environment: only what starts after the change shows the new one."""

from __future__ import annotations

import pytest

from tests.beds.api import Object
from tests.beds.controller.bed import Bed
from tests.beds.objects import V1, V2
from tests.system.both import both_beds
from tests.system.in_place import identities, in_place, restarts, runs, told
from tests.system.monitor import monitoring

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
