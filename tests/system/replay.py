"""What happened, state by state: the server's own history of a namespace, read back after the fact."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from tests.beds.api import PODS, Object, apply, closing
from tests.beds.controller.bed import Bed
from tests.beds.objects import image_of, is_ready, node_of, stays


@dataclass(frozen=True)
class Film:
    """The pods of the bed's namespace from one moment on."""

    bed: Bed
    version: str
    first: Sequence[Object]

    async def states(self) -> list[list[Object]]:
        """All pods after each change since the beginning, by any client."""
        marker = f"marker-{self.version}"
        pod = {"schedulerName": "nobody", "containers": [{"name": "none", "image": "none"}]}
        await self.bed.api.create(PODS, {"metadata": {"name": marker}, "spec": pod})
        found = {pod["metadata"]["uid"]: pod for pod in self.first}
        states = [list(found.values())]
        events = self.bed.api.watch(PODS, resourceVersion=self.version)
        async with aclosing(closing(events)) as stream:
            async for event in stream:
                if event.object["metadata"].get("name") == marker:
                    break
                assert event.type != "ERROR", f"the history is gone: {event.object}"
                apply(found, event)
                states.append(list(found.values()))
        await self.bed.api.delete(PODS, marker, options={"gracePeriodSeconds": 0})
        return states

    async def served(self, name: str = "agent") -> list[set[str]]:
        """For each of these states the nodes with a live and ready pod of the DaemonSet."""
        return [
            {node_of(pod) for pod in state if stays(pod, name) and is_ready(pod)} for state in await self.states()
        ]

    async def crowded(self, name: str = "agent", *, same_image: bool = False) -> list[list[str]]:
        """The states in which a node had two live pods of the DaemonSet, each with all nodes of live pods.

        `same_image`: only where the two are of one image; a surge has two of different ones.
        """
        found = []
        for state in await self.states():
            live = [pod for pod in state if stays(pod, name)]
            places = [(node_of(pod), image_of(pod) if same_image else "") for pod in live]
            if len(places) != len(set(places)):
                found.append(sorted(node_of(pod) for pod in live))
        return found


async def film(bed: Bed) -> Film:
    """From now on."""
    page = await bed.api.page(PODS)
    return Film(bed, page["metadata"]["resourceVersion"], page["items"] or [])
