"""Many DaemonSets, one line for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from controller.api.daemonset import Phase
from controller.api.formats import IntOrPercent, counted
from controller.api.objects import Value
from kubectl_plugin.errors import UsageError
from kubectl_plugin.rollout.images import images_of, short_image
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.status import RolloutStatus

TROUBLED = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED)
"""Phases in which the pods may say more than the status does."""


class OverviewLine(Value):
    """An entry of what `list -o json` prints."""

    namespace: str
    name: str
    phase: Phase
    done: int
    target: int
    desired: int
    partition: IntOrPercent
    revision: int | None
    images: tuple[str, ...]
    """The images of the containers, in their short form."""
    since: str | None
    """When the phase began, RFC 3339."""
    why: str
    """Why the rollout waits; empty if it waits for nothing."""


def line_of(snapshot: Snapshot) -> OverviewLine:
    daemonset, status = snapshot.daemonset, RolloutStatus(snapshot=snapshot)
    rolling = daemonset.rolling_update
    return OverviewLine(
        namespace=daemonset.namespace,
        name=daemonset.name,
        phase=status.phase,
        done=status.done,
        target=status.counts.target,
        desired=status.counts.desired,
        partition=rolling.partition or 0 if rolling else 0,
        revision=status.revision,
        images=tuple(short_image(image) for image in images_of(daemonset.spec.template).values()),
        since=status.record.last_transition_time or None,
        why=status.why,
    )


def tally(lines: Sequence[OverviewLine]) -> str:
    """Such as `3 objects: 1 progressing, 1 held, 1 healthy`, the worst phase first."""
    phases = Counter(line.phase for line in lines)
    order = (Phase.STALLED, Phase.DEGRADED, Phase.PROGRESSING, Phase.PENDING, Phase.TERMINATING, Phase.PAUSED)
    ordered = (*order, Phase.MANUAL, Phase.HELD, Phase.HEALTHY)
    parts = [f"{phases[phase]} {phase.lower()}" for phase in ordered if phases[phase]]
    return f"{counted(len(lines), 'object')}: {', '.join(parts)}"


def phases_named(texts: Iterable[str]) -> frozenset[Phase]:
    """The phases with these names, in any case; without names all of them. Raises UsageError for another word."""
    known = {phase.lower(): phase for phase in Phase}
    wanted = [word for text in texts for word in text.lower().split(",") if word]
    for word in wanted:
        if word not in known:
            raise UsageError(f'invalid --phase "{word}": use {", ".join(Phase)}')
    return frozenset(known[word] for word in wanted) or frozenset(Phase)
