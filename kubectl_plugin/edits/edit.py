"""The shape of every change: operations on one live object, and what they mean."""

from __future__ import annotations

from controller.api import patch
from controller.api.base import JSONObject, Value


class Caution(Value):
    """Something a person should know before or after the change; the change is made all the same."""

    text: str
    hints: tuple[str, ...] = ()


class Edit(Value):
    """A change of one DaemonSet: carried out as one JSON Patch that is guarded by the version it was made for."""

    result: str
    """What kubectl would say: `paused`, `partition 16 -> 8`."""
    operations: tuple[JSONObject, ...]
    """Empty: it is so already; nothing is written, and that is no failure."""
    details: tuple[str, ...] = ()
    """Lines under the result."""
    warnings: tuple[Caution, ...] = ()

    def guarded(self, version: str) -> patch.JsonPatch:
        return patch.guarded_by_version(version, *self.operations)
