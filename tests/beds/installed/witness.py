"""Watches all pods of a namespace the whole time, and ends the test at a moment that should not have been."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from tests.beds.api import PODS, Api, Object, Refusal, apply, closing
from tests.beds.objects import is_live, node_of, serves


class _Live(NamedTuple):
    """What a check has to know of a live pod; worked out once an event, for hundreds of pods are there."""

    node: str
    name: str
    revision: str
    ready: bool


class Witness:
    """Checks after each event that `floor` nodes have a ready pod, and that no node has two live ones.

    With `most_pairs` that many nodes may have two live pods, of different revisions. The first moment that should not
    have been ends the test.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self.now: dict[str, Object] = {}
        """The pods as they are, by uid."""
        self.ever: dict[str, str] = {}
        """Every pod there ever was: uid to node."""
        self.retired: dict[str, str] = {}
        """The pods that were deleted or are gone: uid to node, in the order in which it happened."""
        self.joined: set[str] = set()
        """Nodes that got a pod while another one still ran there, also one that was deleted."""
        self.floor = 0
        self.most_pairs = 0
        self._live: dict[str, _Live] = {}
        self._changed = asyncio.Event()

    @property
    def ready(self) -> set[str]:
        """The nodes that are served."""
        return {pod.node for pod in self._live.values() if pod.ready}

    @property
    def pairs(self) -> set[str]:
        """The nodes that have more than one live pod."""
        return {node for node, pods in self._by_node().items() if len(pods) > 1}

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

    async def up_to_date(self) -> None:
        """Wait until it has seen what the server has now, for others may have seen that before."""
        page = await self._api.page(PODS)
        there = {pod["metadata"]["uid"]: _version(pod) for pod in page["items"] or []}
        listed = _version(page)

        def holds() -> bool:
            known = {uid: _version(pod) for uid, pod in self.now.items()}
            seen = all(uid in self.ever and known.get(uid, version) >= version for uid, version in there.items())
            return seen and all(uid in there or version > listed for uid, version in known.items())

        await self.until(holds, "the witness has seen all there is")

    async def watch(self) -> None:
        """Until cancelled. After a break the pods are listed again."""
        while True:
            try:
                page = await self._api.page(PODS)
                self.now = {pod["metadata"]["uid"]: pod for pod in page["items"] or []}
                self._live.clear()
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
        uid, node = pod["metadata"]["uid"], node_of(pod)
        if uid not in self.ever and any(one is not pod and node_of(one) == node for one in self.now.values()):
            self.joined.add(node)
        self.ever[uid] = node
        if gone or pod["metadata"].get("deletionTimestamp"):
            self.retired.setdefault(uid, node)
        if gone or not is_live(pod):
            self._live.pop(uid, None)
        else:
            revision = pod["metadata"].get("labels", {}).get("controller-revision-hash", "")
            self._live[uid] = _Live(node, pod["metadata"]["name"], revision, serves(pod))

    def _by_node(self) -> dict[str, list[_Live]]:
        by_node: defaultdict[str, list[_Live]] = defaultdict(list)
        for pod in self._live.values():
            by_node[pod.node].append(pod)
        return by_node

    def _check(self) -> None:
        self._changed.set()
        pairs = {node: pods for node, pods in self._by_node().items() if len(pods) > 1}
        assert len(pairs) <= self.most_pairs, f"{self.most_pairs} nodes may have two pods, not {_who(pairs)}"
        odd = {node: pods for node, pods in pairs.items() if pods[2:] or pods[0].revision == pods[1].revision}
        assert not odd, f"not one old and one new pod: {_who(odd)}"
        served = self.ready
        assert len(served) >= self.floor, (
            f"{len(served)} nodes are served, not {self.floor}; without: {sorted({*self.ever.values()} - served)}"
        )


@asynccontextmanager
async def witnessing(api: Api) -> AsyncIterator[Witness]:
    """Watch while the block runs; a moment that should not have been ends it."""
    witness = Witness(api)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(witness.watch(), name="witness")
        yield witness
        await witness.up_to_date()
        watching.cancel()


def _who(by_node: dict[str, list[_Live]]) -> str:
    return "; ".join(f"{node}: {', '.join(pod.name for pod in pods)}" for node, pods in sorted(by_node.items()))


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])


def _words(pod: Object) -> str:
    state = "terminating" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", "")
    return f"{pod['metadata']['name']} {state}{' ready' if serves(pod) else ''}"
