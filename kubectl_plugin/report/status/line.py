"""A rollout in one line, for logs."""

from __future__ import annotations

from controller.api.daemonset import Phase
from controller.planner.states import NodeState
from kubectl_plugin.report.last_action import paused_words
from kubectl_plugin.report.status.reasons import failing, reason_of, rows_in, writes_fail
from kubectl_plugin.report.survey import Survey


def progress(survey: Survey) -> str:
    """`Progressing 4/8 updated`."""
    return f"{survey.phase} {survey.rollout.done}/{survey.rollout.target} updated"


def milestone(survey: Survey) -> str:
    """Changes when a line is worth printing: not with every pod that comes or goes on the way."""
    if survey.phase is not Phase.PROGRESSING:
        return status_line(survey)
    failed = failing(rows_in(survey, NodeState.FAILING))
    return f"{progress(survey)} {failed} {bool(writes_fail(survey.daemonset))}"


def status_line(survey: Survey) -> str:
    """`Progressing 4/8 updated, 1 updating, 1 failing (c-04 CrashLoopBackOff)`: no ages, so that it changes only when
    something happens.
    """
    if survey.phase is Phase.PROGRESSING:
        return _moving(survey)
    paused = paused_words(survey.daemonset) if survey.phase is not Phase.PAUSED else ""
    text = "; ".join(filter(None, (reason_of(survey).text, paused)))
    return f"{progress(survey)}: {text}" if text else progress(survey)


def _moving(survey: Survey) -> str:
    counts = survey.counts
    parts = [progress(survey), f"{counts.updating} updating"]
    parts += [f"{counts.missing} missing"] if counts.missing else []
    rows = rows_in(survey, NodeState.FAILING)
    parts += [f"{len(rows)} failing ({failing(rows)})"] if rows else []
    words = writes_fail(survey.daemonset) or paused_words(survey.daemonset)
    return ", ".join(parts) + (f": {words}" if words else "")
