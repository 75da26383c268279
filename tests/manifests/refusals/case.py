"""One object that the API server must refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """`changes` break exactly one rule. `field` is where the server must point, `says` a part of its message."""

    why: str
    changes: Mapping[str, object]
    field: str
    says: str
