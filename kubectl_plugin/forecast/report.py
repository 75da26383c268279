"""The plan of a rollout: forecast, later steps, estimated duration and checks.

As a document it has `apiVersion: kruise-ds/v1` and `kind: RolloutPlan`. Fields are added, never renamed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from statistics import median
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, RollingUpdate
from controller.api.formats import IntOrPercent
from controller.api.names import DEGRADED, TEMPLATE_REFUSED, WRITES_FAIL, is_quota_exceeded
from controller.api.objects import JSONObject, Value
from controller.planner.actions import ProbeTemplate
from controller.planner.nodes import NodeInfo
from controller.planner.pod_template import pod_name
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.world import TemplateRefused, World
from kubectl_plugin.changes.edit import number_of
from kubectl_plugin.forecast.forecast import Forecast, finished, forecast_by_wave, left_to_update
from kubectl_plugin.forecast.simulate import port_waiters, world_after_waiting
from kubectl_plugin.forecast.warnings import PlanCheck, PreflightResult, warnings_of
from kubectl_plugin.rollout.document import document
from kubectl_plugin.rollout.in_place import How, Ways, ways_of
from kubectl_plugin.rollout.nodes import NodeRow, failure_of
from kubectl_plugin.rollout.snapshot import PodDetail, Snapshot
from kubectl_plugin.rollout.steps import at_step
from kubectl_plugin.rollout.survey import NodeSurvey, condition, forecast_world, survey

_LAST: Final = 5
"""Number of pods that the pace is measured by; older ones may have had other images."""


class Pace(Value):
    seconds: float
    """Median seconds from a pod's creation, or its update in place, until it is ready."""
    nodes: int


def pace_of(pods: Iterable[PodDetail], revision_hash: str) -> Pace | None:
    """The pace of the newest ready pods of the revision, or of any revision if it has none. Restarted pods are left
    out, because they only record when they last became ready; pods updated in place record how long that took."""
    timed = [detail for detail in pods if detail.pod.ready and detail.pod.ready_since is not None]
    timed = [one for one in timed if one.updated is not None or not one.restarts]
    chosen = [one for one in timed if one.pod.hash == revision_hash] or timed
    newest = sorted(chosen, key=_counted_from, reverse=True)[:_LAST]
    lengths = [max((one.pod.ready_since or 0.0) - _counted_from(one), 0.0) for one in newest]
    return Pace(seconds=median(lengths), nodes=len(lengths)) if lengths else None


def _counted_from(detail: PodDetail) -> float:
    return detail.pod.created if detail.updated is None else detail.updated


class Later(Value):
    step: int
    """Counted from 1."""
    nodes: IntOrPercent
    """How many nodes it allows, as written."""
    soak: str
    """The soak of the previous step, which has to end first; `approval` is that step's too."""
    approval: str
    waves: tuple[tuple[str, ...], ...]
    rest: tuple[str, ...]
    """Nodes beyond the computed waves, in update order."""


def later_steps(found: Forecast, waves: int) -> Generator[int, None, tuple[Later, ...]]:
    """The later steps, each as if the one before had finished with all pods available. `waves` includes those of
    `found`. Yields the number of waves so far."""
    left, rollout, grouping = waves - len(found.waves), found.end, not found.rest
    rolling, steps, counted = rollout.rolling_update, rollout.step_progress, set(found.rest)
    if rolling is None or rollout.stopped or steps is None:
        return ()
    number, later = steps.step + 1, list[Later]()
    while number <= steps.count:
        grouping = grouping and left > 0
        if not grouping:
            left_then = left_to_update(rollout_state(at_step(rollout.world, number)))
            names = tuple(node for node in left_then if node not in counted)
            counted.update(names)
            later.append(_later(rolling, number, (), names))
            number += 1
            continue
        then = yield from forecast_by_wave(at_step(_when_finished(rollout), number), waves=left)
        last = steps.count if then.end.step_progress is None else then.end.step_progress.step
        for one in range(number, last + 1):
            grouped = tuple(tuple(move.node for move in wave.moves) for wave in then.waves if wave.step == one)
            later.append(_later(rolling, one, grouped, then.rest if one == last else ()))
        left, rollout, grouping, number = left - len(then.waves), then.end, not then.rest, last + 1
        counted = set(then.rest)
    return tuple(later)


def _later(rolling: RollingUpdate, number: int, waves: tuple[tuple[str, ...], ...], rest: tuple[str, ...]) -> Later:
    before, step = rolling.steps[number - 2 : number]
    return Later(step=number, nodes=step.nodes, soak=before.soak, approval=before.approval, waves=waves, rest=rest)


def _when_finished(rollout: RolloutState) -> World:
    world = rollout.world
    passed = world_after_waiting(world, frozenset(), 0.0)
    world = world if passed is None else passed[0]
    return replace(world, now=world.now + world.daemonset.spec.min_ready_seconds + 1.0)


_CREATING: Final = "create pods"
"""Prefix of the controller's Degraded message after a failed create."""


