"""The state of a rollout: the one model behind `status`, `list`, waits, exit codes and the JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final, TypeAlias, assert_never

from msgspec.structs import asdict, replace

from controller.api.daemonset import DaemonSet, Phase, Rollout
from controller.api.names import WRITES_FAIL
from controller.api.objects import Key, Value, epoch, value_at
from controller.planner.explanation import NodeState
from controller.planner.limits import Budget, budget_of
from kubectl_plugin.rollout.document import (
    API_VERSION,
    BudgetUse,
    FailureLine,
    Group,
    ImageChange,
    OverviewLine,
    PauseNote,
    RevisionNumbers,
    RolloutDocument,
    Strategy,
)
from kubectl_plugin.rollout.gitops import driver_of
from kubectl_plugin.rollout.last_action import pause_of, paused_words
from kubectl_plugin.rollout.nodes import DONE, NodeCounts, NodeRow
from kubectl_plugin.rollout.reasons import (
    awaited_nodes_words,
    checks_words,
    failing_words,
    hold_reason,
    reason_of,
    refused_writes_words,
    without_pod_name,
)
from kubectl_plugin.rollout.snapshot import PodDetail, Snapshot, counts_of, images_of, short_image
from kubectl_plugin.rollout.steps import DomainRow, Release, domain_rows, release_of, steps_of
from kubectl_plugin.rollout.survey import (
    NodeSurvey,
    StatusSurvey,
    Survey,
    UnreadableSpecError,
    record_of,
    survey,
    survey_of_status,
)
from kubectl_plugin.rollout.target import verb_to_go_back

MOST_LOGS: Final = 3
_KUBELET: Final = "back-off "
"""Prefix of the kubelet's message for a waiting container, which does not say why it ended."""

Run: TypeAlias = tuple[Key, str, int]
"""Pod, container, and its number of restarts."""


