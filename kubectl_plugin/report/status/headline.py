"""The words behind the phase in the first line of `status`."""

from __future__ import annotations

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.api.names import INVALID_SPEC
from controller.api.objects import epoch
from kubectl_plugin.durations import short_duration
from kubectl_plugin.report.status.document import RolloutStatus
from kubectl_plugin.report.survey import Survey


def headline_of(survey: Survey, status: RolloutStatus) -> str:
    """`step 2 of 4   started 6m12s ago`."""
    now, nodes, steps = survey.snapshot.now, status.nodes, status.steps
    on_it = f"{counted(nodes.updated, 'node', of=nodes.desired)} on revision {status.revision.shown}"
    step = f"step {steps.index} of {steps.count}" if steps and steps.index else ""
    match survey.phase:
        case Phase.PROGRESSING:
            return _spaced(step, f"started {ago_in_words(status.started_at, now)}" if status.started_at else "")
        case Phase.STALLED if survey.standing.refused:
            what = "unusable spec" if status.reason == INVALID_SPEC else "template refused"
            return what + ("" if survey.standing.updated else ", no pod was touched")
        case Phase.STALLED:
            return _spaced(step, f"no progress for {time_since(status.last_progress_at, now)}")
        case Phase.HELD:
            done = f"{step} done, " if step else ""
            time = f" for {time_since(status.completed_at, now)}" if status.completed_at else ""
            return f"{done}{on_it}{time}"
        case Phase.HEALTHY:
            return f"{on_it}{_done_words(status, now)}"
        case Phase.DEGRADED:
            return f"{on_it}, {nodes.desired - nodes.available} not available"
        case Phase.TERMINATING:
            return f"{counted(len(survey.snapshot.pods), 'pod')} left"
        case Phase.PENDING:
            return ""
        case Phase.PAUSED | Phase.MANUAL:
            return on_it


def time_since(stamp: str | None, now: float) -> str:
    """`18m`; `long` where the time was not recorded. `stamp`: RFC 3339; `now`: seconds since 1970."""
    moment = epoch(stamp)
    return short_duration(now - moment) if moment is not None else "long"


def ago_in_words(stamp: str | None, now: float) -> str:
    """`3h ago`; empty if the time was not recorded."""
    moment = epoch(stamp)
    return f"{short_duration(now - moment)} ago" if moment is not None else ""


def _done_words(status: RolloutStatus, now: float) -> str:
    begun, ended = epoch(status.started_at), epoch(status.completed_at)
    if begun is None or ended is None:
        return ""
    return f", done {short_duration(now - ended)} ago in {short_duration(ended - begun)}"


def _spaced(*parts: str) -> str:
    return "   ".join(part for part in parts if part)