class DryRunAnswer(Value):
    """The result of a server-side dry run that creates a pod of the planned template."""

    result: PreflightResult
    text: str = ""
    """The server's message, or why there was no dry run."""
    unknown_fields: bool = False
    """Whether the server does not know some fields of the template."""


class Effect(Value, rename="camel"):
    """What a plan does, in nodes, including those beyond the computed waves."""

    in_place: int
    recreated: int
    surged: int
    """The old pod is deleted after the new one is available."""
    beside: int
    """The new pod stays beside the old one, because it never becomes available."""
    created: int
    finished: int
    removed: int
    most_unavailable: int
    """The maximum number of nodes without an available pod; maxUnavailable counts for waves that are not computed."""


class RolloutPlan(Value, dict=True, gc=True):
    survey: NodeSurvey
    forecast: Forecast
    later: tuple[Later, ...]
    pace: Pace | None
    checks: tuple[PlanCheck, ...]
    tried: tuple[str, ...]
    """The settings being tried, in words; empty for the DaemonSet as it is."""
    refusal: str = ""
    """Why the server accepts no new pod; empty if unknown."""

    @property
    def number(self) -> int:
        return number_of(self.forecast.start.revision, self.forecast.start.history)

    @property
    def previous_number(self) -> int | None:
        """Number of the replaced revision; None if no node runs an old one."""
        outdated = any(node.old is not None for node in self.forecast.start.eligible)
        return self.survey.previous_number if outdated else None

    @property
    def unavailable(self) -> tuple[tuple[NodeRow, NodeInfo], ...]:
        """The nodes that use maxUnavailable now, each as a row and as the planner sees it."""
        idle = set(self.forecast.start.unavailable_nodes)
        nodes = {node.name: node for node in self.forecast.start.nodes if node.name in idle}
        return tuple((row, nodes[row.node]) for row in reversed(self.survey.rows) if row.node in nodes)

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
        """What is restarted in place, or why pods are re-created, without duplicates in node order."""
        moves = [move.detail for wave in self.forecast.waves for move in wave.moves if move.how is how]
        rest = self._rest.details if how is How.IN_PLACE else self._rest.hindrances if how is How.RECREATE else ()
        return tuple(dict.fromkeys(filter(None, (*moves, *rest))))

    @cached_property
    def _rest(self) -> Ways:
        rest = set(self.forecast.rest)
        return ways_of(self.forecast.end, lambda node: node.name in rest)

    @property
    def updated_nodes(self) -> int:
        """Nodes with the new revision at the end, including those beyond the computed waves."""
        there = sum(node.current is not None for node in self.forecast.end.eligible)
        return there + len(self.forecast.rest)

    @property
    def available_nodes(self) -> int:
        """Nodes with an available pod of any revision at the end."""
        return sum(node.available for node in self.forecast.end.eligible)

    @property
    def seconds(self) -> float | None:
        """Seconds until everything not held back is available; None if unknown."""
        if self.pace is None or not self.forecast.changes:
            return None
        waves = math.ceil(len(self.forecast.rest) / self.forecast.width)
        daemonset = self.survey.daemonset
        grace = daemonset.in_place_grace if self._rest.details else 0
        each = self.pace.seconds + grace + daemonset.spec.min_ready_seconds
        return self.forecast.seconds + waves * each


def plan_by_wave(
    snapshot: Snapshot, *, waves: int, answer: DryRunAnswer | None = None, tried: tuple[str, ...] = ()
) -> Generator[int, None, RolloutPlan]:
    """The plan for the DaemonSet in `snapshot`, with up to `waves` computed waves. `answer` is None without a dry
    run. Yields the number of waves so far. Raises ValueError for a spec that the planner cannot use."""
    surveyed, world = survey(snapshot), forecast_world(snapshot)
    pace = pace_of(snapshot.pods, surveyed.rollout.revision.hash)
    refusal = refusal_in(snapshot.daemonset, answer)
    if refusal:
        verdict = TemplateRefused(message=refusal, unknown_fields=answer is not None and answer.unknown_fields)
        world = replace(world, verdicts={surveyed.rollout.revision.hash: verdict}, retry_dry_run_at=math.inf)
    failing = frozenset(
        (detail.pod.node, detail.pod.hash) for detail in snapshot.pods if failure_of(detail) is not None
    )
    never_ready, seconds = failing | port_waiters(surveyed.rollout), pace.seconds if pace else 0.0
    found = yield from forecast_by_wave(world, never_ready=never_ready, waves=waves, pace=seconds)
    later = () if refusal else (yield from later_steps(found, waves))
    checks = [*(_dry_run_checks(answer, refusal) if answer is not None else ()), *_missing_rights(snapshot)]
    return RolloutPlan(
        survey=surveyed,
        forecast=found,
        later=later,
        pace=pace,
        checks=(*checks, *warnings_of(snapshot, found)),
        tried=tried,
        refusal=refusal,
    )


