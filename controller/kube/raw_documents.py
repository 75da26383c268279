"""Splits lists and watch events of the API server without decoding the objects in them: these may be malformed, or
nested too deeply for the decoder."""

from __future__ import annotations

from sys import intern
from typing import Generic, TypeVar

import msgspec

from controller.api.base import View
from controller.api.meta import Key
from controller.kube import nesting

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
        found = nesting.members(nesting.member(document, "metadata"))
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
        found = nesting.members(body)
        items = [msgspec.Raw(item) for item in nesting.elements(found.get("items", b"[]"))]
        return ListOf(metadata=msgspec.json.decode(found.get("metadata", b"{}"), type=_ListMeta), items=items)


def split_line(line: bytes) -> Line[msgspec.Raw]:
    """Raises UNREADABLE for bytes that are no watch event."""
    try:
        return _raw_line.decode(line)
    except RecursionError:
        found = nesting.members(line)
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
