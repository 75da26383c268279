"""Which values of the chart a line of the manifests hangs on: those without which it is no longer there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from tests.tools.chart.variants import VALUES, WATCHED, Name, On

Condition = frozenset[tuple[str, bool]]
"""Values, and whether each has to be on or off."""
Build = Callable[[On], Mapping[Name, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of an object."""

    text: str
    condition: Condition


EVERYTHING: Final = frozenset(VALUES) - {WATCHED}
BASES: Final = (EVERYTHING, EVERYTHING | {WATCHED}, EVERYTHING - {"metricsAuth", "hostNetwork"})
"""Together they hold every line: for all namespaces and for one, and those that two of the components replace."""

Objects = dict[Name, list[Line]]


def conditioned(build: Build) -> Objects:
    """Everything that the chart may hold, each value tried on and off while all others are as in one of `BASES`."""
    found: Objects = {}
    for base in BASES:
        for name, lines in _learned(build, base).items():
            found[name] = list(_merged(found.get(name, []), lines))
    return found


def _learned(build: Build, on: On) -> Objects:
    """The objects with these values on; each line with the values whose change loses it."""
    full = build(on)
    found = {name: [Line(text, frozenset()) for text in full[name].splitlines()] for name in sorted(full)}
    for value in VALUES:
        condition = frozenset({(value, value in on)})
        changed = build(on ^ {value})
        for name, lines in found.items():
            lost = _lost(lines, changed[name].splitlines()) if name in changed else range(len(lines))
            for index in lost:
                lines[index] = Line(lines[index].text, lines[index].condition | condition)
    return found


def _lost(lines: list[Line], left: list[str]) -> Iterator[int]:
    texts = [line.text for line in lines]
    for operation, start, end, _, _ in _differences(texts, left):
        if operation in ("delete", "replace"):
            yield from range(start, end)


def _merged(one: list[Line], other: list[Line]) -> Iterator[Line]:
    """The lines of both, those that both have once."""
    for operation, start, end, other_start, other_end in _differences(
        [line.text for line in one], [line.text for line in other]
    ):
        yield from one[start:end]
        if operation in ("insert", "replace"):
            yield from other[other_start:other_end]


def _differences(one: list[str], other: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    if one == other:  # large and usual
        return [("equal", 0, len(one), 0, len(other))]
    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


def of_all(lines: list[Line]) -> Condition:
    """What the object as a whole hangs on."""
    return frozenset.intersection(*(line.condition for line in lines))


def also(lines: list[Line], *, asked: str = "", whatever: str = "") -> list[Line]:
    """The same lines, if the value `asked` is on too, and whether or not `whatever` is."""
    more = {(asked, True)} if asked else set()
    return [Line(line.text, frozenset(one for one in line.condition if one[0] != whatever) | more) for line in lines]
