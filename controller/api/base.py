"""The bases that every type of the project stands on.

`View` is what we read of somebody else's object: unknown fields are dropped while decoding, so a view must never be
encoded and written back. It cannot: `as_bytes` takes JSON, in which there is none, and only a `Part` becomes JSON, by
`as_json`. The linter refuses every other way to encode; the files of our own notes and reports are listed.

`Value` is everything else that is decided or passed on: frozen, compared by content. None of them is tracked by the
cyclic garbage collector (`gc=False`): they form no cycles, and a cache of 30,000 pods then leaves it nothing to scan.
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
    """Some fields of an object as the API server sends it. Decode only."""


class Part(View):
    """A part of an object all of whose fields are known here: what is read of it may be written."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen record of our own."""


def as_json(part: Part) -> JSONObject:
    fields: JSONObject = msgspec.json.decode(msgspec.json.encode(part))
    return fields


def as_bytes(value: JSON | Sequence[JSON], *, ordered: bool = False) -> bytes:
    """`ordered`: keys in order, so that what is equal is spelled equally."""
    return msgspec.json.encode(value, order="sorted" if ordered else None)


def is_same(one: JSON, other: JSON) -> bool:
    """Equal as JSON: in Python 1 is True, too."""
    return as_bytes(one, ordered=True) == as_bytes(other, ordered=True)


def fields_of(value: JSON) -> JSONObject:
    """`value` where it is an object, else one without fields."""
    return value if isinstance(value, dict) else {}


def items_of(value: JSON) -> list[JSONObject]:
    """The objects of a list; none where it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
