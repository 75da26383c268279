"""How it stands between a reflector and its server, as it is told to people and counted."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controller.api.base import Value
from controller.kube.errors import ApiError
from controller.kube.meaning import ForRead, meaning_of

RestartReason: TypeAlias = Literal["closed", "gone", "error", "timeout"]
"""Why an open stream ended: by the server in order, as too old, by an error, or because nothing came for long."""


class Contact(Value):
    """How it stands between one reflector and the server."""

    state: Literal["reachable", "unreachable", "missing", "forbidden"]
    """missing: the server does not know this kind, its CRD is not installed."""
    reason: str = ""


def restart_reason(error: ApiError) -> RestartReason:
    """Of an open stream that ended so."""
    if meaning_of(error).read is ForRead.ANEW:
        return "gone"
    return "timeout" if isinstance(error.__cause__, TimeoutError) else "error"


def contact_after(error: ApiError) -> Contact:
    """Of a request that failed so."""
    match meaning_of(error).read:
        case ForRead.MISSING:
            return Contact(state="missing", reason=str(error))
        case ForRead.NO_ENTRY:
            return Contact(state="forbidden", reason=str(error))
        case _:
            return Contact(state="unreachable", reason=str(error))
