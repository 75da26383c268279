"""The steps of a rollout: the partitions it goes through, listed in an annotation that only the plugin reads."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from controller.api import formats
from controller.api.formats import IntOrPercent
from controller.api.objects import Value
from kubectl_plugin.errors import CommandError, ExitCode

STEPS_ANNOTATION: Final = "kruise-ds/steps"
"""Partitions in descending order: `22,16,8,0`, or `90%,50%,0`. The last 0 is optional."""

_LONGEST: Final = 9
"""Maximum digits of a number of nodes."""


class Steps(Value, rename="camel"):
    values: tuple[IntOrPercent, ...]
    """As written, descending; the last is 0."""
    index: int
    """Number of the present step, from 1; 0 before the first."""
    count: int
    next: IntOrPercent | None
    """The next partition, as written; None at the last step."""


def steps_of(annotations: Mapping[str, str], partition: IntOrPercent | None, desired: int) -> Steps | None:
    """None without the annotation. Percentages are of `desired` nodes. A partition between two steps counts as the
    earlier one; steps that keep the same number of pods are passed together. Raises CommandError (exit code 6) if the
    list is invalid."""
    text = annotations.get(STEPS_ANNOTATION)
    if text is None:
        return None
    values = _parsed(text)
    present = formats.scaled(partition, desired, round_up=False)
    kept = [formats.scaled(value, desired, round_up=False) for value in values]
    later = [value for value, pods in zip(values, kept, strict=True) if pods < present]
    index = len(values) - len(later)
    return Steps(values=values, index=index, count=len(values), next=later[0] if later else None)


def _parsed(text: str) -> tuple[IntOrPercent, ...]:
    values = tuple(_value(part.strip(), text) for part in text.split(","))
    for before, after in pairwise(values):
        alike = isinstance(before, str) == isinstance(after, str)  # else it depends on how many nodes there are
        former, later = (int(str(one).rstrip("%")) for one in (before, after))
        if alike and later >= former:
            raise _malformed(text, f"{after} is not smaller than {before}")
    return values if values[-1] in (0, "0%") else (*values, 0)


def _value(part: str, text: str) -> IntOrPercent:
    digits = part.removesuffix("%")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _LONGEST):
        raise _malformed(text, f'"{part}" is neither a number nor a percentage')
    if digits == part:
        return int(part)
    if int(digits) > 100:
        raise _malformed(text, f"{part} is more than all")
    return f"{int(digits)}%"


def _malformed(text: str, why: str) -> CommandError:
    return CommandError(
        f'annotation {STEPS_ANNOTATION}="{text}" is not a list of steps: {why}',
        hints=("write partitions from the largest to the smallest: 22,16,8,0 or 90%,50%,0",),
        exit_code=ExitCode.REFUSED,
    )
