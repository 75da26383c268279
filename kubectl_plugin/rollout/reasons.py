"""Why a rollout is in its phase: a word for programs, and a sentence for users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, assert_never

from msgspec.structs import replace

from controller.api import formats
from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, rollout_of
from controller.api.formats import counted, joined, parts_of
from controller.api.names import (
    DEGRADED,
    INVALID_SPEC,
    PODS_UNAVAILABLE,
    PROGRESS_DEADLINE_EXCEEDED,
    PROGRESSING,
    ROLLOUT_COMPLETE,
    WRITES_FAIL,
)
from controller.api.objects import Value
from controller.planner.blocker_texts import Blocker, WaitReason
from controller.planner.checks import words_of
from controller.planner.conditions import (
    WAITS_FOR,
    checks_message,
    keeper_of,
    limit_in_use,
    some,
    step_message,
    unplaceable_message,
    unreachable_message,
    wait_of,
)
from controller.planner.explanation import NodeState
from kubectl_plugin.rollout.last_action import pause_of, paused_words
from kubectl_plugin.rollout.nodes import NodeRow
from kubectl_plugin.rollout.survey import (
    NodeSurvey,
    StatusSurvey,
    Survey,
    condition,
    is_unusable,
    phase_in,
    record_of,
    refusal_of,
)
from kubectl_plugin.wording import short_duration

_REFUSED_POD: Final = re.compile(r'^(?:Pod|pods) "[^"]*" is (?:forbidden|invalid): ')
"""Prefix that names the dry run's pod, which does not exist."""


class OwnReason(StrEnum):
    """Reasons beside those of conditions and of `WaitReason`."""

    AS_STATED = "AsStated"
    """By the DaemonSet's status, for want of the nodes or pods."""
    DELETING = "Deleting"
    NOT_OBSERVED = "NotObserved"
    ANOTHER_CONTROLLER = "AnotherController"
    PODS_STARTING = "PodsStarting"
    PODS_MISSING = "PodsMissing"


class PhaseReason(Value):
    word: str
    """The reason of the matching condition, if there is one."""
    text: str


def reason_of(survey: Survey) -> PhaseReason:
    match survey:
        case NodeSurvey():
            return _reason_by_nodes(survey)
        case StatusSurvey():
            return PhaseReason(word=OwnReason.AS_STATED, text=_stated_words(survey))
        case _:
            assert_never(survey)


def _reason_by_nodes(survey: NodeSurvey) -> PhaseReason:
    standing = survey.standing
    match survey.phase:
        case Phase.STALLED if standing.refused:
            return _refusal_reason(survey.daemonset, standing.refused)
        case Phase.STALLED:
            waited = f"no progress for {short_duration(survey.daemonset.progress_deadline)}"
            text = ", ".join(filter(None, (waited, checks_words(survey.daemonset) or _waiting_words(survey))))
            return PhaseReason(word=PROGRESS_DEADLINE_EXCEEDED, text=text)
        case Phase.HELD:
            held = hold_reason(survey)
            return replace(held, text="; ".join(filter(None, (held.text, unplaceable_message(survey.rollout)))))
        case Phase.ABORTED:
            return PhaseReason(word=WaitReason.ABORTED, text=standing.aborted)
        case Phase.SOAKING | Phase.AWAITING_APPROVAL as phase:
            unanswered = bool(standing.checks) and phase is Phase.SOAKING
            name = WaitReason.CHECK_UNANSWERED.value if unanswered else phase.value
            text = joined(step_message(survey.rollout, standing), checks_message(standing))
            return PhaseReason(word=name, text=text)
        case Phase.DEGRADED:
            return PhaseReason(word=PODS_UNAVAILABLE, text=_waiting_words(survey))
        case Phase.PROGRESSING:
            return _progressing_reason(survey)
        case phase:
            return _plain_reason(phase, survey.daemonset, standing.left_to_update)


def hold_reason(survey: NodeSurvey) -> PhaseReason:
    """What keeps nodes old in phase Held, as the controller's condition says."""
    rollout, kept = survey.rollout, survey.standing.held_nodes
    match keeper_of(rollout):
        case Blocker.STEP:
            return PhaseReason(word=WaitReason.STEP, text=step_hold_words(kept))
        case Blocker.PARTITION:
            return PhaseReason(word=WaitReason.PARTITION, text=partition_hold_words(rollout.budget.partition, kept))
        case _:
            return PhaseReason(word=WaitReason.SELECTOR, text=selector_hold_words(kept))


