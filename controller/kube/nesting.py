"""Splits JSON without recursion, for documents that are nested more deeply than a recursive decoder can follow.

The API server accepts objects with thousands of levels; msgspec fails far sooner, even for parts that it only skips.
One level is split at a time, and the content of its parts is skipped without being read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

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
