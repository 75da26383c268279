"""Lists and watches: selectors, paging, versions, and what is too old."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from tests.beds.simulator import refusal
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.objects import Cause, Kind, Name, Stored
from tests.beds.simulator.refusal import Refused
from tests.beds.simulator.selection import selector
from tests.beds.simulator.store import Watch

TRUE = ("1", "true", "True")


@dataclass(frozen=True)
class Asked:
    """Which objects, in which API version, with which query."""

    kind: Kind
    version: str
    namespace: str
    query: Mapping[str, str]

    def number(self, key: str) -> int:
        """An integer of the query, 0 when it is missing. Raises 400."""
        text = self.query.get(key) or "0"
        if not text.isdigit():
            raise refusal.bad_request(f'invalid {key}: strconv.ParseUint: parsing "{text}": invalid syntax')
        return int(text)

    def key(self, name: Name) -> str:
        """The place of an object in the order of this list."""
        return f"/{name[1]}" if self.namespace or not self.kind.namespaced else f"/{name[0]}/{name[1]}"

    def flag(self, key: str) -> bool:
        return self.query.get(key) in TRUE


class _Token(msgspec.Struct):
    rv: int
    """-1: the latest, whatever has happened since the first page."""
    start: str
    v: str = "meta.k8s.io/v1"


def list_objects(cluster: Cluster, asked: Asked, *, stale_version: int | None = None) -> bytes:
    """A list or one page of it. `stale_version`: answer as a server that has not yet seen anything newer."""
    store, kind = cluster.store, asked.kind
    if asked.flag("sendInitialEvents"):
        raise _forbidden_option("sendInitialEvents", "sendInitialEvents is forbidden for list")
    selected = selector(kind, asked.query.get("labelSelector", ""), asked.query.get("fieldSelector", ""))
    token = _read_token(asked.query.get("continue", ""))
    version, start = stale_version or _list_version(cluster, asked), ""
    if token:
        version, start = token.rv if token.rv > 0 else store.version, token.start
    if version < store.histories[kind].forgotten and version != store.version:
        raise _too_old_to_continue(token) if token else _too_old(version, store.histories[kind].forgotten)
    objects = store.objects[kind]
    if version != store.version:
        objects = store.histories[kind].as_of(version, objects)
    names = sorted(name for name in objects if asked.namespace in ("", name[0]) and asked.key(name) >= start)
    found = [objects[name] for name in names]
    if selected is not None:
        found = [item for item in found if selected(item.object)]
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    limit = asked.number("limit")
    if limit and len(found) > limit:
        metadata["continue"] = _write_token(_Token(rv=version, start=asked.key(found[limit - 1].name) + "\0"))
        if selected is None:
            metadata["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    return list_document(asked, metadata, found)


def list_document(asked: Asked, metadata: dict[str, object], found: list[Stored]) -> bytes:
    kind = asked.kind
    items = b",".join(item.encoded(asked.version) if kind.custom else item.inner for item in found)
    head = f'{{"kind":"{kind.kind}List","apiVersion":"{kind.api_version(asked.version)}","metadata":'
    return b"".join((head.encode(), msgspec.json.encode(metadata), b',"items":[', items, b"]}\n"))


def _list_version(cluster: Cluster, asked: Asked) -> int:
    """The version whose state is asked for."""
    version, match = asked.number("resourceVersion"), asked.query.get("resourceVersionMatch", "")
    if match and not asked.query.get("resourceVersion"):
        raise _forbidden_option(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if version > cluster.store.version:
        raise too_new(version, cluster.store.version)
    exact = match == "Exact" or (not match and version and asked.number("limit"))
    return version if exact else cluster.store.version


def open_watch(cluster: Cluster, asked: Asked) -> Watch:
    """A watch from a version on, from now on, or with all objects first. The caller removes it: `close_watch`."""
    store, kind, query = cluster.store, asked.kind, asked.query
    selected = selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
    initial = _wants_initial_events(cluster, asked)
    version = asked.number("resourceVersion")
    if version > store.version:
        raise too_new(version, store.version)
    watch = Watch(
        kind, asked.version, asked.namespace, selected, bookmarks=asked.flag("allowWatchBookmarks"), version=version
    )
    forgotten = store.histories[kind].forgotten
    if initial or (initial is None and version == 0):
        for name in sorted(store.objects[kind]):
            if asked.namespace in ("", name[0]):
                watch.show(store.objects[kind][name])
        if initial and watch.bookmarks:
            watch.bookmark(store.version, initial_end=True)
    elif version and version < forgotten:
        watch.fail(_too_old(version, forgotten).body())
        return watch
    elif version:
        for change in store.histories[kind].since(version):
            watch.offer(change)
    watch.version = store.version
    store.watches[kind].append(watch)
    return watch


def close_watch(cluster: Cluster, watch: Watch) -> None:
    """Report no change any more."""
    watches = cluster.store.watches.get(watch.kind, [])
    if watch in watches:
        watches.remove(watch)


def _wants_initial_events(cluster: Cluster, asked: Asked) -> bool | None:
    if "sendInitialEvents" not in asked.query:
        if asked.query.get("resourceVersionMatch"):
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise _forbidden_option("resourceVersionMatch", why)
        return None
    if asked.query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _forbidden_option("resourceVersionMatch", why)
    if not cluster.watch_list:
        raise _forbidden_option(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        )
    return asked.flag("sendInitialEvents")


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except ValueError as error:
        raise refusal.bad_request("continue key is not valid: " + str(error)) from error


def _too_old(version: int, oldest: int) -> Refused:
    return refusal.expired(f"too old resource version: {version} ({oldest})")


def _too_old_to_continue(token: _Token) -> Refused:
    return refusal.expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        token=_write_token(_Token(rv=-1, start=token.start)),
    )


def too_new(version: int, latest: int) -> Refused:
    """What a server says that has not yet seen the version that is asked for."""
    return Refused(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {latest}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        retry_after=1,
    )


def _forbidden_option(field: str, why: str) -> Refused:
    cause = Cause(field, "FieldValueForbidden", f"Forbidden: {why}")
    return Refused(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {why}',
        {
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": cause.reason, "message": cause.message, "field": field}],
        },
    )
