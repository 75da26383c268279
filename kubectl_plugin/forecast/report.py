"""Everything that a plan shows: the forecast, the steps after it, how long it takes, and what was checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.api.names import DEGRADED, TEMPLATE_REFUSED, WRITES_FAIL, is_quota_exceeded, request_words
from controller.api.objects import Value
from controller.planner.actions import ProbeTemplate
from controller.planner.pod_template import pod_name
from controller.planner.rollout_state import RolloutState
from controller.planner.world import TemplateRefused
from kubectl_plugin.edits.effects import number_of
from kubectl_plugin.failures import CommandError
from kubectl_plugin.forecast.forecast import Forecast, Tell, forecast
from kubectl_plugin.forecast.later_steps import Later, later_steps
from kubectl_plugin.forecast.moves import How
from kubectl_plugin.forecast.pace import Pace, pace_of
from kubectl_plugin.forecast.ports import port_waiters
from kubectl_plugin.forecast.warnings import CheckResult, ForecastWarning, warnings_of
from kubectl_plugin.report.in_place import Ways, ways_of
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.stated_status import condition
from kubectl_plugin.report.survey import Survey, survey
from kubectl_plugin.report.trouble import trouble_of
from kubectl_plugin.report.world_of import world_of

_CREATING: Final = request_words("create", "pods")
"""How the controller's Degraded message begins after a failed create."""


class DryRunAnswer(Value):
    """The result of the server's dry run for a pod of the planned template."""

    result: CheckResult
    text: str = ""
    """The server's words, or why the dry run was not made."""
    unknown_fields: bool = False
    """Whether the server does not know some fields of the template."""


class Effect(Value, rename="camel"):
    """What a plan comes to, counted in nodes, including those whose waves were not worked out."""

    in_place: int
    """The pod stays and is changed."""
    recreated: int
    """The old pod is deleted before the new one is created."""
    surged: int
    """The old pod is deleted after the new one is available."""
    beside: int
    """The new pod stays beside the old one, because it never becomes available."""
    created: int
    finished: int
    removed: int
    most_unavailable: int
    """The most nodes without an available pod at any moment. Waves that were not worked out count with the limit."""


class RolloutPlan(Value, dict=True, gc=True):
    survey: Survey
    """The survey of the DaemonSet as it is planned for."""
    forecast: Forecast
    later: tuple[Later, ...]
    pace: Pace | None
    checks: tuple[ForecastWarning, ...]
    tried: tuple[str, ...]
    """The settings that were tried out, in words; empty for the DaemonSet as it is."""
    refusal: str = ""
    """Why the server accepts no new pod, in its words; empty while no such reason is known."""

    @property
    def number(self) -> int:
        """Number of the revision that is rolled out, as it is or will be."""
        return number_of(self.forecast.start.revision, self.forecast.start.history)

    @property
    def previous_number(self) -> int | None:
        """Number of the revision that is replaced; None if no node runs an old one."""
        outdated = any(node.old is not None for node in self.forecast.start.eligible)
        return self.survey.previous_number if outdated else None

    @property
    def unavailable_rows(self) -> tuple[NodeRow, ...]:
        """The nodes that have no available pod now, in update order."""
        idle = set(self.forecast.start.unavailable_nodes)
        return tuple(row for row in reversed(self.survey.rows) if row.node in idle)

    @cached_property
    def effect(self) -> Effect:
        found, surging, rest = self.forecast, self.forecast.start.surging, len(self.forecast.rest)
        moves = Counter(move.how for wave in found.waves for move in wave.moves)
        beside, limit = self._beside(), found.start.budget.max_unavailable if rest and not surging else 0
        return Effect(
            in_place=moves[How.IN_PLACE] + self._rest.in_place,
            recreated=moves[How.RECREATE] + (0 if surging else rest - self._rest.in_place),
            surged=moves[How.SURGE] - beside + (rest if surging else 0),
            beside=beside,
            created=moves[How.CREATE],
            finished=moves[How.FINISH],
            removed=moves[How.REMOVE],
            most_unavailable=max(found.most_unavailable, limit),
        )

    def _beside(self) -> int:
        if self.forecast.phase is None:
            return 0
        surged = {move.node for wave in self.forecast.waves for move in wave.moves if move.how is How.SURGE}
        return sum(node.paired and node.name in surged for node in self.forecast.end.nodes)

    def details(self, how: How) -> tuple[str, ...]:
        """What is restarted in place, or why pods are re-created; each once, in the order of the nodes."""
        moves = [move.detail for wave in self.forecast.waves for move in wave.moves if move.how is how]
        rest = self._rest.details if how is How.IN_PLACE else self._rest.hindrances if how is How.RECREATE else ()
        return tuple(dict.fromkeys(filter(None, (*moves, *rest))))

    @cached_property
    def _rest(self) -> Ways:
        """How the nodes whose waves were not worked out are updated."""
        rest = set(self.forecast.rest)
        return ways_of(self.forecast.end, lambda node: node.name in rest)

    @property
    def updated_nodes(self) -> int:
        """How many nodes have the revision in the end, including those whose waves were not worked out."""
        there = sum(node.current is not None for node in self.forecast.end.eligible)
        return there + len(self.forecast.rest)

    @property
    def available_nodes(self) -> int:
        """How many nodes have an available pod in the end, of any revision."""
        return sum(node.available for node in self.forecast.end.eligible)

    @property
    def seconds(self) -> float | None:
        """Seconds until everything that is not held back is available; None if that cannot be estimated."""
        if self.pace is None or not self.forecast.changes:
            return None
        waves = math.ceil(len(self.forecast.rest) / self.forecast.width)
        daemonset = self.survey.daemonset
        grace = daemonset.in_place_grace if self._rest.details else 0
        each = self.pace.seconds + grace + daemonset.spec.min_ready_seconds
        return self.forecast.seconds + waves * each


