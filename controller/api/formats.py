"""Numbers or percentages, resource quantities, and messages (bounded, as an object may hold 1.5 MiB of text)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_UP, Context, Decimal
from itertools import islice
from typing import TypeAlias

IntOrPercent: TypeAlias = int | str
"""A number of nodes or pods, or a percentage of the desired number (`"30%"`). Other strings are malformed."""

_PERCENT = re.compile(r"([0-9]{1,9})%")
_LONGEST_QUANTITY = 64
"""Characters. Real quantities are shorter, and arithmetic with a million digits takes minutes."""
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(m|u|n|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][+-]?\d{1,3})?")
"""The exponent has at most three digits, as larger numbers would exhaust the memory when written out."""
_EXACT = Context(prec=2 * _LONGEST_QUANTITY)
"""Enough digits never to round two quantities to the same one."""
_MILLI = Decimal("1e-3")
_SUFFIX = {
    **{s: Decimal(10) ** (3 * power) for power, s in zip((-3, -2, -1, 1, 2, 3, 4, 5, 6), "numkMGTPE", strict=True)},
    **{f"{s}i": Decimal(1024) ** power for power, s in enumerate("KMGTPE", start=1)},
}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|h|m|s))+")
_PART = re.compile(r"([0-9.]+)(ms|h|m|s)")
_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def is_well_formed(value: IntOrPercent) -> bool:
    if isinstance(value, str):
        return _PERCENT.fullmatch(value) is not None
    return value >= 0


def decimal_integer(text: str) -> int | None:
    """An int64 without leading zeros or plus sign, as tolerations with Gt and Lt require; None for any other text."""
    number = int(text) if _DECIMAL_INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def scaled(value: IntOrPercent | None, total: int, *, round_up: bool) -> int:
    """`value` as a number of `total` nodes; None counts as 0. Raises ValueError for any string but a percentage."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    match = _PERCENT.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is neither a whole number nor a percentage such as 30%")
    share = int(match[1]) * total
    return -(-share // 100) if round_up else share // 100


def seconds(duration: str) -> float:
    """The seconds of a duration as Go writes it: `90s`, `1h30m`. Raises ValueError for any other text."""
    if not _DURATION.fullmatch(duration) or len(duration) > _LONGEST_QUANTITY:
        raise ValueError(f"{duration!r} is not a duration such as 90s, 10m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(duration))


def canonical_quantity(value: str | int | float, *, in_millis: bool = False) -> str:
    """The canonical form of a quantity: `1` for `1000m` and `1.0`. Any other text is returned unchanged. `in_millis`
    rounds up to thousandths, as the API server does for resource amounts."""
    amount = _amount(value)
    if amount is None:
        return str(value)
    exponent = amount.as_tuple().exponent
    if in_millis and isinstance(exponent, int) and exponent < -3:
        amount = amount.quantize(_MILLI, rounding=ROUND_UP, context=_EXACT)
    return format(_EXACT.normalize(amount), "f")


def at_least(value: str | int | float, least: str) -> str:
    """The larger of two quantities, in canonical form."""
    amount, other = _amount(value), _amount(least)
    raised = amount is not None and other is not None and amount < other
    return canonical_quantity(least if raised else value)


def _amount(value: str | int | float) -> Decimal | None:
    text = str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_QUANTITY else None
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return _EXACT.scaleb(number, int(suffix[1:]))
    return _EXACT.multiply(number, _SUFFIX.get(suffix, Decimal(1)))


LONGEST_TEXT = 1024
"""Characters of a condition or event message (an API server limit) or of a column."""
LONGEST_ITEM = 200
"""Characters of a list item or quoted value."""
MOST_ITEMS = 5
_VERBS = {"has": "have", "is": "are"}
_SEPARATOR = "; "


def counted(count: int, what: str, does: str = "", *, of: int | None = None) -> str:
    """`1 node`, `2 nodes`, `1 of 2 nodes`, and with a verb: `1 node has`, `2 nodes have`."""
    number, whole = (f"{count}", count) if of is None else (f"{count} of {of}", of)
    before, _, verb = does.rpartition(" ")
    many = _VERBS.get(verb, verb.removesuffix("s"))
    return " ".join(filter(None, (number, what if whole == 1 else f"{what}s", before, verb if count == 1 else many)))


def truncated(text: str, most: int = LONGEST_TEXT) -> str:
    """`text` cut to `most` characters, ending in its full length if anything was cut."""
    if len(text) <= most:
        return text
    tail = f"… ({len(text):,} characters)"
    return text[: max(most - len(tail), 0)] + tail


def listed(items: Iterable[str], *, separator: str = "; ") -> str:
    """The first `MOST_ITEMS` items, each truncated, and the number of the others."""
    rest = iter(items)
    shown = [truncated(item, LONGEST_ITEM) for item in islice(rest, MOST_ITEMS)]
    left = sum(1 for _ in rest)
    return separator.join([*shown, f"and {left:,} more"] if left else shown)


def joined(*parts: str) -> str:
    """The non-empty parts, each once, also where several are in one; see `parts_of`."""
    return _SEPARATOR.join(dict.fromkeys(part for text in filter(None, parts) for part in parts_of(text)))


def parts_of(message: str) -> list[str]:
    return message.split(_SEPARATOR)
