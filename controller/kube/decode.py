"""Decodes lists, watch lines and single objects of an API server to records. An object that cannot be decoded does
not affect the rest: it becomes `Malformed`, under its own key. That includes nesting beyond the decoder's limit: API
servers accept thousands of levels, but msgspec fails after about a thousand, even in parts that it skips."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import wraps
from math import isinf
from sys import intern
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from controller.api.formats import LONGEST_ITEM, truncated
from controller.api.objects import Key, Value, View
from controller.kube.requests import Resource, W

D = TypeVar("D")
R = TypeVar("R")
T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
"""Raised by decoders and projections for an object of unexpected form, or nested too deeply."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial state (metav1.InitialEventsAnnotationKey)."""
_LARGE = 64 * 1024
"""Bytes. A smaller document has too few objects to cause many garbage collections."""
_IN_FIELD = re.compile(r" - at `\$\.([^`]+)`\Z")
_LEVELS = 800
"""Levels kept of a document nested too deeply for the decoder."""
_TOO_DEEP = b'"...nested too deeply for this decoder (maximum recursion depth)"'
"""Replaces a value below `_LEVELS`; an object that contains it is malformed."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACKETS = re.compile(rb'[^"{}\[\]]*+(?:' + _STRING + rb'[^"{}\[\]]*+)*+(?:([{\[]++)|([}\]]++))', re.DOTALL)
"""Runs of brackets outside of strings: group 1 opens, group 2 closes."""


class Seen(Value, Generic[T]):
    """The latest state of an object; `obj` is None if it was deleted or is not ours."""

    key: Key
    version: str
    obj: T | None


class Malformed(Value):
    """An object that cannot be decoded. The name in its key is empty if even that cannot be read."""

    key: Key
    version: str
    reason: str
    """May quote a value of the object."""
    field: str = ""


class Bookmark(Value):
    """All changes up to `version` have arrived; with `initial_end`, so have all objects of the initial state."""

    version: str
    initial_end: bool = False


class ErrorEvent(Value):
    """The ERROR event with which the server ends a watch: a Status, and the HTTP status code in it."""

    status: int
    body: bytes


Item: TypeAlias = Seen[T] | Malformed
WatchEvent: TypeAlias = Seen[T] | Malformed | Bookmark


class Page(Value, Generic[T]):
    """Objects of a collection at `version`. `token` requests the next page; it is empty on the last."""

    items: tuple[Item[T], ...]
    version: str
    token: str = ""


def _uncollected(decode: Callable[[D, bytes], R]) -> Callable[[D, bytes], R]:
    """Disables garbage collection while decoding, until temporary objects are freed. A template of 1 MB has 200,000
    tracked objects, which would trigger hundreds of collections, each over everything decoded so far."""

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
    """Decodes one resource. Expensive to make, as its decoders are compiled. `page`, `line` and `single` raise
    UNREADABLE for malformed documents (truncated, a proxy's HTML). A malformed object in a page or line becomes
    `Malformed`, however deeply it is nested."""

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
            raw = _split(_raw_page, body)
            items, metadata = [self._item(item) for item in raw.items or ()], raw.metadata
        else:
            items, metadata = [self._projected(wire) for wire in page.items or ()], page.metadata
        return Page(items=tuple(items), version=metadata.resource_version, token=metadata.continue_)

    @_uncollected
    def line(self, line: bytes) -> WatchEvent[T] | ErrorEvent:
        try:
            event = self._line.decode(line)
        except UNREADABLE:
            return self._event(line)
        if event.type in ("MODIFIED", "ADDED"):
            return self._projected(event.object)
        if event.type != "DELETED":
            return self._event(line)
        meta = event.object.metadata
        return Seen(key=Key(intern(meta.namespace), meta.name), version=meta.resource_version, obj=None)

    @_uncollected
    def single(self, body: bytes) -> T | None:
        """One object; None if it is not ours. Raises UNREADABLE if it is malformed."""
        return self._project(self._object.decode(body))

    def _projected(self, wire: W) -> Item[T]:
        meta = wire.metadata
        key = Key(intern(meta.namespace), meta.name)
        try:
            return Seen(key=key, version=meta.resource_version, obj=self._project(wire))
        except UNREADABLE as error:
            return _malformed(key, meta.resource_version, error)

    def _item(self, raw: msgspec.Raw) -> Item[T]:
        try:
            if _TOO_DEEP in bytes(raw):
                raise RecursionError("maximum recursion depth exceeded")
            wire = self._object.decode(raw)
        except UNREADABLE as error:
            meta = _meta_of(raw)
            return _malformed(_key_of(meta), meta.resource_version, error)
        return self._projected(wire)

    def _event(self, line: bytes) -> WatchEvent[T] | ErrorEvent:
        """A rare event, or one that the resource's decoder cannot read."""
        event = _split(_raw_line, line)
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
                    reason=f"unknown watch event {truncated(unknown, LONGEST_ITEM)!r}",
                )


