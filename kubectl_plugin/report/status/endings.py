"""When a wait for a rollout is over, and with which exit code."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from controller.api.daemonset import Phase
from controller.api.formats import counted
from controller.api.objects import Key, Value
from kubectl_plugin.commands import command
from kubectl_plugin.durations import short_duration
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.revisions.images import images_of, short_image
from kubectl_plugin.report.status.brief import Brief


class Awaited(Value):
    """The flags about what to wait for; None if a flag was not given."""

    revision: int | None = None
    generation: int | None = None
    """The generation of the spec that is waited for; a later one means that somebody has changed it."""
    image: str | None = None
    """The image that one of the containers is to have, whole or in its short form."""
    require_full: bool = False
    fail_fast: bool = False


class Ending(Value):
    """How a wait ends. `error`: None if it ended well. `warning`: printed even then; may be empty."""

    code: int
    error: CommandError | None = None
    warning: str = ""


def ending_of(brief: Brief, wanted: Awaited) -> Ending | None:
    """How the wait ends now; None while the rollout may still get there by itself."""
    if wanted.generation not in (None, brief.daemonset.generation):
        return changed_spec_ending(brief, wanted)
    if not has_image(brief, wanted):
        return None
    return _other_revision_ending(brief, wanted) or _ending_by_phase(brief, wanted)


def has_image(brief: Brief, wanted: Awaited) -> bool:
    """Whether a container has the awaited image, or none is awaited. A later spec may bring it, or take it away
    again."""
    images = images_of(brief.daemonset.spec.template).values()
    return wanted.image is None or any(wanted.image in (image, short_image(image)) for image in images)


def deleted_ending(name: str) -> Ending:
    """The ending where the DaemonSet was deleted."""
    return _failed_ending(ExitCode.FAILED, f"daemonset.apps.kruise.io/{name} was deleted")


def no_controller_ending(name: str, absence: str) -> Ending:
    """The ending where no controller is active; `absence` says why."""
    words = f"nothing happens to daemonset.apps.kruise.io/{name}: {absence}"
    return _failed_ending(ExitCode.STUCK, words, command("doctor"))


def unfinished_ending(brief: Brief, after: str = "") -> Ending:
    """The ending of a rollout that still moves. `after`: the `--timeout` that passed, as it was typed; empty without
    one."""
    timed = f"timed out after {after}: " if after else ""
    words = f"daemonset.apps.kruise.io/{brief.daemonset.name} is at {_done_words(brief)} ({brief.phase})"
    why = brief.awaited_nodes or (brief.why if brief.phase is Phase.DEGRADED else "")
    waits = _refused_writes_words(brief) or (f", {why}" if why else "")
    return _failed_ending(ExitCode.TIMED_OUT, f"{timed}{words}{waits}")


def with_namespaces(endings: Sequence[Ending], namespaces: Sequence[str]) -> list[Ending]:
    """`endings`, each with its namespace in front if there are several namespaces, where names
    alone may be the same."""
    if len(set(namespaces)) < 2:
        return list(endings)
    return [_with_namespace(ending, namespace) for ending, namespace in zip(endings, namespaces, strict=True)]


def _with_namespace(ending: Ending, namespace: str) -> Ending:
    error, where = ending.error, f"namespace {namespace}: "
    if error is not None:
        error = CommandError(f"{where}{error.message}", hints=error.hints, exit_code=error.exit_code)
    return replace(ending, error=error, warning=ending.warning and f"{where}{ending.warning}")


def _ending_by_phase(brief: Brief, wanted: Awaited) -> Ending | None:
    match brief.phase:
        case Phase.HEALTHY | Phase.HELD | Phase.PAUSED | Phase.MANUAL if not brief.controller_agrees:
            return None
        case Phase.HEALTHY:
            return _finished_ending(brief)
        case Phase.HELD if not wanted.require_full:
            return Ending(code=ExitCode.DONE)
        case Phase.HELD:
            verb = "resume" if brief.daemonset.paused else "promote"
            return _rollout_ending(brief, ExitCode.WAITING, f"is held at {_updated_words(brief)}", verb)
        case Phase.PAUSED:
            return _rollout_ending(brief, ExitCode.WAITING, f"is paused at {_updated_words(brief)}", "resume")
        case Phase.MANUAL:
            words = f"waits until somebody deletes pods (updateStrategy OnDelete): {_updated_words(brief)}"
            return _rollout_ending(brief, ExitCode.WAITING, words, "nodes" if brief.survey else "", "--only", "next")
        case Phase.STALLED if brief.refused:
            return _rollout_ending(brief, ExitCode.STUCK, f"is refused: {brief.refused}", _rollback_verb(brief))
        case Phase.STALLED if brief.certain:
            words = f"{_done_words(brief)}{_refused_writes_words(brief)}"
            return _rollout_ending(brief, ExitCode.STUCK, f"stalled at {words}", _rollback_verb(brief))
        case Phase.TERMINATING:
            return deleted_ending(brief.daemonset.name)
        case _ if wanted.fail_fast and brief.failing:
            words = f"fails at {_done_words(brief)}: {brief.failing}"
            return _rollout_ending(brief, ExitCode.STUCK, words, _rollback_verb(brief))
        case Phase.DEGRADED if wanted.fail_fast or brief.degraded_for_long:
            return _degraded_ending(brief)
    return None


def changed_spec_ending(brief: Brief, wanted: Awaited) -> Ending | None:
    """The ending where somebody has changed the spec; None while the awaited one may still come."""
    name, generation = brief.daemonset.name, brief.daemonset.generation
    if generation < (wanted.generation or 0):
        return None
    words = f"{name} was changed by somebody else meanwhile (now generation {generation})"
    return _failed_ending(ExitCode.REFUSED, words)


def _other_revision_ending(brief: Brief, wanted: Awaited) -> Ending | None:
    """None if the revision may be the awaited one. Without the right to read the numbers it is
    an ending at once."""
    name = brief.daemonset.name
    unknown = brief.snapshot.revisions_readable and brief.phase in (Phase.PENDING, Phase.TERMINATING)
    if wanted.revision in (None, brief.revision) or unknown:
        return None
    if brief.revision is None:
        words = f"which revision of {name} is rolled out cannot be told without the right to list controllerrevisions"
        return _failed_ending(ExitCode.FAILED, words)
    words = f"revision {wanted.revision} of {name} is not the one that is rolled out: it is {brief.revision} now"
    return _failed_ending(ExitCode.REFUSED, words)


def _finished_ending(brief: Brief) -> Ending:
    """The ending of a finished rollout, which may have no nodes at all."""
    nowhere = f"no node is eligible for daemonset.apps.kruise.io/{brief.daemonset.name}: it runs nowhere"
    return Ending(code=ExitCode.DONE, warning="" if brief.counts.desired else nowhere)


def _degraded_ending(brief: Brief) -> Ending:
    words = f"is over, but {counted(brief.counts.desired - brief.counts.available, 'node', 'has')} no available pod"
    if brief.degraded_for_long:
        words += f" for longer than {short_duration(brief.daemonset.progress_deadline)}"
    return _rollout_ending(brief, ExitCode.STUCK, ": ".join(filter(None, (words, brief.why))))


def _rollback_verb(brief: Brief) -> str:
    return "rollback" if brief.previous_number is not None else ""


def _updated_words(brief: Brief) -> str:
    return counted(brief.counts.updated, "node", of=brief.counts.desired)


def _done_words(brief: Brief) -> str:
    return counted(brief.done, "node", of=brief.counts.target)


def _refused_writes_words(brief: Brief) -> str:
    return f": {brief.writes}" if brief.writes else ""


def _rollout_ending(brief: Brief, code: int, words: str, verb: str = "", *more: str) -> Ending:
    name, namespace = brief.daemonset.name, brief.daemonset.namespace
    hints = (command(verb, Key(namespace, name), *more),) if verb else ()
    return _failed_ending(code, f"rollout of daemonset.apps.kruise.io/{name} {words}", *hints)


def _failed_ending(code: int, words: str, *hints: str) -> Ending:
    return Ending(code=code, error=CommandError(words, hints=hints, exit_code=code))
