"""The status of a rollout in brief: all that the one-line summary and the end of a wait are decided from. It is made
from the nodes or, if these could not be read, from the controller's status.

When a wait for a rollout is over, and with which exit code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.formats import counted
from controller.api.objects import Key, Value, epoch
from controller.planner.explanation import NodeState
from controller.planner.progress import due_at
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.gitops import paused_words
from kubectl_plugin.rollout.images import images_of, short_image
from kubectl_plugin.rollout.nodes import NodeCounts
from kubectl_plugin.rollout.reasons import (
    awaited_nodes_words,
    failing_words,
    reason_of,
    refused_writes_words,
    stated_reason_words,
    without_pod_name,
)
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.survey import Survey, phase_in, refusal_of, stated_rollout
from kubectl_plugin.units import short_duration
from kubectl_plugin.wording import command

GRACE: Final = 60.0
"""Seconds by which a deadline may have passed before the controller notices it."""


class Brief(Value):
    """What one line can say of a rollout. `brief_of` makes it from the nodes, `stated_brief` from the controller's
    status.
    """

    snapshot: Snapshot
    phase: Phase
    revision: int | None
    """Number of the revision that is rolled out; None if it cannot be known."""
    counts: NodeCounts
    done: int
    """How many of `counts.target` nodes are done."""
    moving: str
    """How many nodes are being updated, in words."""
    why: str
    """Why it waits; empty if it waits for nothing."""
    refused: str
    """Why the controller cannot use the spec, in words; empty if it can."""
    survey: Survey | None = None
    """The survey that this was made from; None: it was made from the controller's status."""

    @property
    def previous_number(self) -> int | None:
        """Number of the revision that is replaced; None if there is none to go back to."""
        return self.survey.previous_number if self.survey is not None else None

    @property
    def failing(self) -> str:
        """The nodes that will not become ready by themselves, in words."""
        return failing_words(self.survey.rows_in(NodeState.FAILING)) if self.survey is not None else ""

    @property
    def controller_agrees(self) -> bool:
        """Whether the controller's status says the same."""
        return self.survey is None or self.survey.controller_agrees

    @property
    def certain(self) -> bool:
        """Whether Stalled, if that is the phase, is beyond doubt."""
        return self.survey is None or is_certain(self.survey)

    @property
    def degraded_for_long(self) -> bool:
        """Whether the phase, if it is Degraded, has been so for longer than the progress deadline."""
        return is_degraded_for_long(self.snapshot)

    @property
    def daemonset(self) -> DaemonSet:
        return self.snapshot.daemonset

    @property
    def writes(self) -> str:
        """Why the server refuses the controller's writes; empty while they succeed."""
        return refused_writes_words(self.daemonset)

    @property
    def awaited_nodes(self) -> str:
        """The unreachable nodes for which everything that is left waits, in words; empty if something else is
        left."""
        return awaited_nodes_words(self.snapshot, self.survey)

    @property
    def progress(self) -> str:
        """`Progressing 4/8 updated`."""
        return f"{self.phase} {self.done}/{self.counts.target} updated"

    @property
    def line(self) -> str:
        """Such as `Progressing 4/8 updated, 1 updating, 1 failing (c-04 CrashLoopBackOff)`. It contains no ages, so
        that it changes only when something happens.
        """
        moved = f"{self.progress}, {self.moving}" if self.moving else self.progress
        return f"{moved}: {self.why}" if self.why else moved

    @property
    def milestone(self) -> str:
        """A key that changes when `line` is worth printing again, which is not at every pod that comes or goes."""
        if self.phase is not Phase.PROGRESSING:
            return self.line
        return f"{self.progress} {self.failing} {bool(self.writes)} {self.awaited_nodes}"


def brief_of(survey: Survey) -> Brief:
    """Made from the nodes."""
    return Brief(
        snapshot=survey.snapshot,
        phase=survey.phase,
        revision=survey.current,
        counts=survey.counts,
        done=survey.record.done,
        moving=_moving_words(survey),
        why=_why_words(survey),
        refused=without_pod_name(survey.standing.refused),
        survey=survey,
    )


def stated_brief(snapshot: Snapshot) -> Brief:
    """Made from the controller's status, where the nodes cannot be listed one by one."""
    daemonset, rollout = snapshot.daemonset, stated_rollout(snapshot.daemonset)
    counts = _stated_counts(daemonset.status or DaemonSetStatus(), rollout)
    of_this_spec = (one.revision.number for one in snapshot.revisions if one.revision.identity == daemonset.identity)
    return Brief(
        snapshot=snapshot,
        phase=phase_in(rollout),
        revision=next(of_this_spec, None),
        counts=counts,
        done=rollout.done,
        moving=f"{counts.updating} updating" if counts.updating else "",
        why=stated_reason_words(snapshot),
        refused=without_pod_name(refusal_of(daemonset)),
    )


def is_certain(survey: Survey) -> bool:
    """Whether the controller agrees, or would by now: the API server's clock may be ahead of the controller's."""
    rollout = survey.recorded
    overdue = survey.snapshot.now - due_at(rollout, survey.daemonset.progress_deadline)
    return rollout.phase == Phase.STALLED or overdue >= GRACE


def is_degraded_for_long(snapshot: Snapshot) -> bool:
    """Whether the controller's record has been Degraded for longer than the progress deadline, not counting the time
    in which it was so because of unreachable nodes only. The controller itself leaves it at Degraded then: the
    rollout is over."""
    rollout = stated_rollout(snapshot.daemonset)
    since = max(epoch(rollout.last_transition_time) or 0.0, epoch(rollout.last_progress_time) or 0.0)
    if rollout.phase != Phase.DEGRADED or rollout.nodes_unreachable_since or not since:
        return False
    return snapshot.now - since >= snapshot.daemonset.progress_deadline


def _stated_counts(status: DaemonSetStatus, rollout: Rollout) -> NodeCounts:
    """A node whose new pod is not available yet counts as updating; one with an old pod counts as old."""
    desired = status.desired_number_scheduled
    updated = min(status.updated_number_scheduled, desired)
    done = min(rollout.done, updated)
    missing = max(desired - status.current_number_scheduled, 0)
    return NodeCounts(
        desired=desired,
        target=rollout.target,
        updated=done,
        updating=updated - done,
        failing=0,
        next=0,
        old=desired - updated - missing,
        available=status.number_available,
        unplanned=0,
        missing=missing,
    )


def _moving_words(survey: Survey) -> str:
    """The counts of a rollout that is Progressing; empty in other phases, where the line says why instead."""
    if survey.phase is not Phase.PROGRESSING:
        return ""
    counts, failed = survey.counts, survey.rows_in(NodeState.FAILING)
    parts = [f"{counts.updating} updating"]
    parts += [f"{counts.missing} missing"] if counts.missing else []
    parts += [f"{len(failed)} failing ({failing_words(failed)})"] if failed else []
    return ", ".join(parts)


def _why_words(survey: Survey) -> str:
    paused = paused_words(survey.snapshot)
    if survey.phase is Phase.PROGRESSING:
        awaited = awaited_nodes_words(survey.snapshot, survey)
        return refused_writes_words(survey.daemonset) or awaited or paused
    if survey.phase is Phase.PAUSED:
        return reason_of(survey).text
    return "; ".join(filter(None, (reason_of(survey).text, paused)))


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
