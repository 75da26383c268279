"""Takes JSON apart without recursion, for documents that nest deeper than a recursive decoder can follow.

The API server accepts objects that nest thousands of levels deep; msgspec gives up far sooner, also where it
only skips. One level is taken apart at a time: what is inside a part is never looked at, only stepped over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\],]")
_NAME = re.compile(rb"\s*(" + _STRING + rb")\s*:")


def members(document: bytes) -> dict[str, bytes]:
    """The members of an object: name -> value as JSON. Raises ValueError for anything else, or half an object."""
    found: dict[str, bytes] = {}
    for part in _parts(document, b"{"):
        name = _NAME.match(part)
        if name is None:
            raise ValueError("a member of an object has no name")
        found[msgspec.json.decode(name[1], type=str)] = part[name.end() :].strip()
    return found


def elements(document: bytes) -> list[bytes]:
    """The elements of an array, each as JSON. Raises ValueError for anything else, or half an array."""
    return list(_parts(document, b"["))


def _parts(document: bytes, opening: bytes) -> Iterator[bytes]:
    """What stands between the commas of the outermost level."""
    if not document.lstrip().startswith(opening):
        raise ValueError(f"expected {opening.decode()!r}")
    depth = begin = 0
    for token in _TOKEN.finditer(document):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
            if depth == 1:
                begin = token.end()
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                if last := document[begin : token.start()].strip():
                    yield last
                return
        elif mark == b"," and depth == 1:
            yield document[begin : token.start()]
            begin = token.end()
    raise ValueError("the document is cut off")