class RolloutStatus(Value, dict=True, gc=True):
    """What is reported of a rollout: the reason for its phase, problems, and the JSON document."""

    survey: Survey
    nodes_unknown: str = ""
    """Why the nodes cannot be listed; empty if they can."""
    absence: str = ""
    """Why no controller seems active; empty if one is, or if the phase is not Pending."""
    logs: Mapping[Run, str] | None = None
    """The last log line of each of `silent_runs`; None if no log was read."""

    @property
    def snapshot(self) -> Snapshot:
        return self.survey.snapshot

    @property
    def daemonset(self) -> DaemonSet:
        return self.snapshot.daemonset

    @property
    def phase(self) -> Phase:
        return self.survey.phase

    @property
    def done(self) -> int:
        return self.survey.derived_record.done

    @property
    def counts(self) -> NodeCounts:
        return self.survey.counts

    @cached_property
    def why(self) -> str:
        if isinstance(self.survey, StatusSurvey):
            return reason_of(self.survey).text
        paused = paused_words(self.snapshot)
        if self.phase is Phase.PROGRESSING:
            return self.writes or self.awaited_nodes or checks_words(self.daemonset) or paused
        text = reason_of(self.survey).text
        return text if self.phase is Phase.PAUSED else "; ".join(filter(None, (text, paused)))

    @property
    def refused(self) -> str:
        """Why the controller cannot use the spec, or empty."""
        return without_pod_name(self.survey.standing.refused)

    @property
    def failing(self) -> str:
        return failing_words([row for row in self._rows if row.state is NodeState.FAILING])

    @property
    def _rows(self) -> tuple[NodeRow, ...]:
        """In update order; empty if the nodes cannot be listed."""
        return self.survey.in_update_order if isinstance(self.survey, NodeSurvey) else ()

    @property
    def writes(self) -> str:
        return refused_writes_words(self.daemonset)

    @property
    def awaited_nodes(self) -> str:
        """The unreachable nodes, if the rollout waits only for them."""
        return awaited_nodes_words(self.survey)

    @property
    def release(self) -> Release | None:
        return release_of(self.survey) if isinstance(self.survey, NodeSurvey) else None

    @property
    def held_by(self) -> str:
        """What keeps nodes old in phase Held."""
        return hold_reason(self.survey).text if isinstance(self.survey, NodeSurvey) else self.why

    @property
    def domains(self) -> tuple[DomainRow, ...]:
        return domain_rows(self.survey) if isinstance(self.survey, NodeSurvey) else ()

    @property
    def driver(self) -> str | None:
        """The Rollout of kruise-rollouts that sets the partition."""
        return driver_of(self.snapshot.document)

    @property
    def way_back(self) -> str:
        """The verb that goes back; empty if there is no earlier revision."""
        return verb_to_go_back(self.snapshot)

    @property
    def progress(self) -> str:
        """`Progressing 4/8 updated`."""
        return f"{self.phase} {self.done}/{self.counts.target} updated"

    @property
    def line(self) -> str:
        """`Progressing 4/8 updated, 1 updating, 1 failing (c-04 CrashLoopBackOff)`; no ages, which always change."""
        counts, parts = self.counts, [self.progress]
        if isinstance(self.survey, StatusSurvey):
            parts += [f"{counts.updating} updating"] if counts.updating else []
        elif self.phase is Phase.PROGRESSING:
            parts.append(f"{counts.updating} updating")
            parts += [f"{counts.missing} missing"] if counts.missing else []
            parts += [f"{counts.failing} failing ({self.failing})"] if counts.failing else []
        return ", ".join(parts) + (f": {self.why}" if self.why else "")

    @property
    def milestone(self) -> str:
        """A key that changes when `line` should be printed again, which is not for every pod that comes or goes."""
        if self.phase is not Phase.PROGRESSING:
            return self.line
        return (
            f"{self.progress} {self.failing} {bool(self.writes)} {self.awaited_nodes} {checks_words(self.daemonset)}"
        )

    @property
    def silent_runs(self) -> list[Run]:
        """The first containers whose termination only their log explains."""
        return [_run(self.snapshot, failure) for failure in self._failures[:MOST_LOGS] if _lacks_words(failure)]

    @cached_property
    def failing_pods(self) -> tuple[tuple[PodDetail, FailureLine], ...]:
        """Those of failing nodes first."""
        rows = sorted(self._rows, key=lambda row: row.state is not NodeState.FAILING)
        return tuple(
            (row.pod, FailureLine(node=row.node, pod=row.pod.pod.name, revision=row.revision, **asdict(row.failure)))
            for row in rows
            if row.pod is not None and row.failure is not None
        )

    @property
    def _failures(self) -> tuple[FailureLine, ...]:
        if isinstance(self.survey, StatusSurvey):
            return ()
        writes = (FailureLine(reason=WRITES_FAIL, message=self.writes),) if self.writes else ()
        return (*writes, *(failure for _, failure in self.failing_pods))

    @cached_property
    def document(self) -> RolloutDocument:
        """The output of `status -o json`; some fields are empty without the nodes, but the counts add up."""
        daemonset, seen, recorded = self.daemonset, self.survey, self.survey.controller_record
        rolling = daemonset.rolling_update
        reason = reason_of(seen)
        match seen:
            case NodeSurvey():
                limits, previous, images, pulls = seen.rollout.budget, seen.previous_number, _images(seen), seen.pulls
                budget, groups = _budget(seen), _groups(seen)
            case StatusSurvey():
                limits, previous, images, pulls = _limits_of(daemonset, self.counts.desired), None, {}, {}
                budget, groups = _stated_budget(limits, self.counts), ()
            case _:
                assert_never(seen)
        return RolloutDocument(
            api_version=API_VERSION,
            kind="RolloutStatus",
            namespace=daemonset.namespace,
            name=daemonset.name,
            generation=daemonset.generation,
            phase=self.phase,
            since=recorded.last_transition_time if recorded.phase == self.phase else None,
            reason=reason.word,
            message=reason.text,
            revision=RevisionNumbers(current=seen.current, hash=seen.hash, previous=previous),
            images=images,
            strategy=Strategy(
                type=daemonset.spec.update_strategy.type or "RollingUpdate",
                rolling_update_type=(rolling.rolling_update_type or "Standard") if rolling else None,
                max_unavailable=limits.max_unavailable,
                max_surge=limits.max_surge,
                partition=limits.partition,
                paused=daemonset.paused,
                selector=value_at(self.snapshot.document, "spec", "updateStrategy", "rollingUpdate", "selector"),
            ),
            nodes=self.counts,
            budget=budget,
            groups=groups,
            problems=tuple(_with_log_line(self.snapshot, failure, self.logs) for failure in self._failures),
            preparing=tuple([one for row in self._rows for one in row.preparing]),
            steps=steps_of(seen),
            checks=recorded.checks or (),
            started_at=recorded.start_time,
            last_progress_at=recorded.last_progress_time,
            completed_at=recorded.completion_time,
            paused=_paused(self.snapshot, recorded),
            images_ahead=counts_of(pulls.values()) if pulls else None,
            unreadable=self.snapshot.unread_words,
        )

    @property
    def overview(self) -> OverviewLine:
        """For `list`, by the status alone."""
        rolling = self.daemonset.rolling_update
        return OverviewLine(
            namespace=self.daemonset.namespace,
            name=self.daemonset.name,
            phase=self.phase,
            done=self.done,
            target=self.counts.target,
            desired=self.counts.desired,
            partition=rolling.partition or 0 if rolling else 0,
            revision=self.survey.current,
            images=tuple(short_image(image) for image in images_of(self.daemonset.spec.template).values()),
            since=self.survey.derived_record.last_transition_time or None,
            why=self.why,
        )


