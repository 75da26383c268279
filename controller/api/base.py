"""The two bases that every type of the project stands on.

`View` is what we read of somebody else's object: unknown fields are dropped while decoding, so a view must
never be encoded and written back. `Value` is everything else that is decided or passed on: frozen, compared
by content. Neither is tracked by the cyclic garbage collector (`gc=False`): they form no cycles, and a cache
of 30,000 pods then leaves it nothing to scan.
"""

from __future__ import annotations

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


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen record of our own."""


def is_same(one: JSON, other: JSON) -> bool:
    """Equal as JSON: in Python 1 is True, too."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


def fields_of(value: JSON) -> JSONObject:
    """`value` where it is an object, else one without fields."""
    return value if isinstance(value, dict) else {}


def items_of(value: JSON) -> list[JSONObject]:
    """The objects of a list; none where it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
