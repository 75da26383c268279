"""How long a new pod takes to get ready, estimated from the newest ready pods."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

from controller.api.objects import Value
from kubectl_plugin.report.snapshot import PodDetail

_LAST: Final = 5
"""Older pods may have had other images."""


class Pace(Value):
    seconds: float
    """The median time from a pod's creation, or its update in place, until it is ready."""
    nodes: int
    """How many pods the median is taken from."""


def pace_of(pods: Iterable[PodDetail], revision_hash: str) -> Pace | None:
    """The pace of the newest ready pods of that revision, or of any where it has none; None if no pod can be used.

    A pod whose containers were restarted is left out, because it only records when it last became ready. One that was
    updated in place records how long that took.
    """
    told = [one for one in pods if one.pod.ready and one.pod.ready_since is not None]
    told = [one for one in told if one.updated is not None or not one.restarts]
    chosen = [one for one in told if one.pod.hash == revision_hash] or told
    newest = sorted(chosen, key=_counted_from, reverse=True)[:_LAST]
    lengths = [max((one.pod.ready_since or 0.0) - _counted_from(one), 0.0) for one in newest]
    return Pace(seconds=median(lengths), nodes=len(lengths)) if lengths else None


def _counted_from(one: PodDetail) -> float:
    return one.pod.created if one.updated is None else one.updated
