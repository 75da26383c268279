"""Keeps the caches up to date and passes their changes to the triggers, including ImagePullJobs if enabled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.image_pull_job import ImagePullJob, Puller
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.imagepull.wiring import ImagePullParts
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
from controller.runtime.reflector import Received, Reflector, Restarted
from controller.runtime.store import Change, Record, ScopedStore, open_scoped_store
from controller.runtime.watch import Connectivity

T = TypeVar("T", bound=Record)
AnyReflector: TypeAlias = Reflector[Any, Any]


class Informers:
    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self.namespaces = namespaces or ("",)
        self.daemonsets = open_scoped_store(DaemonSet, self.namespaces)
        self.pods = open_scoped_store(Pod, self.namespaces)
        self.nodes = open_scoped_store(Node, ("",))
        self.revisions = open_scoped_store(Revision, self.namespaces)
        self.caches = Caches(self.daemonsets.store, self.pods.store, self.nodes.store, self.revisions.store)
        self.tasks: list[asyncio.Task[None]] = []
        self.is_synced = False
        self._needed: list[AnyReflector] = []
        self._of_image_pulls: list[AnyReflector] = []

    def relist(self, resource: str) -> None:
        """Lists `resource` (a `Resource.name`) again in every namespace, because its cache may be wrong."""
        _relist([one for one in self._needed if one.resource.name == resource])

    def relist_image_pulls(self) -> None:
        _relist(self._of_image_pulls)

    async def catch_up(self) -> None:
        """Lists again what a controller writes, and waits without limit until these lists are complete: a new
        leader's first plan must know its predecessor's last writes."""
        written = [one for one in self._needed if one.resource.name != NODES.name]
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
        """Keeps the caches up to date. Entering waits without limit for the lists, except those of `pulls`."""
        handler = _ChangeHandler(self, triggers, instrumentation, pulls)
        nodes: Resource[Any, Node] = NODES if pulls is None else NODES_WITH_IMAGES
        async with asyncio.TaskGroup() as group:

            def start(reflector: AnyReflector, handling: Coroutine[object, object, None]) -> AnyReflector:
                self.tasks.append(group.create_task(handling, name="reflector"))
                return reflector

            self._needed = [
                *(start(one, handler.nodes(one)) for one in _reflectors(client, nodes, self.nodes)),
                *(start(one, handler.daemonsets(one)) for one in _reflectors(client, DAEMONSETS, self.daemonsets)),
                *(start(one, handler.revisions(one)) for one in _reflectors(client, REVISIONS, self.revisions)),
                *(start(one, handler.pods(one)) for one in _reflectors(client, PODS, self.pods)),
            ]
            if pulls is not None:
                self._of_image_pulls = [
                    *(
                        start(one, handler.jobs(one, pulls))
                        for one in _reflectors(client, IMAGE_PULL_JOBS, pulls.jobs)
                    ),
                    *(start(one, handler.pullers(one, pulls)) for one in _reflectors(client, PULLERS, pulls.pullers)),
                ]
            await _all_synced(self._needed)
            self.is_synced = True
            yield
            tasks, self.tasks = self.tasks, []
            for task in tasks:
                task.cancel()


def _reflectors(client: Client, resource: Resource[W, T], stored: ScopedStore[T]) -> list[Reflector[W, T]]:
    return [
        Reflector(client.with_reserved_permit(), resource, writer, namespace=namespace)
        for namespace, writer in stored.writers.items()
    ]


def _relist(reflectors: list[AnyReflector]) -> None:
    for reflector in reflectors:
        reflector.relist()


async def _all_synced(reflectors: list[AnyReflector]) -> None:
    for reflector in reflectors:
        await reflector.synced()


class _ChangeHandler(msgspec.Struct, frozen=True):
    """Passes changes to their consumers, which must be quick and not raise: an error there ends the process, because
    a missed change would be worse."""

    informers: Informers
    triggers: Triggers
    instrumentation: Instrumentation
    pulls: ImagePullParts | None

    async def pods(self, reflector: Reflector[Any, Pod]) -> None:
        async for change in self._changes(reflector):
            self.triggers.on_pod(change)

    async def nodes(self, reflector: Reflector[Any, Node]) -> None:
        async for change in self._changes(reflector):
            self.triggers.on_node(change)
            if self.pulls is not None:
                self.pulls.on_node(change)

    async def daemonsets(self, reflector: Reflector[Any, DaemonSet]) -> None:
        async for change in self._changes(reflector):
            self.triggers.on_daemonset(change)
            if self.pulls is not None:
                self.pulls.on_daemonset(change)

    async def revisions(self, reflector: Reflector[Any, Revision]) -> None:
        async for change in self._changes(reflector):
            self.triggers.on_revision(change)
            if self.pulls is not None:
                self.pulls.on_revision(change)

    async def jobs(self, reflector: Reflector[Any, ImagePullJob], pulls: ImagePullParts) -> None:
        async for change in self._changes(reflector):
            pulls.on_job(change)

    async def pullers(self, reflector: Reflector[Any, Puller], pulls: ImagePullParts) -> None:
        async for change in self._changes(reflector):
            pulls.on_puller(change)

    async def _changes(self, reflector: Reflector[Any, T]) -> AsyncGenerator[Change[T]]:
        name, plural = reflector.name, reflector.resource.plural
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case Change():
                        yield event
                    case Received():
                        self.instrumentation.received(plural, name)
                    case Restarted(reason=reason):
                        self.instrumentation.watch_restarted(plural, reason)
                    case Malformed():
                        self.triggers.on_malformed(plural, event)
                    case Connectivity():
                        self.instrumentation.connectivity(name, event)
                        if event.state == "reachable" and self.informers.is_synced:
                            self._on_server_back()

    def _on_server_back(self) -> None:
        self.triggers.on_server_back()
        if self.pulls is not None:
            self.pulls.on_server_back()