def _stated_words(survey: StatusSurvey) -> str:
    """Why the rollout is in its phase; empty if it does not wait."""
    daemonset, snapshot, counts = survey.daemonset, survey.snapshot, survey.daemonset.status or DaemonSetStatus()
    updated = counts.updated_number_scheduled
    match survey.phase:
        case Phase.PROGRESSING | Phase.STALLED | Phase.DEGRADED:
            return failure_words(survey)
        case Phase.PAUSED as phase if pause_of(snapshot) is None:
            return _plain_reason(phase, daemonset, max(survey.derived_record.target - updated, 0)).text
        case Phase.PAUSED:
            return paused_words(snapshot).removeprefix("paused ")
        case Phase.HELD | Phase.HEALTHY if words := paused_words(snapshot):
            return words
        case Phase.HELD:
            return _stated_hold_words(daemonset, counts)
        case Phase.ABORTED:
            return survey.derived_record.aborted_message or ""
        case phase:
            return _plain_reason(phase, daemonset, max(counts.desired_number_scheduled - updated, 0)).text


def failure_words(survey: Survey) -> str:
    """Of a rollout that is Progressing, Stalled or Degraded: certain problems only, the most certain first."""
    daemonset = survey.daemonset
    if survey.phase is Phase.STALLED and (words := refusal_of(daemonset)):
        return _refusal_reason(daemonset, words).text
    if words := refused_writes_words(daemonset) or awaited_nodes_words(survey) or _pods_failure_words(survey):
        return words
    parts = parts_of(condition(daemonset, PROGRESSING).message)
    if survey.phase is not Phase.DEGRADED and len(parts) > 1:
        return parts[-1]
    status = daemonset.status or DaemonSetStatus()
    desired = status.desired_number_scheduled
    lacking = desired - status.number_available
    return f"{counted(lacking, 'node', 'has', of=desired)} no available pod" if lacking > 0 else ""


def _pods_failure_words(survey: Survey) -> str:
    if isinstance(survey, StatusSurvey):
        return ""
    return failing_words([row for row in survey.in_update_order if row.failure]) or _waiting_words(survey)


def without_pod_name(words: str) -> str:
    return _REFUSED_POD.sub("", words)


def refused_writes_words(daemonset: DaemonSet) -> str:
    """Why the server refuses the controller's writes; empty while they succeed."""
    found = condition(daemonset, DEGRADED)
    if found.status != "True" or found.reason != WRITES_FAIL:
        return ""
    return found.message or "the server refuses what the controller writes"


def checks_words(daemonset: DaemonSet) -> str:
    """The checks of the step that do not pass, and why; empty: none."""
    return joined(*map(words_of, rollout_of(daemonset.status).checks or ()))


def awaited_nodes_words(survey: Survey) -> str:
    """`waits for 3 unreachable nodes: c-02, c-01, c-00` or empty; the controller's words if nodes are unreadable."""
    if isinstance(survey, NodeSurvey) and survey.snapshot.nodes is not None:
        names = survey.standing.unreachable_only if survey.phase is Phase.PROGRESSING else ()
        return unreachable_message(names) if names else ""
    stated = condition(survey.daemonset, PROGRESSING)
    goes_on = phase_in(record_of(survey.daemonset)) is Phase.PROGRESSING
    if not goes_on or stated.reason != WaitReason.UNREACHABLE:
        return ""
    return next((part for part in parts_of(stated.message) if part.startswith(WAITS_FOR)), "")


def waits_for_words(survey: NodeSurvey) -> str:
    """What the rollout waits for: pods that may become ready, then the next nodes; or the action a user must take."""
    coming = [row.node for row in survey.rows_in(NodeState.NEXT)]
    if survey.phase is Phase.MANUAL:
        return f"the old pods of {some(coming)} to be deleted"
    if words := awaited_nodes_words(survey):
        return words.removeprefix(WAITS_FOR)
    pending = survey.rows_in(NodeState.UPDATING) or survey.rows_in(NodeState.FAILING)
    if survey.phase is not Phase.PROGRESSING or not pending:
        return ""
    words = f"{some(row.node for row in pending)} to become available"
    if not coming:
        return words
    more = f" and {len(coming) - 2} more" if len(coming) > 2 else ""
    return f"{words}; {', '.join(f'then {name}' for name in coming[:2])}{more}"


def selector_hold_words(kept: int) -> str:
    return Blocker.SELECTOR.text.of_planned.format(who=f"{kept} old ones")


def step_hold_words(kept: int) -> str:
    return Blocker.STEP.text.of_edited.format(who=counted(kept, "node"))


def partition_hold_words(partition: int, kept: int) -> str:
    return Blocker.PARTITION.text.of_edited.format(partition=partition, who=kept)


def new_pods_words(survey: NodeSurvey) -> str:
    words = f"lost pods come back as they were; new nodes get revision {survey.rollout.fallback.usual.number}"
    return "; ".join(filter(None, (words, unplaceable_message(survey.rollout))))


def nodes_without_available_pod(survey: NodeSurvey) -> list[str]:
    return [node.name for node in survey.rollout.eligible_in_order if not node.available]