def status_at(snapshot: Snapshot, by: str) -> RolloutStatus:
    """`by` groups the nodes (`group_of`)."""
    nodes_unknown = f"the nodes of {snapshot.daemonset.name} are unknown without the right to list pods"
    if snapshot.pods_readable:
        try:
            return RolloutStatus(survey=survey(snapshot, by))
        except UnreadableSpecError as error:
            nodes_unknown = error.message
    return RolloutStatus(survey=survey_of_status(snapshot), nodes_unknown=nodes_unknown)


def is_degraded_for_long(snapshot: Snapshot) -> bool:
    """Whether the controller has recorded Degraded for longer than the progress deadline, not counting time spent
    only on unreachable nodes. The controller then stays at Degraded, as the rollout is over."""
    rollout = record_of(snapshot.daemonset)
    since = max(epoch(rollout.last_transition_time) or 0.0, epoch(rollout.last_progress_time) or 0.0)
    if rollout.phase != Phase.DEGRADED or rollout.nodes_unreachable_since or not since:
        return False
    return snapshot.now - since >= snapshot.daemonset.progress_deadline


def _limits_of(daemonset: DaemonSet, desired: int) -> Budget:
    """Limits in nodes; 0 if the spec's are invalid."""
    try:
        return budget_of(daemonset, desired)
    except ValueError:
        return Budget(desired=desired, max_unavailable=0, max_surge=0, partition=0, burst=0)


def _lacks_words(failure: FailureLine) -> bool:
    ran = failure.exit_code is not None and failure.restarts > 0
    return ran and (not failure.message or failure.message.startswith(_KUBELET))


def _run(snapshot: Snapshot, failure: FailureLine) -> Run:
    return Key(snapshot.key.namespace, failure.pod), failure.container, failure.restarts


def _with_log_line(snapshot: Snapshot, failure: FailureLine, logs: Mapping[Run, str] | None) -> FailureLine:
    """Replaces the kubelet's message with the last log line if it gives no reason."""
    if logs is None or not _lacks_words(failure):
        return failure
    return replace(failure, message=logs.get(_run(snapshot, failure), ""))


def _budget(survey: NodeSurvey) -> BudgetUse:
    rollout = survey.rollout
    by = rollout.mid_surge if rollout.surging else rollout.unavailable_nodes
    return BudgetUse(max=rollout.budget.most, used=len(by), by=tuple(sorted(by)))


def _stated_budget(limits: Budget, counts: NodeCounts) -> BudgetUse:
    """From the controller's counts the nodes that use it, and the use of maxSurge, are unknown."""
    if limits.max_surge:
        return BudgetUse(max=limits.max_surge, used=None, by=())
    return BudgetUse(max=limits.max_unavailable, used=max(counts.desired - counts.available, 0), by=())


def _groups(survey: NodeSurvey) -> tuple[Group, ...]:
    """Empty without the right to list nodes."""
    updated: dict[str, list[bool]] = {}
    for row in survey.rows if survey.snapshot.nodes is not None else ():
        if row.state is not NodeState.EXCLUDED:
            updated.setdefault(row.group, []).append(row.state in DONE)
    return tuple(Group(key=key, nodes=len(of_it), updated=sum(of_it)) for key, of_it in sorted(updated.items()))


def _images(survey: NodeSurvey) -> dict[str, ImageChange]:
    if survey.previous_revision is None:
        return {}
    before = images_of(survey.previous_revision.revision.template)
    after = images_of(survey.template)
    return {
        name: ImageChange(before=before.get(name), after=after.get(name))
        for name in {**after, **before}
        if before.get(name) != after.get(name)
    }


def _paused(snapshot: Snapshot, rollout: Rollout) -> PauseNote | None:
    if not snapshot.daemonset.paused:
        return None
    if (action := pause_of(snapshot)) is not None:
        return PauseNote(at=action.at, by=action.by, reason=action.reason)
    since = rollout.last_transition_time if rollout.phase == Phase.PAUSED else None
    return PauseNote(at=since or "", by="", reason="")
