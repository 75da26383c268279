"""Decodes bytes of the API server to records. An object that cannot be decoded never spoils its page or stream."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import wraps
from math import isinf
from sys import intern
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from controller.api.base import Value
from controller.api.meta import Key
from controller.api.text import LONGEST_ITEM, shortened
from controller.kube.raw_documents import UNREADABLE, Line, ListOf, code_of, key_of, meta_of, split_line, split_page
from controller.kube.resource import Resource, W

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial state of a watch (metav1.InitialEventsAnnotationKey)."""
_LARGE = 64 * 1024
"""Bytes of JSON. A smaller document has too few objects to cause many garbage collections."""
_IN_FIELD = re.compile(r" - at `\$\.([^`]+)`\Z")
"""The end of a message of the decoder."""


class Seen(Value, Generic[T]):
    """The latest state of one object; `obj` is None if it is gone or not ours."""

    key: Key
    version: str
    obj: T | None


class Malformed(Value):
    """An object that exists but cannot be decoded. The name in its key is empty if not even that could be read."""

    key: Key
    version: str
    reason: str
    """May quote a value of the object."""
    field: str = ""
    """The field that cannot be decoded; empty if not known."""


class Bookmark(Value):
    """All changes up to `version` have come. With `initial_end`, also all objects of the initial state."""

    version: str
    initial_end: bool = False


class ErrorEvent(Value):
    """A watch event of type ERROR, with which the server ends the stream: `body` is its Status object, `status` the
    HTTP status code in it."""

    status: int
    body: bytes


Item: TypeAlias = Seen[T] | Malformed
WatchEvent: TypeAlias = Seen[T] | Malformed | Bookmark


class Page(Value, Generic[T]):
    """Some or all objects of a collection at `version`. `token` asks for the next page; empty on the last one."""

    items: tuple[Item[T], ...]
    version: str
    token: str = ""


def _uncollected(decode: Callable[[D, bytes], R]) -> Callable[[D, bytes], R]:
    """Disable garbage collection while decoding, until everything that was decoded only temporarily is freed. A
    template of a megabyte has 200,000 tracked objects, and would cause hundreds of collections, each over all that is
    decoded already."""

    @wraps(decode)
    def decode_at_once(decoder: D, body: bytes) -> R:
        if len(body) < _LARGE or not gc.isenabled():
            return decode(decoder, body)
        gc.disable()
        try:
            return decode(decoder, body)
        finally:
            gc.enable()

    return decode_at_once


class Decoder(Generic[W, T]):
    """Decodes one resource. Make it once, because compiling its decoders is expensive.

    `page`, `line` and `single` raise UNREADABLE for bytes that are no such document (cut off, HTML of a proxy). For a
    document that contains a bad object they return `Malformed`, however deeply that object is nested.
    """

    def __init__(self, resource: Resource[W, T]) -> None:
        self._project = resource.project
        wire = resource.wire
        page, line = cast("Any", ListOf)[wire], cast("Any", Line)[wire]  # types that exist at run time only
        self._page: msgspec.json.Decoder[ListOf[W]] = msgspec.json.Decoder(page, float_hook=_float)
        self._line: msgspec.json.Decoder[Line[W]] = msgspec.json.Decoder(line, float_hook=_float)
        self._object: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire, float_hook=_float)

    @_uncollected
    def page(self, body: bytes) -> Page[T]:
        try:
            page = self._page.decode(body)
        except UNREADABLE:
            raw = split_page(body)
            return Page(
                items=tuple([self._item(item) for item in raw.items or ()]),
                version=raw.metadata.resource_version,
                token=raw.metadata.continue_,
            )
        items = tuple([self._kept(wire) for wire in page.items or ()])
        return Page(items=items, version=page.metadata.resource_version, token=page.metadata.continue_)

    @_uncollected
    def line(self, line: bytes) -> WatchEvent[T] | ErrorEvent:
        try:
            event = self._line.decode(line)
        except UNREADABLE:
            return self._careful_line(line)
        if event.type in ("MODIFIED", "ADDED"):
            return self._kept(event.object)
        return _gone(event.object) if event.type == "DELETED" else self._careful_line(line)

    @_uncollected
    def single(self, body: bytes) -> T | None:
        """One object; None if it is not ours. Raises UNREADABLE for a malformed one."""
        return self._project(self._object.decode(body))

    def _kept(self, wire: W) -> Item[T]:
        meta = wire.metadata
        key = Key(intern(meta.namespace), meta.name)
        try:
            return Seen(key=key, version=meta.resource_version, obj=self._project(wire))
        except UNREADABLE as error:
            return _malformed(key, meta.resource_version, error)

    def _item(self, raw: msgspec.Raw) -> Item[T]:
        try:
            wire = self._object.decode(raw)
        except UNREADABLE as error:
            meta = meta_of(raw)
            return _malformed(key_of(meta), meta.resource_version, error)
        return self._kept(wire)

    def _careful_line(self, line: bytes) -> WatchEvent[T] | ErrorEvent:
        event = split_line(line)
        if event.type in ("ADDED", "MODIFIED"):
            return self._item(event.object)
        meta = meta_of(event.object)
        match event.type:
            case "DELETED":
                return Seen(key=key_of(meta), version=meta.resource_version, obj=None)
            case "BOOKMARK":
                ends = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                return Bookmark(version=meta.resource_version, initial_end=ends)
            case "ERROR":
                return ErrorEvent(status=code_of(event.object), body=bytes(event.object))
            case unknown:
                return Malformed(
                    key=key_of(meta),
                    version=meta.resource_version,
                    reason=f"unknown watch event {shortened(unknown, LONGEST_ITEM)!r}",
                )


def _float(text: str) -> float:
    """A number as a float. The decoder's own way is some ten times slower for very large and very small numbers.
    Raises ValueError for a number that no float can hold."""
    value = float(text)
    if isinf(value):
        raise ValueError(f"{shortened(text, LONGEST_ITEM)} is out of range")
    return value


def _malformed(key: Key, version: str, error: Exception) -> Malformed:
    words = str(error)
    found = _IN_FIELD.search(words)
    field = shortened(found[1], LONGEST_ITEM) if found is not None else ""
    return Malformed(key=key, version=version, reason=shortened(words, LONGEST_ITEM), field=field)


def _gone(wire: W) -> Seen[T]:
    meta = wire.metadata
    return Seen(key=Key(intern(meta.namespace), meta.name), version=meta.resource_version, obj=None)
