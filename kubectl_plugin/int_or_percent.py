"""A count of nodes or a percentage, as people type it for a field that takes either."""

from __future__ import annotations

import re

from controller.api import formats
from controller.api.formats import IntOrPercent
from kubectl_plugin.failures import UsageError

_LARGEST = 2**31 - 1
"""The API server stores 32-bit integers."""
_COUNT = re.compile(r"[0-9]{1,10}", re.ASCII)


def int_or_percent(text: str, what: str) -> IntOrPercent:
    """`16` as a number, `30%` as text; blanks around either are ignored.

    `what`: the name of the field for the message, such as `partition`. Raises UsageError for anything else: a
    negative number, a fraction, a share above 100%.
    """
    wanted = text.strip()
    if _COUNT.fullmatch(wanted) and int(wanted) <= _LARGEST:
        return int(wanted)
    if wanted.endswith("%") and formats.is_well_formed(wanted) and int(wanted[:-1]) <= 100:
        return f"{int(wanted[:-1])}%"
    raise UsageError(f'invalid {what} "{text}": use a number (0 or more) or a percentage from 0% to 100%')