def with_answer(plan: RolloutPlan, answer: DryRunAnswer, *, waves: int) -> RolloutPlan:
    """`plan` with this dry-run result, recomputed if pods are refused now or were refused before."""
    if refusal_in(plan.survey.daemonset, answer):
        return finished(plan_by_wave(plan.survey.snapshot, waves=waves, answer=answer, tried=plan.tried))
    return replace(plan, checks=(*_dry_run_checks(answer, ""), *plan.checks))


def probe_of(rollout: RolloutState) -> ProbeTemplate | None:
    """The next new pod, for a dry run; None if no node should run one."""
    if not rollout.budget.desired:
        return None
    node = (rollout.outdated or rollout.eligible)[0].name
    name = pod_name(rollout.world.daemonset, node, ("dry-run",), None)
    return ProbeTemplate(node=node, name=name, revision=rollout.revision, strict=rollout.dry_run.strict)


def refusal_in(daemonset: DaemonSet, answer: DryRunAnswer | None) -> str:
    """Why no new pod can be created; empty if unknown. The controller's own failure may be fixed by now: it counts
    only for this very spec, and only without a dry run or for an exceeded quota, which a dry run does not notice."""
    if answer is None:
        return ""
    if answer.result is PreflightResult.FAILED:
        return answer.text
    found = condition(daemonset, DEGRADED)
    of_a_pod = found.is_current and (found.reason == TEMPLATE_REFUSED or found.message.startswith(_CREATING))
    trusted = answer.result is PreflightResult.SKIPPED or is_quota_exceeded(found.message)
    return found.message if of_a_pod and trusted else ""


def _dry_run_checks(answer: DryRunAnswer, refusal: str) -> Iterator[PlanCheck]:
    text = {
        PreflightResult.OK: "server dry-run of the pod template",
        PreflightResult.FAILED: f"the server refuses pods of this template: {answer.text}",
    }.get(answer.result, f"server dry-run of the pod template: {answer.text}")
    yield PlanCheck(name="TemplateDryRun", result=answer.result, text=text)
    if refusal and answer.result is not PreflightResult.FAILED:
        text = f"the server refuses the controller's pods: {refusal}"
        yield PlanCheck(name=WRITES_FAIL, result=PreflightResult.FAILED, text=text)


def _missing_rights(snapshot: Snapshot) -> Iterator[PlanCheck]:
    lost = {"nodes": "nodes without a pod are not seen, selector and placement are not judged"}
    for one in snapshot.unread:
        text = f"no right to list {one.what}: {lost.get(one.what, 'the plan is made without them')}"
        yield PlanCheck(name="MissingRights", result=PreflightResult.WARNING, text=text)


KIND: Final = "RolloutPlan"


def document_of(plan: RolloutPlan) -> JSONObject:
    """Nodes are in update order; times are seconds from now, null if unknown. `wouldChange` is what `--exit-code`
    reports, `rest` the nodes after `--waves`, and `kept` the nodes that do not get the revision, by blocker."""
    found, daemonset, budget = plan.forecast, plan.survey.daemonset, plan.forecast.start.budget
    rolling, pace, seconds = daemonset.rolling_update, plan.pace, plan.seconds
    estimate: JSONObject | None = None
    if pace is not None and seconds is not None:
        estimate = {"seconds": round(seconds), "perNodeSeconds": round(pace.seconds), "fromNodes": pace.nodes}
    fields: JSONObject = {
        "metadata": {"name": daemonset.name, "namespace": daemonset.namespace},
        "asked": list(plan.tried),
        "wouldChange": found.changes,
        "revision": {"from": plan.previous_number, "to": plan.number, "hash": found.start.revision.hash},
        "limits": {
            "strategy": "OnDelete" if rolling is None else "RollingUpdate",
            "desired": budget.desired,
            "partition": None if rolling is None else rolling.partition,
            "partitionNodes": budget.partition,
            "maxUnavailable": budget.max_unavailable,
            "maxSurge": budget.max_surge,
            "minReadySeconds": daemonset.spec.min_ready_seconds,
            "paused": daemonset.paused,
        },
        "unavailableNow": [
            {"node": row.node, "state": row.state.value, "why": row.why} for row, _ in plan.unavailable
        ],
        "waves": [
            {"number": number, **msgspec.to_builtins(wave), "begins": round(wave.begins)}
            for number, wave in enumerate(found.waves, start=1)
        ],
        "rest": {"nodes": list(found.rest), "perWave": found.width if found.rest else 0},
        "kept": {_camel(what): list(nodes) for what, nodes in found.kept_nodes.items()},
        "later": msgspec.to_builtins(plan.later),
        "end": {
            "phase": found.phase.value if found.phase else None,
            "updated": plan.updated_nodes,
            "available": plan.available_nodes,
            "desired": found.end.budget.desired,
        },
        "effect": msgspec.to_builtins(plan.effect),
        "estimate": estimate,
        "checks": msgspec.to_builtins(plan.checks),
    }
    return document(KIND, **fields)


def _camel(words: str) -> str:
    first, *rest = words.split("_")
    return "".join((first, *(word.capitalize() for word in rest)))
