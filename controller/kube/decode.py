"""Decodes bytes of the API server to records. An object that cannot be decoded never spoils its page or stream."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from math import isinf
from sys import intern
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from controller.api.base import Value, View
from controller.api.meta import Key
from controller.api.text import LONGEST_ITEM, shortened
from controller.kube import nesting
from controller.kube.resource import Resource, W

T = TypeVar("T")
D = TypeVar("D")
R = TypeVar("R")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial state of a watch (metav1.InitialEventsAnnotationKey)."""
UNREADABLE = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
"""The exceptions of a decoder or a projection for an object of unexpected form, or nested too deeply."""
_LARGE = 64 * 1024
"""Bytes of JSON. Below, there are too few objects for collections to matter."""


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


class _ListMeta(View):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(View, Generic[T]):
    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


class _Line(View, Generic[T]):
    type: str
    object: T


class _SomeMeta(View):
    name: str = ""
    namespace: str | None = None
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Some(View):
    metadata: _SomeMeta = _SomeMeta()


class _Code(View):
    code: int = 0


_raw_page = msgspec.json.Decoder(_List[msgspec.Raw])
_raw_line = msgspec.json.Decoder(_Line[msgspec.Raw])
_some = msgspec.json.Decoder(_Some)
_code = msgspec.json.Decoder(_Code)


def _uncollected(decode: Callable[[D, bytes], R]) -> Callable[[D, bytes], R]:
    """Let no garbage collection come in between, and not before what was only decoded to be looked at is freed. A
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
        page, line = cast("Any", _List)[wire], cast("Any", _Line)[wire]  # types that exist at run time only
        self._page: msgspec.json.Decoder[_List[W]] = msgspec.json.Decoder(page, float_hook=_float)
        self._line: msgspec.json.Decoder[_Line[W]] = msgspec.json.Decoder(line, float_hook=_float)
        self._object: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire, float_hook=_float)

    @_uncollected
    def page(self, body: bytes) -> Page[T]:
        try:
            page = self._page.decode(body)
        except UNREADABLE:
            raw = _split_page(body)
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
            meta = _meta_of(raw)
            return _malformed(_key_of(meta), meta.resource_version, error)
        return self._kept(wire)

    def _careful_line(self, line: bytes) -> WatchEvent[T] | ErrorEvent:
        event = _split_line(line)
        if event.type in ("ADDED", "MODIFIED"):
            return self._item(event.object)
        meta = _meta_of(event.object)
        match event.type:
            case "DELETED":
                return Seen(key=_key_of(meta), version=meta.resource_version, obj=None)
            case "BOOKMARK":
                ends = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                return Bookmark(version=meta.resource_version, initial_end=ends)
            case "ERROR":
                return ErrorEvent(status=_code_of(event.object), body=bytes(event.object))
            case unknown:
                return Malformed(
                    key=_key_of(meta),
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
    return Malformed(key=key, version=version, reason=shortened(str(error), LONGEST_ITEM))


def _gone(wire: W) -> Seen[T]:
    meta = wire.metadata
    return Seen(key=Key(intern(meta.namespace), meta.name), version=meta.resource_version, obj=None)


def _meta_of(raw: msgspec.Raw) -> _SomeMeta:
    try:
        return _some.decode(raw).metadata
    except RecursionError:
        return _meta_of_deep(bytes(raw))
    except msgspec.MsgspecError:
        return _SomeMeta()


def _meta_of_deep(document: bytes) -> _SomeMeta:
    """The metadata of a deeply nested object, field by field: its managedFields are nested as deeply."""
    try:
        found = nesting.members(nesting.member(document, "metadata"))
        kept = {name: msgspec.Raw(found[name]) for name in ("name", "namespace", "resourceVersion") if name in found}
        return msgspec.json.decode(msgspec.json.encode(kept), type=_SomeMeta)
    except (msgspec.MsgspecError, ValueError, KeyError):
        return _SomeMeta()


def taken_apart(body: bytes) -> tuple[str, tuple[tuple[Key, bytes], ...]]:
    """The token of the next page, and each object of this page by its key, however deeply objects are nested. Raises
    UNREADABLE for bytes that are no list."""
    page = _split_page(body)
    return page.metadata.continue_, tuple([(_key_of(_meta_of(one)), bytes(one)) for one in page.items or ()])


def _split_page(body: bytes) -> _List[msgspec.Raw]:
    try:
        return _raw_page.decode(body)
    except RecursionError:
        found = nesting.members(body)
        items = [msgspec.Raw(item) for item in nesting.elements(found.get("items", b"[]"))]
        return _List(metadata=msgspec.json.decode(found.get("metadata", b"{}"), type=_ListMeta), items=items)


def _split_line(line: bytes) -> _Line[msgspec.Raw]:
    try:
        return _raw_line.decode(line)
    except RecursionError:
        found = nesting.members(line)
        kind = msgspec.json.decode(found.get("type", b'""'), type=str)
        return _Line(type=kind, object=msgspec.Raw(found.get("object", b"{}")))


def _key_of(meta: _SomeMeta) -> Key:
    return Key(intern(meta.namespace or ""), meta.name)


def _code_of(raw: msgspec.Raw) -> int:
    try:
        return _code.decode(raw).code
    except UNREADABLE:
        return 0
