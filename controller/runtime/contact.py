"""The Contact of a reflector with its server, as it is reported: whether it can be reached, and why a stream
ended."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controller.api.base import Value
from controller.kube.errors import ApiError
from controller.kube.meaning import ForRead, meaning_of
from controller.runtime.watch import Closed, End, Failed, RelistAsked, Stalled, Unmarked, WentBack

RestartReason: TypeAlias = Literal["closed", "gone", "error", "timeout"]
"""Why an open stream ended: by the server in order, as too old, by an error, or because nothing came for long."""
ContactState: TypeAlias = Literal["reachable", "unreachable", "missing", "forbidden"]
"""missing: the server does not know this kind, because its CRD is not installed."""


class Contact(Value):
    """Whether one reflector can reach what it watches."""

    state: ContactState
    error: ApiError | None = None
    """None while reachable."""


def restart_reason(end: End) -> RestartReason | None:
    """Why an open stream ended, for the metric; None if its end says nothing about the connection."""
    match end:
        case Closed():
            return "closed"
        case WentBack():
            return "gone"
        case Failed(means=ForRead.ANEW):
            return "gone"
        case Failed(error=error) if not isinstance(error.__cause__, TimeoutError):
            return "error"
        case Failed() | Stalled():
            return "timeout"
        case Unmarked() | RelistAsked():
            return None


def contact_after(error: ApiError) -> Contact:
    """The contact that a failed request shows."""
    match meaning_of(error).read:
        case ForRead.MISSING:
            return Contact(state="missing", error=error)
        case ForRead.FORBIDDEN | ForRead.NO_ENTRY:
            return Contact(state="forbidden", error=error)
        case ForRead.ANEW | ForRead.REFUSED | ForRead.FAILING | ForRead.AWAY | ForRead.BACK_OFF:
            return Contact(state="unreachable", error=error)
