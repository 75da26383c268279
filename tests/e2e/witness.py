"""Watches all pods of a namespace the whole time, and remembers every moment that should not have been."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from tests.kit.api import PODS, Api, Object, Refusal, apply, closing
from tests.nodes import statuses


def node_of(pod: Object) -> str:
    """The node that a daemon pod is bound to or aimed at."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {"nodeSelectorTerms": []}
    fields = [field for term in required["nodeSelectorTerms"] for field in term.get("matchFields") or []]
    return next((str(field["values"][0]) for field in fields if field["key"] == "metadata.name"), "")


def is_live(pod: Object) -> bool:
    """Neither on its way out nor ended."""
    return not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in ("Failed", "Succeeded")


def is_ready(pod: Object) -> bool:
    return is_live(pod) and statuses.condition(pod, "Ready").get("status") == "True"


class Witness:
    """Checks after each event that no node has two live pods, and that `floor` nodes have a ready one."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.now: dict[str, Object] = {}
        """The pods as they are, by uid."""
        self.ever: dict[str, str] = {}
        """Every pod there ever was: uid to node."""
        self.retired: set[str] = set()
        """The uids of pods that were told to go or are gone."""
        self.floor = 0
        self.wrong: list[str] = []
        self._changed = asyncio.Event()

    @property
    def ready(self) -> set[str]:
        """The nodes that are served."""
        return {node_of(pod) for pod in self.now.values() if is_ready(pod)}

    async def until(self, holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        """Look after each event; raises TimeoutError that says `what`, and what there is."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            there = sorted(f"{node_of(pod)}: {_words(pod)}" for pod in self.now.values())
            raise TimeoutError(f"not in {seconds:g} s: {what}; there is\n  " + "\n  ".join(there)) from None

    async def watch(self) -> None:
        """Until cancelled. After a break the pods are listed again."""
        while True:
            try:
                page = await self._api.page(PODS)
                self.now = {pod["metadata"]["uid"]: pod for pod in page["items"] or []}
                for pod in self.now.values():
                    self._see(pod)
                self._check()
                version = page["metadata"]["resourceVersion"]
                async with aclosing(closing(self._api.watch(PODS, resourceVersion=version, silence=300.0))) as events:
                    async for event in events:
                        if event.type == "ERROR":
                            break
                        apply(self.now, event)
                        self._see(event.object, gone=event.type == "DELETED")
                        self._check()
            except (Refusal, OSError, TimeoutError):
                await asyncio.sleep(0.1)

    def _see(self, pod: Object, *, gone: bool = False) -> None:
        uid = pod["metadata"]["uid"]
        self.ever[uid] = node_of(pod)
        if gone or pod["metadata"].get("deletionTimestamp"):
            self.retired.add(uid)

    def _check(self) -> None:
        self._changed.set()
        by_node: defaultdict[str, list[str]] = defaultdict(list)
        for pod in self.now.values():
            if is_live(pod):
                by_node[node_of(pod)].append(pod["metadata"]["name"])
        self.wrong += [f"two pods on {node}: {', '.join(names)}" for node, names in by_node.items() if len(names) > 1]
        if len(self.ready) < self.floor:
            unserved = sorted({*self.ever.values()} - self.ready)
            self.wrong.append(f"only {len(self.ready)} of {self.floor} nodes are served; not: {', '.join(unserved)}")


@asynccontextmanager
async def witnessing(api: Api) -> AsyncIterator[Witness]:
    """Watch while the block runs; at its end nothing was wrong at any moment."""
    witness = Witness(api)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(witness.watch(), name="witness")
        yield witness
        there = {pod["metadata"]["uid"] for pod in await api.list(PODS)}
        await witness.until(lambda: there <= witness.ever.keys(), "the witness has seen all there is")
        watching.cancel()
    assert not witness.wrong, "\n".join(dict.fromkeys(witness.wrong))


def _words(pod: Object) -> str:
    state = "terminating" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", "")
    return f"{pod['metadata']['name']} {state}{' ready' if is_ready(pod) else ''}"