def rollout_plan(
    snapshot: Snapshot,
    *,
    waves: int,
    answer: DryRunAnswer | None = None,
    asked: tuple[str, ...] = (),
    tell: Tell | None = None,
) -> RolloutPlan:
    """The plan for the DaemonSet in `snapshot`. `waves`: how many to work out, 0 for all. `answer`: of the server's
    dry run; None if it was not made. `tell`: as in `forecast`. Raises ValueError for a spec that the planner
    cannot use.
    """
    surveyed = survey(snapshot)
    pace = pace_of(snapshot.pods, surveyed.rollout.revision.hash)
    refusal = refusal_in(snapshot.daemonset, answer)
    verdict = TemplateRefused(words=refusal, unknown_fields=answer is not None and answer.unknown_fields)
    found = _forecast_of(snapshot, surveyed.rollout, waves, verdict if refusal else None, pace, tell)
    later, wrong = ((), ()) if refusal else _steps_and_checks(found, waves, tell)
    answered = _dry_run_checks(answer, refusal) if answer is not None else ()
    checks = (*answered, *_missing_rights(snapshot), *wrong, *warnings_of(snapshot, found))
    return RolloutPlan(
        survey=surveyed, forecast=found, later=later, pace=pace, checks=checks, tried=asked, refusal=refusal
    )


def with_answer(plan: RolloutPlan, answer: DryRunAnswer, *, waves: int) -> RolloutPlan:
    """`plan` with the answer to the server's dry run. It is worked out anew where the server refuses the pod, or did
    so in the answer before."""
    if refusal_in(plan.survey.daemonset, answer):
        return rollout_plan(plan.survey.snapshot, waves=waves, answer=answer, asked=plan.tried)
    return replace(plan, checks=(*_dry_run_checks(answer, ""), *plan.checks))


def probe_of(rollout: RolloutState) -> ProbeTemplate | None:
    """The pod to send in a dry run: the next new one. None if no node should run one."""
    if not rollout.budget.desired:
        return None
    node = (rollout.outdated or rollout.eligible)[0].name
    name = pod_name(rollout.world.daemonset, node, ("dry-run",), None)
    return ProbeTemplate(node=node, name=name, revision=rollout.revision, strict=rollout.strict)


def refusal_in(daemonset: DaemonSet, answer: DryRunAnswer | None) -> str:
    """Why no new pod can be created; empty if no reason is known, and before the dry run was made.

    The controller's own failure counts only if it was about this very spec, and the dry run was not possible: it may
    be fixed by now. A dry run does not notice a quota that is used up, so there the controller's failure counts too.
    """
    if answer is None:
        return ""
    if answer.result is CheckResult.FAILED:
        return answer.text
    found = condition(daemonset, DEGRADED)
    of_a_pod = found.is_current and (found.reason == TEMPLATE_REFUSED or found.message.startswith(_CREATING))
    trusted = answer.result is CheckResult.SKIPPED or is_quota_exceeded(found.message)
    return found.message if of_a_pod and trusted else ""


def _forecast_of(
    snapshot: Snapshot,
    rollout: RolloutState,
    waves: int,
    refused: TemplateRefused | None,
    pace: Pace | None,
    tell: Tell | None,
) -> Forecast:
    world = world_of(snapshot)
    if refused:
        world = replace(world, verdicts={rollout.revision.hash: refused}, ask_at=math.inf)
    failing = frozenset((one.pod.node, one.pod.hash) for one in snapshot.pods if trouble_of(one) is not None)
    hopeless, seconds = failing | port_waiters(rollout), pace.seconds if pace else 0.0
    return forecast(world, never_ready=hopeless, waves=waves, pace=seconds, tell=tell)


def _steps_and_checks(
    found: Forecast, waves: int, tell: Tell | None
) -> tuple[tuple[Later, ...], tuple[ForecastWarning, ...]]:
    try:
        return later_steps(found, waves, tell), ()
    except CommandError as error:
        return (), (ForecastWarning(name="Steps", result=CheckResult.WARNING, text=error.message, hints=error.hints),)


def _dry_run_checks(answer: DryRunAnswer, refusal: str) -> Iterator[ForecastWarning]:
    """The check of the dry run, and the controller's own failure where the dry run did not show it."""
    text = {
        CheckResult.OK: "server dry-run of the pod template",
        CheckResult.FAILED: f"the server refuses pods of this template: {answer.text}",
    }.get(answer.result, f"server dry-run of the pod template: {answer.text}")
    yield ForecastWarning(name="TemplateDryRun", result=answer.result, text=text)
    if refusal and answer.result is not CheckResult.FAILED:
        text = f"the server refuses the controller's pods: {refusal}"
        yield ForecastWarning(name=WRITES_FAIL, result=CheckResult.FAILED, text=text)


def _missing_rights(snapshot: Snapshot) -> Iterator[ForecastWarning]:
    lost = {"nodes": "nodes without a pod are not seen, selector and placement are not judged"}
    for one in snapshot.unread:
        text = f"no right to list {one.what}: {lost.get(one.what, 'the plan is made without them')}"
        yield ForecastWarning(name="MissingRights", result=CheckResult.WARNING, text=text)
