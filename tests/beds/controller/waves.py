"""How tests tell a rollout: which pods went and came, and what is where.

A wave is what happens until nothing more can happen before something else does: pods get ready, somebody edits.
Nodes are called by their number, `node-3` is 3.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.beds.api import PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset, image_of, is_ready, node_of, owner, stays

HASH = "controller-revision-hash"

UNREADY = Behaviour(ready=None)
"""New pods run and do not get ready by themselves; those that are ready stay so."""


async def wave(bed: Bed, expected: str) -> None:
    """Wait for these moves, then until all is quiet: there were no others since the last wave.

    "-4 -3 +4" is: the pods of node-4 and node-3 were deleted, and one was created for node-4.
    """
    wanted = sorted(expected.split())
    loop = asyncio.get_running_loop()
    deadline = loop.time() + bed.patience
    while not _covers(_moves(bed), wanted) and loop.time() < deadline:
        await bed.journal.news(deadline - loop.time())
    await bed.seen()
    await bed.idle()
    assert _moves(bed) == wanted, f"{await layout(bed)}\n{bed.journal}"
    bed.journal.clear()


def both(*numbers: int) -> str:
    """On these nodes a pod was deleted and another created."""
    return " ".join(f"-{number} +{number}" for number in numbers)


async def layout(bed: Bed) -> str:
    """The version on each node, in the order of their numbers: "v1 v2 v1+v2 -", the last one without a pod.

    A pod is of a version by its image and by the hash of its revision, and both must say the same.
    """
    hashes = {
        one["metadata"]["labels"][HASH]: _version(one["data"]["spec"]["template"]) for one in await bed.revisions()
    }
    versions: defaultdict[str, list[str]] = defaultdict(list)
    for pod in await live(bed):
        versions[node_of(pod)].append(_version(pod))
        assert hashes[pod["metadata"]["labels"][HASH]] == _version(pod), (
            f"image and hash of {pod['metadata']['name']}"
        )
    order = sorted(bed.nodes.names, key=lambda node: (len(node), node))
    return " ".join("+".join(sorted(versions[node])) or "-" for node in order)


async def live(bed: Bed, name: str = "agent") -> list[Object]:
    """The live pods of the DaemonSet, also where there are two on a node."""
    return [pod for pod in await bed.api.list(PODS) if stays(pod, name)]


async def all_ready(bed: Bed, *numbers: int) -> None:
    """The pods of these nodes, or of all, get ready where they are not."""
    nodes = {f"node-{number}" for number in numbers}
    for pod in await live(bed):
        if not is_ready(pod) and (not nodes or node_of(pod) in nodes):
            await bed.nodes.ready(pod)


async def roll(bed: Bed, **fields: Any) -> None:
    """Edit `rollingUpdate`; None takes a field away."""
    await bed.edit({"updateStrategy": {"rollingUpdate": fields}})


async def lose(bed: Bed, number: int) -> None:
    """Another client deletes the one pod of that node."""
    await bed.api.delete(PODS, (await bed.pods())[f"node-{number}"]["metadata"]["name"])


async def keeps_two(bed: Bed) -> None:
    """Of four nodes the partition keeps two old, also one whose pod is lost."""
    await bed.set_image(V2)
    await wave(bed, both(3, 2))
    await lose(bed, 0)
    await wave(bed, "+0")
    assert await layout(bed) == "v1 v1 v2 v2"


async def built(bed: Bed, state: str) -> None:
    """The state that `layout` would tell, made by hand: v1 and v2 are stored, v2 is current, nothing has moved.

    "v2!" is a pod that is not ready. The controller is stopped; what it does when it is started is the first wave.
    New pods do not get ready by themselves.
    """
    await bed.deploy(daemonset())
    await bed.set_image(V2)
    await wave(bed, "")
    await bed.controller.stop()
    kinds = [part.replace("-", "").split("+") for part in state.split()]
    for number in range(len(kinds)):
        await bed.nodes.add(f"node-{number}")
    places = [f"{number}:{version}" for number, there in enumerate(kinds) for version in there if version]
    await put(bed, *[place for place in places if not place.endswith("!")])
    bed.nodes.behave("*", UNREADY)
    await put(bed, *[place.removesuffix("!") for place in places if place.endswith("!")])


async def put(bed: Bed, *places: str) -> None:
    """Create pods by hand, as the controller would, and wait until they run: "3:v1" is one of v1 on node-3."""
    owned = {"ownerReferences": [owner(await bed.daemonset())], "generateName": "agent-"}
    templates = {_version(one["data"]["spec"]["template"]): one for one in await bed.revisions()}
    made = set()
    for number, version in (place.split(":") for place in places):
        template = templates[version]["data"]["spec"]["template"]
        labels = {**template["metadata"]["labels"], HASH: templates[version]["metadata"]["labels"][HASH]}
        spec = {**template["spec"], "nodeName": f"node-{number}"}
        pod = await bed.api.create(PODS, {"metadata": {**owned, "labels": labels}, "spec": spec})
        made.add(pod["metadata"]["uid"])

    def missing(found: list[Object]) -> str:
        pods = [pod for pod in found if pod["metadata"]["uid"] in made]
        return "" if all(pod["status"].get("phase") == "Running" for pod in pods) else "they do not run"

    await bed.until(PODS, missing, f"running pods: {places}")


def _version(pod: Object) -> str:
    return image_of(pod).rpartition(":")[2]


def _moves(bed: Bed) -> list[str]:
    gone = [f"-{node.removeprefix('node-')}" for node in bed.journal.deleted]
    return sorted(gone + [f"+{node.removeprefix('node-')}" for node in bed.journal.created])


def _covers(there: list[str], wanted: Iterable[str]) -> bool:
    return all(there.count(move) >= list(wanted).count(move) for move in wanted)
