"""Cuts bytes that arrive in chunks of any size into lines. A watch sends one JSON document per line.

Splits JSON without recursion, for documents that are nested more deeply than a recursive decoder can follow.

The API server accepts objects with thousands of levels; msgspec fails far sooner, even for parts that it only skips.
One level is split at a time, and the content of its parts is skipped without being read.

Splits lists and watch events of the API server without decoding the objects in them: these may be malformed, or
nested too deeply for the decoder.

Decodes bytes of the API server to records. An object that cannot be decoded never spoils its page or stream.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from functools import wraps
from math import isinf
from sys import intern
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from controller.api.formats import LONGEST_ITEM, shortened
from controller.api.objects import Key, Value, View
from controller.kube.requests import Resource, W


class Lines:
    """Cuts chunks into lines of any length: an object may have megabytes, for which the `readline` of the HTTP
    library fails."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line ends; empty lines are left out."""
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


_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"
_SHALLOW = 32
"""Levels that one regular expression skips at once. Each use of it costs about as much as some tens of bytes."""


def _inner() -> bytes:
    pattern = _FLAT
    for _ in range(_SHALLOW):
        pattern = rb'(?:[^"{}\[\]]++|' + _STRING + rb"|[{\[]" + pattern + rb"[}\]])*+"
    return pattern


_NAME = re.compile(rb"\s*(" + _STRING + rb")\s*:")
_TOP = re.compile(rb'(?:[^",{}\[\]]++|' + _STRING + rb")*+")
_INNER = re.compile(_inner(), re.DOTALL)
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_OPENINGS = re.compile(rb"(?:[{\[]++" + _FLAT + rb")++", re.DOTALL)
_CLOSERS = re.compile(rb"[}\]]++")
_CLOSINGS = re.compile(rb"(?:[}\]]++" + _FLAT + rb")++", re.DOTALL)


def members(document: bytes) -> dict[str, bytes]:
    """The members of an object: name -> value as JSON. Raises ValueError for anything else, or an incomplete
    object."""
    return dict(_members(document))


def member(document: bytes, wanted: str) -> bytes:
    """The value of one member; what follows it is not read. Raises KeyError if there is none."""
    for name, value in _members(document):
        if name == wanted:
            return value
    raise KeyError(wanted)


def elements(document: bytes) -> list[bytes]:
    """The elements of an array, each as JSON. Raises ValueError for anything else, or an incomplete array."""
    return list(_parts(document, b"["))


def _members(document: bytes) -> Iterator[tuple[str, bytes]]:
    for part in _parts(document, b"{"):
        name = _NAME.match(part)
        if name is None:
            raise ValueError("a member of an object has no name")
        yield msgspec.json.decode(name[1], type=str), part[name.end() :].strip()


def _parts(document: bytes, opening: bytes) -> Iterator[bytes]:
    """The parts between the commas of the outermost level. Raises ValueError for an incomplete document."""
    start = len(document) - len(document.lstrip())
    if document[start : start + 1] != opening:
        raise ValueError(f"expected {opening.decode()!r}")
    place = begin = start + 1
    while True:
        place = _end(_TOP, document, place)
        mark = document[place : place + 1]
        if mark == b",":
            yield document[begin:place]
            place = begin = place + 1
        elif mark in (b"{", b"["):
            place = _over(document, place)
        elif mark in (b"}", b"]"):
            if last := document[begin:place].strip():
                yield last
            return
        else:
            raise ValueError("the document is cut off")


def _over(document: bytes, place: int) -> int:
    """The end of the object or array that begins at `place`. It skips many levels at once, because there may be a
    million."""
    depth = 0
    while True:
        if document[place : place + 1] in (b"{", b"["):
            end = _end(_OPENINGS, document, place)
            depth += _brackets(document[place:end], b"{", b"[")
        elif document[place : place + 1] in (b"}", b"]"):
            if _end(_CLOSERS, document, place) - place >= depth:
                return place + depth
            exactly = re.compile(rb"(?:[}\]]" + _FLAT + rb"){%d}[}\]]" % (depth - 1), re.DOTALL)
            if found := exactly.match(document, place):
                return found.end()
            end = _end(_CLOSINGS, document, place)
            depth -= _brackets(document[place:end], b"}", b"]")
        else:
            raise ValueError("the document is cut off")
        place = _end(_INNER, document, end)


