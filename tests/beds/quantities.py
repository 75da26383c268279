"""Quantities of the Kubernetes API: `100m`, `1.5`, `64Gi`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS = {**BINARY, **DECIMAL}
LONGEST = 30
"""Characters of what is taken for a number."""


def quantity(text: str | int) -> Decimal:
    """`100m`, `1.5`, `64Gi`, `500M` as a number."""
    text = str(text)
    if text.endswith("m"):
        return Decimal(text[:-1]) / 1000
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    return Decimal(text.removesuffix(unit)) * (UNITS[unit] if unit else 1)


def canonical(given: str | float) -> str:
    """As an API server stores it: `1000m` is `1`, `0.5` is `500m`, `1024Mi` is `1Gi`. Others stay as they are."""
    text = str(given)
    try:
        number = quantity(text) if len(text) <= LONGEST else Decimal("NaN")
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    if number != number.to_integral_value():
        return f"{int(number * 1000)}m"
    units = BINARY if text.endswith("i") else DECIMAL
    fitting = [unit for unit, size in units.items() if number and number % size == 0]
    return f"{int(number) // units[fitting[-1]]}{fitting[-1]}" if fitting else str(int(number))
