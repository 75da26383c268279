"""Whole collections, page by page: only one page of answers is in memory at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from controller.kube.client import Client, Query
from controller.kube.decode import Seen
from controller.kube.resource import Resource, W
from kubectl_plugin.cluster.documents import PAGE

T = TypeVar("T")


async def listed(
    client: Client, resource: Resource[W, T], namespace: str = "", query: Query = ()
) -> AsyncIterator[T]:
    """All objects that can be read. Raises ApiError."""
    token = ""
    while True:
        page = await client.page(resource, namespace, limit=PAGE, token=token, query=query)
        for item in page.items:
            if isinstance(item, Seen) and item.obj is not None:
                yield item.obj
        if not (token := page.token):
            return