def _end(pattern: re.Pattern[bytes], document: bytes, place: int) -> int:
    found = pattern.match(document, place)
    return place if found is None else found.end()


def _brackets(part: bytes, *marks: bytes) -> int:
    """How many of these characters `part` has outside of strings."""
    if b'"' in part:
        part = b"".join(_ESCAPED.sub(b"", part).split(b'"')[::2])
    return sum(map(part.count, marks))


T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
"""The exceptions of a decoder or a projection for an object of unexpected form, or nested too deeply."""


class _ListMeta(View):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListOf(View, Generic[T]):
    """A page of a list."""

    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


class Line(View, Generic[T]):
    """A line of a watch."""

    type: str
    object: T


class SomeMeta(View):
    """The metadata that identify an object and its version."""

    name: str = ""
    namespace: str | None = None
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Some(View):
    metadata: SomeMeta = SomeMeta()


class _Code(View):
    code: int = 0


_raw_page = msgspec.json.Decoder(ListOf[msgspec.Raw])
_raw_line = msgspec.json.Decoder(Line[msgspec.Raw])
_some = msgspec.json.Decoder(_Some)
_code = msgspec.json.Decoder(_Code)


def meta_of(raw: msgspec.Raw) -> SomeMeta:
    """Empty if not even the metadata can be read."""
    try:
        return _some.decode(raw).metadata
    except RecursionError:
        return _meta_of_deep(bytes(raw))
    except msgspec.MsgspecError:
        return SomeMeta()


def _meta_of_deep(document: bytes) -> SomeMeta:
    """The metadata of a deeply nested object, field by field: its managedFields are nested as deeply."""
    try:
        found = members(member(document, "metadata"))
        kept = {name: msgspec.Raw(found[name]) for name in ("name", "namespace", "resourceVersion") if name in found}
        return msgspec.json.decode(msgspec.json.encode(kept), type=SomeMeta)
    except (msgspec.MsgspecError, ValueError, KeyError):
        return SomeMeta()


def taken_apart(body: bytes) -> tuple[str, tuple[tuple[Key, bytes], ...]]:
    """The token of the next page, and each object of this page by its key, however deeply objects are nested. Raises
    UNREADABLE for bytes that are no list."""
    page = split_page(body)
    return page.metadata.continue_, tuple([(key_of(meta_of(one)), bytes(one)) for one in page.items or ()])


def split_page(body: bytes) -> ListOf[msgspec.Raw]:
    """Raises UNREADABLE for bytes that are no list."""
    try:
        return _raw_page.decode(body)
    except RecursionError:
        found = members(body)
        items = [msgspec.Raw(item) for item in elements(found.get("items", b"[]"))]
        return ListOf(metadata=msgspec.json.decode(found.get("metadata", b"{}"), type=_ListMeta), items=items)


def split_line(line: bytes) -> Line[msgspec.Raw]:
    """Raises UNREADABLE for bytes that are no watch event."""
    try:
        return _raw_line.decode(line)
    except RecursionError:
        found = members(line)
        kind = msgspec.json.decode(found.get("type", b'""'), type=str)
        return Line(type=kind, object=msgspec.Raw(found.get("object", b"{}")))


def key_of(meta: SomeMeta) -> Key:
    return Key(intern(meta.namespace or ""), meta.name)


def code_of(raw: msgspec.Raw) -> int:
    """The HTTP status code in a Status; 0 if it has none."""
    try:
        return _code.decode(raw).code
    except UNREADABLE:
        return 0


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
