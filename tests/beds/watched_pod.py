"""A pod, and every state in which a watch has shown it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias

from tests.beds.api import EVENTS, PODS, STRATEGIC_MERGE_PATCH, Api, Object, closing
from tests.beds.objects import condition, is_ready

Environment: TypeAlias = Callable[[Object], Awaitable[Mapping[str, str]]]
"""What the program in the pod's container has in its environment."""


class WatchedPod:
    """Its watch is that of `watching`. `seen`: all states since the last change by the test, the first included."""

    def __init__(self, api: Api, name: str, patience: float, environment: Environment) -> None:
        self.api, self._name, self._patience = api, name, patience
        self._environment = environment
        self.seen: list[Object] = []
        self._news = asyncio.Event()

    async def change(self, patch: Object, *, sub: str = "") -> Object:
        """A strategic merge patch. What was seen before it is forgotten; returns the pod as it was."""
        before = await self.api.get(PODS, self._name)
        self.seen[:] = [before]
        await self.api.patch(PODS, self._name, patch, sub=sub, content_type=STRATEGIC_MERGE_PATCH)
        return before

    async def image(self, image: str, name: str = "agent", field: str = "containers") -> Object:
        return await self.change({"spec": {field: [{"name": name, "image": image}]}})

    async def resize(self, **resources: Any) -> Object:
        return await self.change({"spec": {"containers": [{"name": "agent", "resources": resources}]}}, sub="resize")

    async def gate(self, value: str) -> Object:
        return await self.change({"status": {"conditions": [{"type": "gate", "status": value}]}}, sub="status")

    async def environment(self) -> Mapping[str, str]:
        return await self._environment(self.seen[-1])

    async def told(self, reason: str, words: str) -> Object:
        """Wait for an event about the pod whose message begins with these words; returns it."""

        def is_it(event: Object) -> bool:
            about = (event["involvedObject"]["name"], event["reason"])
            return about == (self._name, reason) and event["message"].startswith(words)

        what, seconds = f"{reason}: {words}", self._patience
        found = await self.api.wait_for(EVENTS, lambda told: any(map(is_it, told)), what, seconds=seconds)
        return next(filter(is_it, found))

    @asynccontextmanager
    async def beside(self, resources: Object) -> AsyncIterator[None]:
        """Another pod of the same image runs on the node with these resources, and is gone after the block."""
        ours = self.seen[-1]["spec"]
        container = {"name": "agent", "image": ours["containers"][0]["image"], "resources": resources}
        spec = {"nodeName": ours["nodeName"], "terminationGracePeriodSeconds": 1, "containers": [container]}
        await self.api.create(PODS, {"metadata": {"name": "beside"}, "spec": spec})
        what, seconds = "both pods run", self._patience
        await self.api.wait_for(PODS, lambda pods: [*map(is_ready, pods)] == [True, True], what, seconds=seconds)
        yield
        await self.api.delete(PODS, "beside")

    async def until(self, holds: Callable[[Object], bool], what: str) -> Object:
        """Wait until a state since the last change is like that; returns the first of them."""
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    for found in self.seen:
                        if holds(found):
                            return found
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"never {what}: {self.story()}") from None

    def story(self) -> list[str]:
        """In words, as far as they change."""
        told: list[str] = []
        for found in self.seen:
            words = in_words(found)
            if not told or told[-1] != words:
                told.append(words)
        return told

    def reasons(self, name: str = "agent") -> list[str]:
        """Why it waited or had ended, in the order in which each was seen first."""
        states = [next(iter(state_of(one, name)["state"].values())) for one in self.seen]
        return list(dict.fromkeys(state["reason"] for state in states if "reason" in state))

    async def follow(self) -> None:
        """Until cancelled."""
        query = {"fieldSelector": f"metadata.name={self._name}"}
        page = await self.api.page(PODS, **query)
        self._see(*page["items"])
        version = page["metadata"]["resourceVersion"]
        events = self.api.watch(PODS, silence=1e6, resourceVersion=version, **query)
        async with aclosing(closing(events)) as stream:
            async for event in stream:
                self._see(event.object)

    def _see(self, *found: Object) -> None:
        for one in found:
            if not self.seen or _version(one) > _version(self.seen[-1]):
                self.seen.append(one)
        self._news.set()


@asynccontextmanager
async def watching(
    api: Api, manifest: Object, patience: float, environment: Environment
) -> AsyncIterator[WatchedPod]:
    """Create a pod and wait until its containers run; `patience` is for each thing that is waited for, in seconds."""
    await api.create(PODS, manifest)
    pod = WatchedPod(api, manifest["metadata"]["name"], patience, environment)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(pod.follow())
        await pod.until(lambda found: condition(found, "ContainersReady").get("status") == "True", "running")
        yield pod
        task.cancel()


def state_of(found: Object, name: str = "agent") -> Object:
    """What the status says of a container."""
    status = found["status"]
    states = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    empty = {"state": {"none": {}}, "restartCount": 0}
    return next((one for one in states if one["name"] == name), empty)


def in_words(found: Object) -> str:
    state = state_of(found)
    ((what, more),) = state["state"].items()
    observed = found["status"].get("observedGeneration") == found["metadata"]["generation"]
    words = [more.get("reason", what), f"x{state['restartCount']}", "" if observed else "unobserved"]
    return " ".join(word for word in [*words, "ready" if is_ready(found) else "unready"] if word)


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])
