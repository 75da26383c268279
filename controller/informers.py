"""Keeps the four caches up to date while its scope is open; and those of ImagePullJobs, if these are enabled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NoReturn, Protocol, TypeVar

import msgspec

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.caches import Caches
from controller.daemonset.triggers import Triggers
from controller.imagepull.assembly import ImagePullParts
from controller.instrumentation import Instrumentation
from controller.kube.client import Client
from controller.kube.decode import Malformed
from controller.kube.kinds import (
    DAEMONSETS,
    IMAGE_PULL_JOBS,
    NODES,
    NODES_WITH_IMAGES,
    PODS,
    PULLERS,
    REVISIONS,
)
from controller.kube.resource import Resource, W
from controller.runtime.contact import Contact
from controller.runtime.reflector import Reflector
from controller.runtime.store import Change, Record, ScopedStore, open_scoped_store

T = TypeVar("T", bound=Record)


class Running(Protocol):
    """A reflector, whatever its resource."""

    async def run(self) -> NoReturn: ...
    async def synced(self) -> None: ...
    def relist(self) -> None: ...


class _Watching(msgspec.Struct, frozen=True):
    """Makes reflectors whose callbacks also receive the name of the watched resource."""

    client: Client
    instrumentation: Instrumentation
    on_malformed: Callable[[str, Malformed], None]
    met: Callable[[str, Contact], None]

    def all(
        self, what: Resource[W, T], stored: ScopedStore[T], on_change: Callable[[Change[T]], None]
    ) -> Iterator[Reflector[W, T]]:
        """One reflector for each namespace."""
        for namespace, writer in stored.writers.items():
            name = f"{what.name} with {what.only}" if what.only else what.name
            name = f"{name} in {namespace}" if namespace else name
            yield Reflector(
                self.client.apart(),
                what,
                writer,
                namespace=namespace,
                on_change=on_change,
                on_malformed=partial(self.on_malformed, what.plural),
                on_contact=partial(self.met, name),
                on_heard=partial(self.instrumentation.heard, what.plural, name),
                on_restart=partial(self.instrumentation.watch_restarted, what.plural),
            )


def _each(listeners: Iterable[Callable[[Change[T]], None]]) -> Callable[[Change[T]], None]:
    several = tuple(listeners)

    def tell(change: Change[T]) -> None:
        for listener in several:
            listener(change)

    return tell


class Informers:
    """All caches. They are empty at first; `filling` fills them and keeps them up to date."""

    def __init__(self, namespaces: tuple[str, ...]) -> None:
        self.namespaces = namespaces or ("",)
        self.daemonsets = open_scoped_store(DaemonSet, self.namespaces)
        self.pods = open_scoped_store(Pod, self.namespaces)
        self.nodes = open_scoped_store(Node, ("",))
        self.revisions = open_scoped_store(Revision, self.namespaces)
        self.caches = Caches(self.daemonsets.store, self.pods.store, self.nodes.store, self.revisions.store)
        self._reflectors: list[tuple[str, Running]] = []
        self._pulls: list[Running] = []
        self.is_synced = False
        self.running = 0
        """How many watches should be alive now."""

    def relist(self, resource: str) -> None:
        """List `resource` (a `Resource.name`) again in every namespace, because its cache may be wrong."""
        for name, reflector in self._reflectors:
            if name == resource:
                reflector.relist()

    async def caught_up(self) -> None:
        """List again whatever a controller writes, and wait until all lists are complete, for ever if need be.

        For a new leader: its watches may lie behind its predecessor's last writes, and nothing may be planned from a
        cache that has not seen them.
        """
        written = [one for name, one in self._reflectors if name != NODES.name]
        for reflector in written:
            reflector.relist()
        for reflector in written:
            await reflector.synced()

    async def pulls_caught_up(self) -> None:
        """List again what ImagePullJobs need, and wait until all lists are complete, for ever if need be: their CRD
        may be missing, or we may not be allowed to read them."""
        self.relist_pulls()
        for reflector in self._pulls:
            await reflector.synced()

    def relist_pulls(self) -> None:
        for reflector in self._pulls:
            reflector.relist()

    @asynccontextmanager
    async def filling(
        self,
        client: Client,
        triggers: Triggers,
        instrumentation: Instrumentation,
        pulls: ImagePullParts | None,
    ) -> AsyncIterator[None]:
        """Keep the caches up to date while the block runs. Entering waits until every first list is complete, for
        ever if need be; it does not wait for the lists of `pulls`."""
        both = (triggers,) if pulls is None else (triggers, pulls)

        def met(name: str, contact: Contact) -> None:
            instrumentation.contact(name, contact)
            if self.is_synced and contact.state == "reachable":
                for one in both:
                    one.on_server_back()

        watching = _Watching(client, instrumentation, triggers.on_malformed, met)
        nodes: Iterable[Running] = (
            watching.all(NODES, self.nodes, triggers.on_node)
            if pulls is None
            else watching.all(NODES_WITH_IMAGES, self.nodes, _each(one.on_node for one in both))
        )
        needed: dict[str, Iterable[Running]] = {
            NODES.name: nodes,
            DAEMONSETS.name: watching.all(DAEMONSETS, self.daemonsets, _each(one.on_daemonset for one in both)),
            REVISIONS.name: watching.all(REVISIONS, self.revisions, _each(one.on_revision for one in both)),
            PODS.name: watching.all(PODS, self.pods, triggers.on_pod),
        }
        self._reflectors = [(name, one) for name, several in needed.items() for one in several]
        if pulls is not None:
            self._pulls = [
                *watching.all(IMAGE_PULL_JOBS, pulls.jobs, pulls.on_job),
                *watching.all(PULLERS, pulls.pullers, pulls.on_puller),
            ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(reflector.run(), name="reflector") for _, reflector in self._reflectors]
            running += [group.create_task(reflector.run(), name="reflector") for reflector in self._pulls]
            self.running = len(running)
            for _, reflector in self._reflectors:
                await reflector.synced()
            self.is_synced = True
            yield
            self.running = 0
            for task in running:
                task.cancel()
