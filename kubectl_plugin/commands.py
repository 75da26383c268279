"""Commands that a person is told to type: each goes to the cluster that was asked, whatever the context is then."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

_COMMAND: Final = re.compile(r"\bkubectl(?: kruise-ds)?(?= [a-z])")


def for_cluster(text: str, flags: Sequence[str]) -> str:
    """`text` with `flags` in each command of kubectl that is in it."""
    words = shlex.join(flags)
    return _COMMAND.sub(lambda found: f"{found[0]} {words}", text) if words else text
