"""A local copy of all objects of one kind, kept by list and watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeAlias

from tests.beds.api import Api, Object, Refusal, Resource, closing

Seen: TypeAlias = Callable[[Object], None]
RETRY_SECONDS = 0.2


class Mirror:
    """Tells of each new state (`seen`) and of each object that is gone (`lost`)."""

    def __init__(self, api: Api, resource: Resource, *, seen: Seen, lost: Seen) -> None:
        self.objects: dict[str, Object] = {}
        """By uid."""
        self.synced = asyncio.Event()
        self._api, self._resource, self._seen, self._lost = api, resource, seen, lost

    async def run(self) -> None:
        """Until cancelled; a server that does not answer is asked again and again."""
        while True:
            try:
                await self._follow(await self._list())
            except (Refusal, OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)

    async def _list(self) -> str:
        page = await self._api.page(self._resource, namespace="")
        now = {item["metadata"]["uid"]: item for item in page["items"] or []}
        for uid in [uid for uid in self.objects if uid not in now]:
            self._lost(self.objects.pop(uid))
        for uid, item in now.items():
            self._note(uid, item)
        self.synced.set()
        version: str = page["metadata"]["resourceVersion"]
        return version

    async def _follow(self, version: str) -> None:
        events = self._api.watch(
            self._resource, namespace="", silence=300.0, resourceVersion=version, allowWatchBookmarks="true"
        )
        async with aclosing(closing(events)) as stream:
            async for event in stream:
                if event.type == "ERROR":
                    return
                uid = event.object["metadata"].get("uid", "")
                if event.type == "DELETED":
                    self.objects.pop(uid, None)
                    self._lost(event.object)
                elif event.type != "BOOKMARK":
                    self._note(uid, event.object)

    def _note(self, uid: str, item: Object) -> None:
        old = self.objects.get(uid)
        if old is None or old["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            self.objects[uid] = item
            self._seen(item)