def failing_words(rows: Sequence[NodeRow]) -> str:
    """`c-04 CrashLoopBackOff`."""
    return some(f"{row.node} {row.failure.reason}" if row.failure else row.node for row in rows)


def _plain_reason(phase: Phase, daemonset: DaemonSet, left: int) -> PhaseReason:
    """In a phase that no other function explains. `left` is the number of nodes to update."""
    match phase:
        case Phase.TERMINATING:
            return PhaseReason(word=OwnReason.DELETING, text="it is being deleted")
        case Phase.PENDING:
            seen = daemonset.status.observed_generation if daemonset.status else 0
            if (rival := _rival_reason(daemonset)) is not None:
                return PhaseReason(word=rival.word, text=f"{rival.text}; last seen: generation {seen or 'none'}")
            text = f"waiting for a controller to see generation {daemonset.generation} (last seen: {seen or 'none'})"
            return PhaseReason(word=OwnReason.NOT_OBSERVED, text=text)
        case Phase.MANUAL:
            return PhaseReason(word=WaitReason.ON_DELETE, text=f"{counted(left, 'old pod', 'changes')} when deleted")
        case Phase.PAUSED:
            text = (
                f"{counted(left, 'node', 'waits')} for resume" if left else "nothing more is rolled out before resume"
            )
            return PhaseReason(word=WaitReason.PAUSED, text=text)
        case Phase.SOAKING | Phase.AWAITING_APPROVAL:
            record = rollout_of(daemonset.status)
            words = "soaks" if phase is Phase.SOAKING else "waits for approval"
            reason = WaitReason.SOAKING if phase is Phase.SOAKING else WaitReason.APPROVAL
            return PhaseReason(
                word=reason, text=joined(f"step {record.step} of {record.steps} {words}", checks_words(daemonset))
            )
        case _:
            return PhaseReason(word=ROLLOUT_COMPLETE, text="")


def _rival_reason(daemonset: DaemonSet) -> PhaseReason | None:
    """After another controller has written the status, this one leaves the DaemonSet alone for minutes."""
    if not daemonset.status_writers.other_controller_wrote:
        return None
    writer = daemonset.status_writers.other
    return PhaseReason(word=OwnReason.ANOTHER_CONTROLLER, text=f"waiting for {writer} to stop writing the status")


def _refusal_reason(daemonset: DaemonSet, words: str) -> PhaseReason:
    if is_unusable(daemonset):
        return PhaseReason(word=INVALID_SPEC, text=f"unusable spec: {words}")
    text = f"server dry-run of the new pod: {without_pod_name(words)}"
    return PhaseReason(word=WaitReason.TEMPLATE_REFUSED, text=text)


def _progressing_reason(survey: NodeSurvey) -> PhaseReason:
    stopped = wait_of(survey.explainer, survey.standing)
    if stopped is not None:
        return PhaseReason(word=stopped.reason, text=stopped.text)
    if words := awaited_nodes_words(survey):
        return PhaseReason(word=WaitReason.UNREACHABLE, text=words)
    if (rival := _rival_reason(survey.daemonset)) is not None:
        return rival
    text = _waiting_words(survey)
    if text and text == refused_writes_words(survey.daemonset):
        return PhaseReason(word=WRITES_FAIL, text=text)
    if not survey.counts.next:
        return PhaseReason(
            word=OwnReason.PODS_MISSING if survey.counts.missing else OwnReason.PODS_STARTING, text=text
        )
    return PhaseReason(word=limit_in_use(survey.rollout) or WaitReason.UPDATING, text=text)


def _waiting_words(survey: NodeSurvey) -> str:
    """What nodes without an available pod wait for: pods that may become ready, then failing ones."""
    if starting := survey.rows_in(NodeState.UPDATING):
        return f"waiting for {some(row.node for row in starting)}"
    if failed := survey.rows_in(NodeState.FAILING):
        return failing_words(failed)
    if words := refused_writes_words(survey.daemonset):
        return words
    if lacking := survey.rows_in(NodeState.MISSING, NodeState.DELETING):
        return f"waiting for a pod on {some(row.node for row in lacking)}"
    without = nodes_without_available_pod(survey)
    return f"waiting for {some(without)}" if without else ""


def _stated_hold_words(daemonset: DaemonSet, status: DaemonSetStatus) -> str:
    rolling, desired = daemonset.rolling_update, status.desired_number_scheduled
    written, left = rolling.partition if rolling else None, desired - status.updated_number_scheduled
    reason = condition(daemonset, PROGRESSING).reason
    if reason == WaitReason.STEP:
        return step_hold_words(left)
    if not written or reason == WaitReason.SELECTOR:
        return selector_hold_words(left)
    return partition_hold_words(formats.scaled(written, desired, round_up=False), left)
