"""Characters that control a terminal, or that take no place on it: in texts from the server they can hide what is
there, or pretend what is not."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""Without line breaks and tabs, which lay out documents."""
_WITHOUT_WIDTH: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's Default_Ignorable_Code_Point, line separators and interlinear annotations."""

INVISIBLE: Final = re.compile(f"[{_CONTROLS}{_WITHOUT_WIDTH}]")


def visible(text: str) -> str:
    """`text` with a blank for each invisible character; line breaks and tabs stay."""
    return INVISIBLE.sub(" ", text)
