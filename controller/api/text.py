"""Bounds texts for people, wherever they come from: an object may contain 1.5 MiB of text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LONGEST_TEXT = 1024
"""Characters of a message in a condition or event, where the API server accepts no more, and of a column."""
LONGEST_ITEM = 200
"""Characters of one item in a list, or of one quoted value."""
MOST_ITEMS = 5
"""Items of a list that are shown."""
_SEPARATOR = "; "
"""Stands between the parts of a message."""


def shortened(text: str, most: int = LONGEST_TEXT) -> str:
    """`text` in at most `most` characters; if it is cut off, the end says how many it had."""
    if len(text) <= most:
        return text
    tail = f"… ({len(text):,} characters)"
    return text[: max(most - len(tail), 0)] + tail


def listed(items: Iterable[str], *, separator: str = "; ") -> str:
    """The first `MOST_ITEMS` of `items`, each shortened, and how many more there are."""
    rest = iter(items)
    shown = [shortened(item, LONGEST_ITEM) for item in islice(rest, MOST_ITEMS)]
    left = sum(1 for _ in rest)
    return separator.join([*shown, f"and {left:,} more"] if left else shown)


def joined(*parts: str) -> str:
    """One message of the parts that are not empty, each once; `parts_of` takes it apart again."""
    return _SEPARATOR.join(dict.fromkeys(filter(None, parts)))


def parts_of(message: str) -> list[str]:
    """The parts of a message that `joined` made."""
    return message.split(_SEPARATOR)
