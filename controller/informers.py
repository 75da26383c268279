"""Keeps the caches up to date and passes their changes to the triggers, including ImagePullJobs if enabled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from controller.imagepull.parts import ImagePullParts
from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.requests import (
    DAEMONSETS,
    IMAGE_PULL_JOBS,
    NODES,
    NODES_WITH_IMAGES,
    PODS,
    PULLERS,
    REVISIONS,
    Resource,
    W,
)
from controller.observe.instrumentation import Instrumentation
from controller.reconcile.caches import Caches
from controller.reconcile.triggers import Triggers
from controller.runtime.clock import elapsed
from controller.runtime.reflector import Received, Reflector, Restarted, Restored
from controller.runtime.store import Change, Record, Store
from controller.runtime.watch import Connectivity

T = TypeVar("T", bound=Record)
AnyReflector: TypeAlias = Reflector[Any, Any]
Handler: TypeAlias = Callable[[Change[T]], None]
RESTORED_SECONDS = 30.0
"""Seconds in which all caches are listed again at most once because the server was restored from a backup."""


class Informers:
    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self.caches = Caches(namespaces or ("",))
        self.tasks: list[asyncio.Task[None]] = []
        self._is_synced = False
        self._restored_at = float("-inf")
        self._needed: list[AnyReflector] = []
        self._of_image_pulls: list[AnyReflector] = []

    def relist(self, resource: str) -> None:
        """Lists `resource` (a `Resource.name`) again in every namespace, because its cache may be wrong."""
        every = (*self._needed, *self._of_image_pulls)
        _relist([reflector for reflector in every if reflector.resource.name == resource])

    async def catch_up(self) -> None:
        """Lists again what a controller writes, and waits without limit until these lists are complete: a new
        leader's first plan must know its predecessor's last writes."""
        written = [reflector for reflector in self._needed if reflector.resource.name != NODES.name]
        _relist(written)
        await _all_synced(written)

    async def catch_up_image_pulls(self) -> None:
        """The same for ImagePullJobs, whose CRD or permission may be missing."""
        _relist(self._of_image_pulls)
        await _all_synced(self._of_image_pulls)

    @asynccontextmanager
    async def running(
        self, client: Client, triggers: Triggers, instrumentation: Instrumentation, pulls: ImagePullParts | None
    ) -> AsyncIterator[None]:
        """Keeps the caches up to date. Entering waits without limit for the lists, except those of `pulls`. Handlers
        of changes must be quick and not raise: an error ends the process, because a missed change would be worse."""
        caches = self.caches
        async with asyncio.TaskGroup() as group:

            def start(resource: Resource[W, T], store: Store[T], *handlers: Handler[T] | None) -> list[AnyReflector]:
                started: list[AnyReflector] = []
                for namespace, writer in store.writers.items():
                    reflector = Reflector(client.with_reserved_permit(), resource, writer, namespace=namespace)
                    used = [*filter(None, handlers)]
                    following = self._follow(reflector, used, triggers, instrumentation, pulls)
                    self.tasks.append(group.create_task(following, name="reflector"))
                    started.append(reflector)
                return started

            if pulls is None:
                nodes = start(NODES, caches.nodes, triggers.on_node)
            else:
                nodes = start(NODES_WITH_IMAGES, caches.nodes, triggers.on_node, pulls.on_node)
                self._of_image_pulls = [
                    *start(IMAGE_PULL_JOBS, caches.jobs, pulls.on_job),
                    *start(PULLERS, caches.pullers, pulls.on_puller),
                ]
            self._needed = [
                *nodes,
                *start(DAEMONSETS, caches.daemonsets, triggers.on_daemonset, pulls.on_daemonset if pulls else None),
                *start(REVISIONS, caches.revisions, triggers.on_revision, pulls.on_revision if pulls else None),
                *start(PODS, caches.pods, triggers.on_pod),
            ]
            await _all_synced(self._needed)
            self._is_synced = True
            yield
            tasks, self.tasks = self.tasks, []
            for task in tasks:
                task.cancel()

    async def _follow(
        self,
        reflector: Reflector[Any, T],
        handlers: list[Handler[T]],
        triggers: Triggers,
        instrumentation: Instrumentation,
        pulls: ImagePullParts | None,
    ) -> None:
        name, plural = reflector.name, reflector.resource.plural
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case Change():
                        for handle in handlers:
                            handle(event)
                    case Received():
                        instrumentation.received(plural, name)
                    case Restarted(reason=reason):
                        instrumentation.watch_restarted(plural, reason)
                    case Malformed():
                        triggers.on_malformed(plural, event)
                    case Connectivity():
                        instrumentation.connectivity(name, event)
                        if event.state == "reachable":
                            self._reached(triggers, pulls)
                    case Restored():
                        self._restored(triggers, reflector)

    def _reached(self, triggers: Triggers, pulls: ImagePullParts | None) -> None:
        if self._is_synced:
            triggers.on_server_back()
            if pulls is not None:
                pulls.on_server_back()

    def _restored(self, triggers: Triggers, noticed_by: AnyReflector) -> None:
        if elapsed() - self._restored_at >= RESTORED_SECONDS:
            self._restored_at = elapsed()
            triggers.on_server_restored(noticed_by.resource, noticed_by.namespace)
            _relist([other for other in (*self._needed, *self._of_image_pulls) if other is not noticed_by])


def _relist(reflectors: list[AnyReflector]) -> None:
    for reflector in reflectors:
        reflector.relist()


async def _all_synced(reflectors: list[AnyReflector]) -> None:
    for reflector in reflectors:
        await reflector.synced()
