"""The base classes of all types of the project.

A `View` has some fields of an object of somebody else; decoding drops all others, so a view must never be encoded and
written back. The types prevent that: `as_bytes` takes only JSON, which cannot contain a view, and `as_json` turns
only a `Part` into JSON. The linter bans every other way to encode, except in the files that encode our own
annotations and reports (pyproject.toml lists them).

A `Value` is anything else that is decided or passed on: frozen, compared by content. Neither is tracked by the cyclic
garbage collector (`gc=False`): they form no cycles, and so it need not scan a cache of 30,000 pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, dataclass_transform

import msgspec

if TYPE_CHECKING:
    JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
    JSONObject: TypeAlias = dict[str, JSON]
else:  # msgspec resolves annotations at run time and knows no recursive alias
    JSON = Any
    JSONObject = dict[str, Any]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Some fields of an object as the API server sends it. For decoding only."""


class Part(View):
    """A part of an object whose fields are all known here, so that it may also be written."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen record of our own."""


def as_json(part: Part) -> JSONObject:
    fields: JSONObject = msgspec.json.decode(msgspec.json.encode(part))
    return fields


def as_bytes(value: JSON | Sequence[JSON], *, ordered: bool = False) -> bytes:
    """`value` as JSON. `ordered`: with sorted keys, so that equal values give equal bytes."""
    return msgspec.json.encode(value, order="sorted" if ordered else None)


def is_same(one: JSON, other: JSON) -> bool:
    """Whether two values are equal as JSON; in Python, 1 equals True."""
    return as_bytes(one, ordered=True) == as_bytes(other, ordered=True)


def value_at(document: JSON, *path: str) -> JSON:
    """The value at `path`, whose segments for lists are indexes as text; None if nothing is there."""
    here = document
    for segment in path:
        if isinstance(here, dict):
            here = here.get(segment)
        elif isinstance(here, list) and segment.isdecimal() and int(segment) < len(here):
            here = here[int(segment)]
        else:
            return None
    return here


def fields_of(value: JSON) -> JSONObject:
    """`value` if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def items_of(value: JSON) -> list[JSONObject]:
    """All objects in a list; none if `value` is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
