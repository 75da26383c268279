"""Counts of nodes, or shares of them: as people type them where a field takes one, and as sentences have them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from controller.api import number
from controller.api.number import IntOrPercent
from kubectl_plugin.failures import UsageError

_LARGEST = 2**31 - 1
"""The API server's fields hold 32 bits."""
_COUNT = re.compile(r"[0-9]{1,10}", re.ASCII)


def int_or_percent(text: str, what: str) -> IntOrPercent:
    """`16` as a number, `30%` as it is; blanks around it are forgiven.

    `what` is the field in the user's words, such as `partition`. Raises CommandError with exit code 2 for anything
    else: a negative number, a fraction, a share above 100%.
    """
    wanted = text.strip()
    if _COUNT.fullmatch(wanted) and int(wanted) <= _LARGEST:
        return int(wanted)
    if wanted.endswith("%") and number.is_well_formed(wanted) and int(wanted[:-1]) <= 100:
        return f"{int(wanted[:-1])}%"
    raise UsageError(f'invalid {what} "{text}": use a number (0 or more) or a percentage from 0% to 100%')


def new_nodes(partition: IntOrPercent, desired: int) -> str:
    """`8 of 24 new`: beside a partition, which counts old pods, though people mean the others."""
    new = max(desired - number.scaled(partition, desired, round_up=False), 0)
    return f"{new} of {desired} new"


def between(names: Sequence[str], dots: str = "…") -> str:
    """Up to three names, of more the first and the last."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} {dots} {names[-1]}"


def counted(count: int, what: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
