"""Words for people have a stated bound, wherever they come from: an object may be 1.5 MiB of nothing but words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LONGEST_TEXT = 1024
"""Characters of a message in a condition or an event (the API server takes no longer one there), and of a column."""
LONGEST_ITEM = 200
"""Characters of one of several problems, or of one value that is quoted."""
MOST_ITEMS = 5


def shortened(text: str, most: int = LONGEST_TEXT) -> str:
    """`text` in at most `most` characters; where that cuts it off, the end tells how many it had."""
    if len(text) <= most:
        return text
    tail = f"… ({len(text):,} characters)"
    return text[: max(most - len(tail), 0)] + tail


def listed(items: Iterable[str], *, separator: str = "; ") -> str:
    """The first few of `items`, each shortened, and how many more there are."""
    rest = iter(items)
    shown = [shortened(item, LONGEST_ITEM) for item in islice(rest, MOST_ITEMS)]
    left = sum(1 for _ in rest)
    return separator.join([*shown, f"and {left:,} more"] if left else shown)
