"""When waiting for a rollout is over, and with which exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.api.base import Value
from controller.api.daemonset import DaemonSet, Phase
from controller.planner.progress import due_at
from controller.planner.states import NodeState
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.status.reasons import failing, refusal, rows_in, writes_fail
from kubectl_plugin.report.survey import Survey

GRACE: Final = 60.0
"""Seconds by which a deadline may have passed before the controller has noticed."""


class Wanted(Value):
    """What is waited for."""

    revision: int | None = None
    generation: int | None = None
    """Of the spec: no earlier and no later one."""
    require_full: bool = False
    fail_fast: bool = False


class Ending(Value):
    """`error`: what to say on the way out; None where it went well. `warning`: what to doubt though it did."""

    code: int
    error: CommandError | None = None
    warning: str = ""


def ending_of(survey: Survey, wanted: Wanted) -> Ending | None:
    """None while it may still come about by itself."""
    name = survey.daemonset.name
    known = survey.phase not in (Phase.PENDING, Phase.TERMINATING)
    if known and wanted.revision is not None and survey.current != wanted.revision:
        words = f"revision {wanted.revision} of {name} is not the one that is rolled out: it is {survey.current} now"
        return _failed(ExitCode.REFUSED, words)
    match survey.phase:
        case Phase.HEALTHY | Phase.HELD | Phase.PAUSED | Phase.MANUAL if not survey.agreed:
            return None
        case Phase.HEALTHY:
            return well(name, survey.counts.desired)
        case Phase.HELD if not wanted.require_full:
            return Ending(code=ExitCode.DONE)
        case Phase.HELD:
            return _ended(survey, ExitCode.WAITING, f"is held at {_on_it(survey)}", go_on(survey.daemonset))
        case Phase.PAUSED:
            return _ended(survey, ExitCode.WAITING, f"is paused at {_on_it(survey)}", "resume")
        case Phase.MANUAL:
            words = f"waits for pods to be deleted, updateStrategy is OnDelete: {_on_it(survey)}"
            return _ended(survey, ExitCode.WAITING, words, "nodes", "--only", "next")
        case Phase.STALLED if survey.standing.refused:
            words = f"is refused: {refusal(survey.standing.refused)}"
            return _ended(survey, ExitCode.STUCK, words, _way_back(survey))
        case Phase.STALLED if is_certain(survey):
            return _ended(
                survey, ExitCode.STUCK, f"stalled at {_of_target(survey)}{_writes(survey)}", _way_back(survey)
            )
        case Phase.TERMINATING:
            return gone(name)
    return _failing_fast(survey) if wanted.fail_fast else None


def well(name: str, desired: int) -> Ending:
    """All of it is done, which may be nothing at all."""
    nowhere = "" if desired else f"no node is eligible for daemonset.apps.kruise.io/{name}: it runs nowhere"
    return Ending(code=ExitCode.DONE, warning=nowhere)


def is_another(daemonset: DaemonSet, wanted: Wanted) -> bool:
    """Whether this is not the spec that is waited for."""
    return wanted.generation not in (None, daemonset.generation)


def overtaken_by(daemonset: DaemonSet, wanted: Wanted) -> Ending | None:
    """Somebody has changed the spec since; None where the one that is waited for is still to come."""
    if daemonset.generation < (wanted.generation or 0):
        return None
    words = f"{daemonset.name} was changed by somebody else meanwhile (now generation {daemonset.generation})"
    return _failed(ExitCode.REFUSED, words)


def gone(name: str) -> Ending:
    return _failed(ExitCode.FAILED, f"daemonset.apps.kruise.io/{name} was deleted")


def unattended(name: str, absence: str) -> Ending:
    """Nobody is there to do it. `absence` says why."""
    words = f"nothing happens to daemonset.apps.kruise.io/{name}: {absence}"
    return _failed(ExitCode.STUCK, words, "kubectl kruise-ds doctor")


def unfinished(survey: Survey, after: str = "") -> Ending:
    """It still moves. `after`: how long it was waited for, as it was asked."""
    timed = f"timed out after {after}: " if after else ""
    words = f"{timed}daemonset.apps.kruise.io/{survey.daemonset.name} is at {_of_target(survey)} ({survey.phase})"
    return _failed(ExitCode.TIMED_OUT, f"{words}{_writes(survey)}")


def named_apart(endings: Sequence[Ending], namespaces: Sequence[str]) -> list[Ending]:
    """With the namespace of each in front where there are several of them: names alone may be equal."""
    if len(set(namespaces)) < 2:
        return list(endings)
    return [_in_namespace(ending, namespace) for ending, namespace in zip(endings, namespaces, strict=True)]


def go_on(daemonset: DaemonSet) -> str:
    """The verb that lets a rollout go on which is held."""
    rolling = daemonset.rolling_update
    return "resume" if rolling is not None and rolling.paused else "promote"


def is_certain(survey: Survey) -> bool:
    """Whether the controller says so too, or would have by now: this machine's clock may be ahead of its own."""
    rollout = survey.recorded
    overdue = survey.snapshot.now - due_at(rollout, survey.daemonset.progress_deadline)
    return rollout.phase == Phase.STALLED or overdue >= GRACE


def _in_namespace(ending: Ending, namespace: str) -> Ending:
    error = ending.error
    if error is None:
        return ending
    return _failed(ending.code, f"namespace {namespace}: {error.message}", *error.hints)


def _failing_fast(survey: Survey) -> Ending | None:
    rows = rows_in(survey, NodeState.FAILING)
    if rows:
        return _ended(survey, ExitCode.STUCK, f"fails at {_of_target(survey)}: {failing(rows)}", _way_back(survey))
    if survey.phase is Phase.DEGRADED:
        return _ended(survey, ExitCode.STUCK, f"is over, but {_unserved(survey)} nodes have no available pod")
    return None


def _writes(survey: Survey) -> str:
    words = writes_fail(survey.daemonset)
    return f": {words}" if words else ""


def _unserved(survey: Survey) -> int:
    return survey.counts.desired - survey.counts.available


def _way_back(survey: Survey) -> str:
    return "rollback" if survey.previous is not None else ""


def _on_it(survey: Survey) -> str:
    return f"{survey.counts.updated} of {survey.counts.desired} nodes"


def _of_target(survey: Survey) -> str:
    return f"{survey.rollout.done} of {survey.rollout.target} nodes"


def _ended(survey: Survey, code: int, words: str, verb: str = "", *more: str) -> Ending:
    name, namespace = survey.daemonset.name, survey.daemonset.namespace
    hints = (" ".join(("kubectl kruise-ds", verb, name, *more, "-n", namespace)),) if verb else ()
    return _failed(code, f"rollout of daemonset.apps.kruise.io/{name} {words}", *hints)


def _failed(code: int, words: str, *hints: str) -> Ending:
    return Ending(code=code, error=CommandError(words, hints=hints, exit_code=code))
