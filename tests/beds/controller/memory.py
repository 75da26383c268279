"""What a running controller remembers: how many entries each of its collections has."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import Any

OURS = ("controller.", "prometheus_client.")


def entries(root: object) -> Counter[str]:
    """The entries of every collection that can be reached from there, summed up by class and attribute:
    `DaemonSetState.predecessors`. A collection inside another one counts beside it, with `[]`."""
    found, seen = Counter[str](), dict[int, object]()
    left: list[tuple[str, Any]] = [("", root)]
    while left:
        label, one = left.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one  # kept, so that its id stays its own
        if isinstance(one, Mapping):
            found[label] += len(one)
            left += [(f"{label}[]", inner) for pair in one.items() for inner in pair]
        elif isinstance(one, list | tuple | set | frozenset | deque):
            found[label] += len(one)
            left += [(f"{label}[]", inner) for inner in one]
        else:
            left += _inside(label, one)
    return found


def _inside(label: str, one: Any) -> Iterator[tuple[str, Any]]:
    """What an object refers to, each with its label."""
    kind = type(one)
    if isinstance(one, partial):
        yield from ((label, inner) for inner in (one.func, one.args, one.keywords))
    elif isinstance(one, MethodType):
        yield label, one.__self__
    elif isinstance(one, FunctionType):
        for cell in one.__closure__ or ():
            with suppress(ValueError):  # it is still empty
                yield label, cell.cell_contents
    elif kind.__module__.startswith(OURS) and not isinstance(one, type):
        slots = (name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
        for name in {*getattr(one, "__dict__", {}), *getattr(kind, "__struct_fields__", ()), *slots}:
            with suppress(AttributeError):
                yield f"{kind.__name__}.{name}", getattr(one, name)
