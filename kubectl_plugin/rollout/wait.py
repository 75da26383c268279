"""When a wait for a rollout ends, and with which exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.api.objects import Value
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.snapshot import images_of, short_image
from kubectl_plugin.rollout.status import RolloutStatus, is_degraded_for_long
from kubectl_plugin.rollout.survey import NodeSurvey
from kubectl_plugin.rollout.target import way_back
from kubectl_plugin.wording import command, printed_name, short_duration

_AT_REST: Final = (Phase.HEALTHY, Phase.HELD, Phase.AWAITING_APPROVAL, Phase.PAUSED, Phase.MANUAL)
"""Phases that last until the spec or its annotations are changed."""


_UNTIL_A_USER_ACTS: Final = {
    Phase.AWAITING_APPROVAL: ("waits for approval", "promote"),
    Phase.PAUSED: ("is paused", "resume"),
}


class Awaited(Value):
    """What to wait for; None for flags that were not given."""

    revision: int | None = None
    generation: int | None = None
    """The awaited generation; a later one means that the spec was changed by another user."""
    image: str | None = None
    """The image a container must have, in full or short form."""
    require_full: bool = False
    fail_fast: bool = False


class WaitResult(Value):
    """The end of a wait. `error` is None on success; `warning` is printed even then."""

    code: ExitCode
    error: CommandError | None = None
    warning: str = ""


def result_of(status: RolloutStatus, wanted: Awaited) -> WaitResult | None:
    """None while the rollout may still succeed by itself."""
    if wanted.generation not in (None, status.daemonset.generation):
        return changed_spec_result(status, wanted)
    if not has_image(status, wanted):
        return None
    return _other_revision_result(status, wanted) or _result_by_phase(status, wanted)


def has_image(status: RolloutStatus, wanted: Awaited) -> bool:
    """Whether a container has the awaited image, if any. A later spec may add or remove it."""
    images = images_of(status.daemonset.spec.template).values()
    return wanted.image is None or any(wanted.image in (image, short_image(image)) for image in images)


def deleted_result(name: str) -> WaitResult:
    return _failed_result(ExitCode.FAILED, f"{printed_name(name)} was deleted")


def no_controller_result(name: str, absence: str) -> WaitResult:
    words = f"nothing happens to {printed_name(name)}: {absence}"
    return _failed_result(ExitCode.STUCK, words, command("doctor"))


def unfinished_result(status: RolloutStatus, after: str = "") -> WaitResult:
    """For a rollout still in progress; `after` is the elapsed `--timeout` as typed, empty without one."""
    timed = f"timed out after {after}: " if after else ""
    words = f"{printed_name(status.daemonset.name)} is at {_done_words(status)} ({status.phase})"
    why = status.awaited_nodes or (status.why if status.phase is Phase.DEGRADED else "")
    waits = _refused_writes_words(status) or (f", {why}" if why else "")
    return _failed_result(ExitCode.TIMED_OUT, f"{timed}{words}{waits}")


def with_namespaces(results: Sequence[WaitResult], namespaces: Sequence[str]) -> list[WaitResult]:
    """`results`, prefixed with the namespace if there are several."""
    if len(set(namespaces)) < 2:
        return list(results)
    return [_with_namespace(result, namespace) for result, namespace in zip(results, namespaces, strict=True)]


def _with_namespace(result: WaitResult, namespace: str) -> WaitResult:
    error, where = result.error, f"namespace {namespace}: "
    if error is not None:
        error = CommandError(f"{where}{error.message}", *error.hints, exit_code=error.exit_code)
    return replace(result, error=error, warning=result.warning and f"{where}{result.warning}")


def _result_by_phase(status: RolloutStatus, wanted: Awaited) -> WaitResult | None:
    updated, done = counted(status.counts.updated, "node", of=status.counts.desired), _done_words(status)
    match status.phase:
        case _ if status.phase in _AT_REST and not status.survey.controller_agrees:
            return None
        case Phase.HEALTHY:
            nowhere = f"no node is eligible for {printed_name(status.daemonset.name)}: it runs no pods"
            return WaitResult(code=ExitCode.DONE, warning="" if status.counts.desired else nowhere)
        case Phase.HELD if not wanted.require_full:
            return WaitResult(code=ExitCode.DONE)
        case Phase.HELD:
            way = ("resume",) if status.daemonset.paused else ("promote", "--full")
            return _waiting(status, f"is held at {updated}", *way)
        case Phase.AWAITING_APPROVAL | Phase.PAUSED as phase:
            words, verb = _UNTIL_A_USER_ACTS[phase]
            return _waiting(status, f"{words} at {updated}", verb)
        case Phase.MANUAL:
            words = f"waits until pods are deleted (updateStrategy OnDelete): {updated}"
            return _waiting(status, words, "nodes" if isinstance(status.survey, NodeSurvey) else "", "--only", "next")
        case Phase.STALLED if status.refused:
            return _stuck(status, f"is refused: {status.refused}")
        case Phase.STALLED | Phase.ABORTED if status.survey.certain:
            return _ended_result(status)
        case Phase.TERMINATING:
            return deleted_result(status.daemonset.name)
        case _ if wanted.fail_fast and status.failing:
            return _stuck(status, f"fails at {done}: {status.failing}")
        case Phase.DEGRADED if wanted.fail_fast or is_degraded_for_long(status.snapshot):
            return _degraded_result(status)
    return None


def _ended_result(status: RolloutStatus) -> WaitResult:
    done, writes = _done_words(status), _refused_writes_words(status)
    if status.phase is Phase.STALLED:
        return _stuck(status, f"stalled at {done}{writes}")
    goes_back = status.survey.standing.rolled_back
    end = f"was aborted, {_way_back_words(status)}" if goes_back else f"was aborted at {done}"
    return _stuck(status, f"{end}{writes}", command("retry", status.daemonset.key, to="to try it again"))


def _way_back_words(status: RolloutStatus) -> str:
    aborted = status.survey.standing.aborted_revision
    left = len({detail.pod.node for detail in status.snapshot.pods if detail.pod.hash == aborted} - {""})
    if not left:
        return "no node has the aborted revision any more"
    return f"{counted(left, 'node', 'still has')} the aborted revision"


def changed_spec_result(status: RolloutStatus, wanted: Awaited) -> WaitResult | None:
    """None while the awaited generation may still come."""
    name, generation = status.daemonset.name, status.daemonset.generation
    if generation < (wanted.generation or 0):
        return None
    words = f"{name} was changed by another client meanwhile (now generation {generation})"
    return _failed_result(ExitCode.REFUSED, words)


def _other_revision_result(status: RolloutStatus, wanted: Awaited) -> WaitResult | None:
    """None if the revision may be the awaited one. If revision numbers are unreadable, the wait ends at once."""
    name = status.daemonset.name
    unknown = status.snapshot.revisions_readable and status.phase in (Phase.PENDING, Phase.TERMINATING)
    current = status.survey.current
    if wanted.revision in (None, current) or unknown:
        return None
    if current is None:
        words = f"which revision of {name} is rolled out is unknown without the right to list controllerrevisions"
        return _failed_result(ExitCode.FAILED, words)
    words = f"revision {wanted.revision} of {name} is not the one that is rolled out: it is {current} now"
    return _failed_result(ExitCode.REFUSED, words)


def _degraded_result(status: RolloutStatus) -> WaitResult:
    words = f"is over, but {counted(status.counts.desired - status.counts.available, 'node', 'has')} no available pod"
    if is_degraded_for_long(status.snapshot):
        words += f" for longer than {short_duration(status.daemonset.progress_deadline)}"
    return _rollout_result(status, ExitCode.STUCK, ": ".join(filter(None, (words, status.why))))


def _done_words(status: RolloutStatus) -> str:
    return counted(status.done, "node", of=status.counts.target)


def _refused_writes_words(status: RolloutStatus) -> str:
    return f": {status.writes}" if status.writes else ""


def _waiting(status: RolloutStatus, words: str, verb: str, *more: str) -> WaitResult:
    hints = (command(verb, status.daemonset.key, *more),) if verb else ()
    return _rollout_result(status, ExitCode.WAITING, words, *hints)


def _stuck(status: RolloutStatus, words: str, *hints: str) -> WaitResult:
    return _rollout_result(status, ExitCode.STUCK, words, *way_back(status.snapshot), *hints)


def _rollout_result(status: RolloutStatus, code: ExitCode, words: str, *hints: str) -> WaitResult:
    return _failed_result(code, f"rollout of {printed_name(status.daemonset.name)} {words}", *hints)


def _failed_result(code: ExitCode, words: str, *hints: str) -> WaitResult:
    return WaitResult(code=code, error=CommandError(words, *hints, exit_code=code))
