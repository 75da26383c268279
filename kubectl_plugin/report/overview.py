"""One line for each of many DaemonSets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from controller.api.base import JSON, Value
from controller.api.daemonset import DaemonSet, Phase
from controller.api.meta import epoch
from controller.api.number import IntOrPercent
from controller.api.wellknown import DEGRADED, PROGRESSING
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.last_action import last_action
from kubectl_plugin.report.revisions.images import images_of, short
from kubectl_plugin.report.snapshot import PodDetail, Snapshot
from kubectl_plugin.report.stated import stated
from kubectl_plugin.report.steps import steps_of
from kubectl_plugin.report.trouble import trouble_of

TROUBLED = (Phase.PROGRESSING, Phase.STALLED, Phase.DEGRADED)
"""Phases in which pods may tell more than the status does."""


class Line(Value):
    namespace: str
    name: str
    phase: Phase
    done: int
    target: int
    desired: int
    partition: IntOrPercent
    revision: int | None
    since: float | None
    """Seconds since 1970: when the phase began."""
    images: tuple[str, ...]
    """Of the containers, in short."""
    why: str
    """Empty where there is nothing to wait for."""


def line_of(snapshot: Snapshot) -> Line:
    daemonset = snapshot.daemonset
    rollout, status = stated(daemonset), daemonset.status
    phase = Phase(rollout.phase)
    rolling = daemonset.rolling_update
    identity = daemonset.identity
    current = (one.revision.number for one in snapshot.revisions if one.revision.identity == identity)
    return Line(
        namespace=daemonset.namespace,
        name=daemonset.name,
        phase=phase,
        done=rollout.done,
        target=rollout.target,
        desired=status.desired_number_scheduled if status else 0,
        partition=rolling.partition or 0 if rolling else 0,
        revision=next(current, None),
        since=epoch(rollout.last_transition_time),
        images=tuple(short(image) for image in images_of(daemonset.spec.template).values()),
        why=_why(snapshot, phase),
    )


def tally(lines: Sequence[Line]) -> str:
    """`3 objects: 1 progressing, 1 held, 1 healthy`, worst first."""
    counted = Counter(line.phase for line in lines)
    order = (Phase.STALLED, Phase.DEGRADED, Phase.PROGRESSING, Phase.PENDING, Phase.TERMINATING, Phase.PAUSED)
    ordered = (*order, Phase.MANUAL, Phase.HELD, Phase.HEALTHY)
    parts = [f"{counted[phase]} {phase.lower()}" for phase in ordered if counted[phase]]
    noun = "object" if len(lines) == 1 else "objects"
    return f"{len(lines)} {noun}: {', '.join(parts)}"


def phases_named(texts: Iterable[str]) -> frozenset[Phase]:
    """Phases by their names in any case; all of them for none. Raises CommandError (2) for another word."""
    known = {phase.lower(): phase for phase in Phase}
    wanted = [word for text in texts for word in text.lower().split(",") if word]
    for word in wanted:
        if word not in known:
            raise CommandError(f'invalid --phase "{word}": use {", ".join(Phase)}', exit_code=ExitCode.USAGE)
    return frozenset(known[word] for word in wanted) or frozenset(Phase)


def first_trouble(pods: Iterable[PodDetail]) -> str:
    """`c-04 CrashLoopBackOff`, and how many more; empty where no pod is in trouble."""
    found = sorted((one.pod.node or one.pod.name, trouble.reason) for one in pods if (trouble := trouble_of(one)))
    if not found:
        return ""
    node, reason = found[-1]
    return f"{node} {reason}" + (f" and {len(found) - 1} more" if len(found) > 1 else "")


def _why(snapshot: Snapshot, phase: Phase) -> str:
    daemonset = snapshot.daemonset
    match phase:
        case Phase.HEALTHY | Phase.TERMINATING:
            return ""
        case Phase.PENDING:
            return "not seen by a controller yet"
        case Phase.MANUAL:
            return "OnDelete: pods change when they are deleted"
        case Phase.PAUSED:
            return _who_paused(daemonset)
        case Phase.HELD:
            return _what_holds(daemonset)
    return (
        _words_of(daemonset, DEGRADED) or first_trouble(snapshot.pods) or _words_of(daemonset, PROGRESSING, part=-1)
    )


def _who_paused(daemonset: DaemonSet) -> str:
    action = last_action(daemonset.annotations)
    if action is None or action.verb != "pause":
        return ""
    reason = f': "{action.reason}"' if action.reason else ""
    return f"by {action.by or 'somebody'}{reason}"


def _what_holds(daemonset: DaemonSet) -> str:
    status, rolling = daemonset.status, daemonset.rolling_update
    desired = status.desired_number_scheduled if status else 0
    partition = rolling.partition if rolling else None
    try:
        steps = steps_of(daemonset.annotations, partition, desired)
    except CommandError as error:
        return error.message
    if steps is not None and steps.next is not None:
        return "waiting for promote"
    return f"partition {partition}" if partition else "rollingUpdate.selector"


def _words_of(daemonset: DaemonSet, condition: str, part: int = 0) -> str:
    """The message of a condition that tells of a problem; of Progressing the part that says what it waits for."""
    for one in (daemonset.status.conditions if daemonset.status else None) or ():
        if one.get("type") == condition and (condition == PROGRESSING or one.get("status") == "True"):
            return _text(one.get("message")).split("; ")[part]
    return ""


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""
