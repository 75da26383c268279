"""Stores and caches with objects in them, and a key of a work queue, for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.kube.decode import Seen
from controller.reconcile.caches import Caches
from controller.runtime.store import Record, Store, StoreWriter
from controller.runtime.workqueue import WorkItem, WorkQueue

T = TypeVar("T", bound=Record)


def open_store(of: type[T]) -> tuple[StoreWriter[T], Store[T]]:
    """A store for records of type `of`, and its one writer."""
    store = Store[T]()
    return store.writers[""], store


def fill(store: Store[Any], objects: Iterable[Any]) -> None:
    """Each is seen at its version."""
    for one in objects:
        store.writers[""].apply(Seen(key=one.key, version=one.version, obj=one))


def caches_of(
    daemonsets: Iterable[DaemonSet] = (),
    pods: Iterable[Pod] = (),
    nodes: Iterable[Node] = (),
    revisions: Iterable[Revision] = (),
) -> Caches:
    caches = Caches()
    fill(caches.daemonsets, daemonsets)
    fill(caches.pods, pods)
    fill(caches.nodes, nodes)
    fill(caches.revisions, revisions)
    return caches


K = TypeVar("K", bound=Hashable)


@asynccontextmanager
async def taken_from(queue: WorkQueue[K]) -> AsyncIterator[WorkItem[K]]:
    taken = await queue.get()
    try:
        yield taken
    finally:
        queue.done(taken)