def _float(text: str) -> float:
    """Some ten times faster than the decoder for very large and small numbers. Raises ValueError if out of range."""
    value = float(text)
    if isinf(value):
        raise ValueError(f"{truncated(text, LONGEST_ITEM)} is out of range")
    return value


def _malformed(key: Key, version: str, error: Exception) -> Malformed:
    reason = str(error)
    found = _IN_FIELD.search(reason)
    field = truncated(found[1], LONGEST_ITEM) if found is not None else ""
    return Malformed(key=key, version=version, reason=truncated(reason, LONGEST_ITEM), field=field)


class _ListMeta(View):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(View, Generic[T]):
    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


class _Line(View, Generic[T]):
    type: str
    object: T


class _ObjectMeta(View):
    name: str = ""
    namespace: str | None = None
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Metadata(View):
    metadata: _ObjectMeta = _ObjectMeta()


class _Code(View):
    code: int = 0


_raw_page = msgspec.json.Decoder(_List[msgspec.Raw])
_raw_line = msgspec.json.Decoder(_Line[msgspec.Raw])
_metadata = msgspec.json.Decoder(_Metadata)
_code = msgspec.json.Decoder(_Code)


def _meta_of(raw: msgspec.Raw) -> _ObjectMeta:
    try:
        return _metadata.decode(raw).metadata
    except UNREADABLE:
        return _ObjectMeta()


def _split(decoder: msgspec.json.Decoder[R], document: bytes) -> R:
    try:
        return decoder.decode(document)
    except RecursionError:
        return decoder.decode(_cut_deep(document))


def _cut_deep(document: bytes) -> bytes:
    """`document` with `_TOO_DEEP` for values below `_LEVELS`, in one pass without recursion."""
    kept, begin, depth = list[bytes](), 0, 0
    for run in _BRACKETS.finditer(document):
        is_opening = run[1] is not None
        start, end = run.span(1 if is_opening else 2)
        if is_opening:
            if depth <= _LEVELS < depth + end - start:
                kept += (document[begin : start + _LEVELS - depth], _TOO_DEEP)
            depth += end - start
        else:
            if depth - (end - start) <= _LEVELS < depth:
                begin = start + depth - _LEVELS
            depth -= end - start
    return b"".join((*kept, document[begin:]))


def _code_of(raw: msgspec.Raw) -> int:
    try:
        return _code.decode(raw).code
    except UNREADABLE:
        return 0


def _key_of(meta: _ObjectMeta) -> Key:
    return Key(intern(meta.namespace or ""), meta.name)


class Lines:
    """Splits chunks into lines of any length: objects may have megabytes, for which aiohttp's `readline` fails."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without line ends and empty lines."""
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            self._rest.append(tail)
            return []
        if self._rest:
            head = b"".join((*self._rest, head))
            self._rest.clear()
        if tail:
            self._rest.append(tail)
        return [line for line in head.split(b"\n") if line]
