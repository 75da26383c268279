"""The steps of a rollout: the values that somebody wants the partition to go down by, one after the other.

They stand in an annotation of the DaemonSet and are the plugin's alone: the controller only ever sees the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from controller.api import formats
from controller.api.formats import IntOrPercent
from controller.api.objects import Value
from kubectl_plugin.errors import CommandError, ExitCode

STEPS_ANNOTATION: Final = "kruise-ds/steps"
"""Partitions from the largest to the smallest: `22,16,8,0`, or `90%,50%,0`. A last 0 may be left out."""

_LONGEST: Final = 9
"""Digits of a number that can be one of nodes."""


class Steps(Value, rename="camel"):
    """The steps of a rollout, and the one that the partition has reached."""

    values: tuple[IntOrPercent, ...]
    """As written, descending; the last one is 0."""
    index: int
    """Number of the present step, counted from 1; 0 while the partition is larger than in every step."""
    count: int
    next: IntOrPercent | None
    """The partition of the next step, as written; None at the last one."""


def steps_of(annotations: Mapping[str, str], partition: IntOrPercent | None, desired: int) -> Steps | None:
    """None without the annotation. `desired`: how many nodes should run a pod; percentages are of these.

    A partition between two steps counts as the earlier one; steps that come to the same number on so few nodes are
    passed together. Raises CommandError (6), which names the annotation, for what is not a list of steps.
    """
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
