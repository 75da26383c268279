"""The API as raw dictionaries, for tests and for the nodes' stand-ins: no cache, no retries, no types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec

from controller.kube.decode import Lines
from controller.kube.requests import JSON_PATCH, Request, Response, Transport

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Object]

T = TypeVar("T")

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Resource:
    """Where the objects of one kind live."""

    root: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return self.root.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str, name: str = "", sub: str = "") -> str:
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{self.root}{scope}/{self.plural}", name, sub) if part)


PODS = Resource("/api/v1", "pods", "Pod")
NODES = Resource("/api/v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("/api/v1", "namespaces", "Namespace", namespaced=False)
CONFIGMAPS = Resource("/api/v1", "configmaps", "ConfigMap")
EVENTS = Resource("/api/v1", "events", "Event")
ACCOUNTS = Resource("/api/v1", "serviceaccounts", "ServiceAccount")
REVISIONS = Resource("/apis/apps/v1", "controllerrevisions", "ControllerRevision")
LEASES = Resource("/apis/coordination.k8s.io/v1", "leases", "Lease")
DAEMONSETS = Resource("/apis/apps.kruise.io/v1beta1", "daemonsets", "DaemonSet")
DAEMONSETS_ALPHA = Resource("/apis/apps.kruise.io/v1alpha1", "daemonsets", "DaemonSet")
IMAGE_PULL_JOBS = Resource("/apis/apps.kruise.io/v1beta1", "imagepulljobs", "ImagePullJob")
ROLLOUTS = Resource("/apis/rollouts.kruise.io/v1beta1", "rollouts", "Rollout")
CRDS = Resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False)


class Refusal(Exception):
    """An answer other than 2xx."""

    def __init__(self, request: Request, response: Response) -> None:
        self.status = response.status
        self.retry_after = response.retry_after
        try:
            self.body: Object = msgspec.json.decode(response.body)
        except msgspec.DecodeError:
            self.body = {"message": response.body.decode(errors="replace")}
        self.reason: str = self.body.get("reason", "")
        self.message: str = self.body.get("message", "")
        super().__init__(f"{request.method} {request.path}: {self.status} {self.reason}: {self.message}")

    @property
    def causes(self) -> list[Object]:
        """`details.causes`, empty when there are none."""
        causes: list[Object] = (self.body.get("details") or {}).get("causes") or []
        return causes


@dataclass(frozen=True)
class Event:
    """One line of a watch."""

    type: str
    object: Object


Predicate: TypeAlias = Callable[[Objects], bool]


class Api:
    """One user's way to the API; `namespace` is used where a call names none."""

    def __init__(self, transport: Transport, namespace: str = "default") -> None:
        self.transport = transport
        self.namespace = namespace

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Object:
        """Any request; raises Refusal for an answer other than 2xx."""
        encoded = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(
            method=method, path=path, query=tuple(query.items()), body=encoded, content_type=content_type
        )
        response = await self.transport.exchange(request)
        if response.status >= 300:
            raise Refusal(request, response)
        found: Object = msgspec.json.decode(response.body)
        return found

    async def create(self, resource: Resource, new: Object, *, sub: str = "", **query: str) -> Object:
        """`new` may leave out apiVersion, kind and namespace. With `sub`, a POST to that subresource of it."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **new}
        metadata = whole.get("metadata") or {}
        namespace = metadata.get("namespace") or self.namespace
        path = resource.path(namespace, metadata["name"], sub) if sub else resource.path(namespace)
        return await self.send("POST", path, whole, **query)

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        return await self.send("GET", resource.path(namespace or self.namespace, name))

    async def find(self, resource: Resource, name: str, *, namespace: str = "") -> Object | None:
        """The object, or None when there is none of that name."""
        try:
            return await self.get(resource, name, namespace=namespace)
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise

    async def page(self, resource: Resource, *, namespace: str | None = None, **query: str) -> Object:
        """One list document; `namespace` "" lists all namespaces."""
        return await self.send("GET", resource.path(self._scope(namespace)), **query)

    async def list(self, resource: Resource, *, namespace: str | None = None, **query: str) -> list[Object]:
        """The items of a list, in the server's order."""
        items: list[Object] = (await self.page(resource, namespace=namespace, **query))["items"] or []
        return items

    async def replace(self, resource: Resource, new: Object, *, sub: str = "", **query: str) -> Object:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **new}
        metadata = whole["metadata"]
        path = resource.path(metadata.get("namespace") or self.namespace, metadata["name"], sub)
        return await self.send("PUT", path, whole, **query)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        sub: str = "",
        content_type: str = "",
        **query: str,
    ) -> Object:
        """A list is sent as JSON Patch, a dictionary as merge patch, unless `content_type` says otherwise."""
        content_type = content_type or (JSON_PATCH if isinstance(patch, list) else MERGE_PATCH)
        path = resource.path(namespace or self.namespace, name, sub)
        return await self.send("PATCH", path, patch, content_type, **query)

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", options: Object | None = None, **query: str
    ) -> Object:
        """`options` are DeleteOptions: gracePeriodSeconds, propagationPolicy, preconditions."""
        path = resource.path(namespace or self.namespace, name)
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options} if options else None
        return await self.send("DELETE", path, body, **query)

    async def delete_all(self, resource: Resource, *, namespace: str | None = None, **query: str) -> Object:
        return await self.send("DELETE", resource.path(self._scope(namespace)), **query)

    async def watch(
        self, resource: Resource, *, namespace: str | None = None, silence: float = 60.0, **query: str
    ) -> AsyncIterator[Event]:
        """The events of one watch until the server ends it. Raises Refusal when it was not opened."""
        request = Request(
            method="GET",
            path=resource.path(self._scope(namespace)),
            query=(("watch", "1"), *query.items()),
            timeout=silence,
        )
        async with self.transport.stream(request) as stream, aclosing(closing(stream.chunks())) as chunks:
            if stream.status != 200:
                body = b"".join([chunk async for chunk in chunks])
                raise Refusal(request, Response(status=stream.status, body=body, retry_after=stream.retry_after))
            lines = Lines()
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    event: Object = msgspec.json.decode(line)
                    yield Event(event["type"], event["object"])

    async def wait_for(
        self,
        resource: Resource,
        predicate: Predicate,
        what: str,
        *,
        seconds: float = 60.0,
        namespace: str | None = None,
        **query: str,
    ) -> Objects:
        """Watch until `predicate` holds for all objects; raises TimeoutError that says `what` and what there is."""
        found: dict[str, Object] = {}
        try:
            async with asyncio.timeout(seconds):
                return await self._watch_until(resource, predicate, found, namespace, query, silence=seconds)
        except TimeoutError:
            there = "\n  ".join(describe(item) for item in found.values())
            raise TimeoutError(f"not in {seconds:g} s: {what}; there is:\n  {there}") from None

    async def _watch_until(
        self,
        resource: Resource,
        predicate: Predicate,
        found: dict[str, Object],
        namespace: str | None,
        query: dict[str, str],
        silence: float,
    ) -> Objects:
        while True:
            page = await self.page(resource, namespace=namespace, **query)
            found.clear()
            found.update((item["metadata"]["uid"], item) for item in page["items"] or [])
            if predicate(list(found.values())):
                return list(found.values())
            version = page["metadata"]["resourceVersion"]
            events = self.watch(resource, namespace=namespace, silence=silence, resourceVersion=version, **query)
            async with aclosing(closing(events)) as stream:
                async for event in stream:
                    if event.type == "ERROR":
                        break
                    apply(found, event)
                    if predicate(list(found.values())):
                        return list(found.values())

    def _scope(self, namespace: str | None) -> str:
        return self.namespace if namespace is None else namespace


def apply(found: dict[str, Object], event: Event) -> None:
    """Bring `found`, by uid, up to date with one event."""
    uid = event.object["metadata"].get("uid", "")
    if event.type in ("ADDED", "MODIFIED"):
        found[uid] = event.object
    elif event.type == "DELETED":
        found.pop(uid, None)


def describe(found: Object) -> str:
    """One line about an object for a failing test."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    words = [
        f"{metadata.get('namespace', '')}/{metadata['name']}",
        f"on {spec['nodeName']}" if spec.get("nodeName") else "",
        status.get("phase", ""),
        *(
            f"{c['type']}={c['status']}"
            for c in status.get("conditions") or []
            if c["type"] in ("Ready", "PodScheduled")
        ),
        "terminating" if metadata.get("deletionTimestamp") else "",
    ]
    return " ".join(word for word in words if word)


def closing(iterator: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """For `aclosing`: an iterator that may be left before its end."""
    if not isinstance(iterator, AsyncGenerator):
        raise TypeError(f"{iterator} cannot be closed")
    return iterator
