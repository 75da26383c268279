"""The update strategy counted in nodes, and the budget that is in use, as `status` prints them for programs.

What is wrong with a rollout, as `status` prints it for programs, completed with the last line of a container's
log.

`RolloutStatus`: what `status -o json` prints, one documented record of a rollout.

Within `kruise-ds/v1` keys are only added, never renamed.

The words behind the phase in the first line of `status`.

Reports for programs: documents with a kind and an API version of their own. Keys are only ever added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.formats import counted
from controller.api.names import INVALID_SPEC, WRITES_FAIL
from controller.api.objects import JSON, JSONObject, Key, Value, epoch, value_at
from controller.planner.explanation import NodeState
from controller.planner.rollout_state import Budget, budget_of
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.gitops import pause_of
from kubectl_plugin.rollout.images import images_of
from kubectl_plugin.rollout.nodes import NodeCounts, NodeRow, Preparing
from kubectl_plugin.rollout.reasons import PhaseReason, reason_of, refused_writes_words
from kubectl_plugin.rollout.snapshot import PullCounts, Snapshot, counts_of
from kubectl_plugin.rollout.status import Brief
from kubectl_plugin.rollout.steps import Steps, steps_of
from kubectl_plugin.rollout.survey import Survey, stated_rollout
from kubectl_plugin.units import short_duration


class Strategy(Value, rename="camel"):
    """The update strategy. Limits are numbers of nodes, also where the spec has percentages."""

    type: str
    rolling_update_type: str | None
    max_unavailable: int
    max_surge: int
    partition: int
    paused: bool
    selector: JSON
    """As it is written, because a program may copy it."""


class BudgetUse(Value, rename="camel"):
    """How much of maxUnavailable is in use, or of maxSurge where that is set."""

    max: int
    used: int | None
    """None if only the pods would tell."""
    by: tuple[str, ...]
    """The nodes that use it, in update order."""


def strategy_of(snapshot: Snapshot, budget: Budget) -> Strategy:
    """`budget`: the limits in nodes."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    return Strategy(
        type=daemonset.spec.update_strategy.type or "RollingUpdate",
        rolling_update_type=(rolling.rolling_update_type or "Standard") if rolling else None,
        max_unavailable=budget.max_unavailable,
        max_surge=budget.max_surge,
        partition=budget.partition,
        paused=daemonset.paused,
        selector=value_at(snapshot.document, "spec", "updateStrategy", "rollingUpdate", "selector"),
    )


def budget_use(survey: Survey) -> BudgetUse:
    rollout = survey.rollout
    by = rollout.mid_surge if rollout.surging else rollout.unavailable_nodes
    return BudgetUse(max=rollout.budget.most, used=len(by), by=tuple(sorted(by)))


def stated_budget_use(limits: Budget, counts: DaemonSetStatus) -> BudgetUse:
    """By the controller's counts: which nodes use it is unknown, and how much of maxSurge is in use, too."""
    if limits.max_surge:
        return BudgetUse(max=limits.max_surge, used=None, by=())
    unavailable = max(counts.desired_number_scheduled - counts.number_available, 0)
    return BudgetUse(max=limits.max_unavailable, used=unavailable, by=())


def limits_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits in nodes; all 0 where the spec's cannot be read."""
    try:
        return budget_of(daemonset, desired)
    except ValueError:
        return Budget(desired=desired, max_unavailable=0, max_surge=0, partition=0, burst=0)


Run: TypeAlias = tuple[Key, str, int]
"""A pod, one of its containers, and how often that container was restarted."""

MOST: Final = 3
"""How many problems are completed from logs."""
_KUBELET: Final = "back-off "
"""How the kubelet's message for a waiting container begins; it does not say why the container ended."""


class Problem(Value, rename="camel", kw_only=True):
    """A pod that will not become ready by itself; without node and pod, an error that the server answers to the
    controller."""

    node: str = ""
    pod: str = ""
    container: str = ""
    reason: str
    restarts: int = 0
    exit_code: int | None = None
    message: str
    revision: int | None = None


def problems_of(survey: Survey) -> tuple[Problem, ...]:
    troubled = [(row, row.trouble) for row in survey.in_update_order if row.trouble is not None]
    troubled.sort(key=lambda one: one[0].state is not NodeState.FAILING)
    words = refused_writes_words(survey.daemonset)
    writes = (Problem(reason=WRITES_FAIL, message=words),) if words else ()
    pods = (
        Problem(node=row.node, pod=row.pod.pod.name if row.pod else "", revision=row.revision, **asdict(trouble))
        for row, trouble in troubled
    )
    return (*writes, *pods)


def runs_without_words(namespace: str, problems: Sequence[Problem]) -> list[Run]:
    return [_run(namespace, one) for one in problems[:MOST] if _lacks_words(one)]


def with_words(namespace: str, problems: Sequence[Problem], found: Mapping[Run, str]) -> tuple[Problem, ...]:
    """The problems with `found` in place of the kubelet's message, which gives no reason."""
    return tuple(
        replace(one, message=found.get(_run(namespace, one), "")) if _lacks_words(one) else one for one in problems
    )


def _lacks_words(problem: Problem) -> bool:
    ran = problem.exit_code is not None and problem.restarts > 0
    return ran and (not problem.message or problem.message.startswith(_KUBELET))


def _run(namespace: str, problem: Problem) -> Run:
    return Key(namespace, problem.pod), problem.container, problem.restarts


class RevisionNumbers(Value, rename="camel"):
    current: int | None
    """None without the right to list the revisions."""
    hash: str
    previous: int | None
    """The newest older one that nodes still have; None for the first revision."""

    @property
    def shown(self) -> str:
        """The current number, or `?`, for people."""
        return "?" if self.current is None else str(self.current)


class ImageChange(Value, rename={"before": "from", "after": "to"}):
    """The images of one container. None: the container does not exist on that side."""

    before: str | None
    after: str | None


class Group(Value, rename="camel"):
    key: str
    nodes: int
    updated: int


class PauseNote(Value, rename="camel"):
    """Who paused it, when and why; the texts are empty if that was not recorded."""

    at: str
    by: str
    reason: str


class RolloutStatus(Value, rename="camel", kw_only=True):
    api_version: str
    kind: str
    namespace: str
    name: str
    generation: int
    phase: Phase
    since: str | None
    """When that phase began."""
    reason: str
    message: str
    revision: RevisionNumbers
    images: Mapping[str, ImageChange] = {}
    """The images that change, by container."""
    strategy: Strategy
    nodes: NodeCounts
    budget: BudgetUse
    groups: tuple[Group, ...] = ()
    """Empty without the right to list nodes."""
    problems: tuple[Problem, ...] = ()
    """Writes that fail first, then nodes with a pod of the new revision, in update order."""
    preparing: tuple[Preparing, ...] = ()
    """Pods that the preDelete hook holds, in update order; empty without the right to read pods."""
    steps: Steps | None
    started_at: str | None
    last_progress_at: str | None
    completed_at: str | None
    paused: PauseNote | None
    images_ahead: PullCounts | None = None
    """How many nodes have the images that are pulled ahead of the update; None if none are."""
    unreadable: tuple[str, ...]
    """What may not be read, and is therefore missing here."""

    @property
    def document(self) -> JSONObject:
        """The same as JSON."""
        made: JSONObject = msgspec.to_builtins(self)
        return made


def rollout_status(brief: Brief) -> RolloutStatus:
    """The status. Where the nodes cannot be listed one by one it lacks what only they tell; the
    counts still add up."""
    if brief.survey is None:
        return _stated(brief)
    survey, rollout = brief.survey, brief.survey.rollout
    document = _document(
        brief,
        survey.recorded,
        rollout.budget,
        rollout.revision.hash,
        reason=reason_of(survey),
        use=budget_use(survey),
    )
    return replace(
        document,
        images=_images(survey),
        images_ahead=counts_of(survey.pulls.values()) if survey.pulls else None,
        groups=_groups(survey.rows) if survey.snapshot.nodes is not None else (),
        problems=problems_of(survey),
        preparing=tuple([one for row in survey.in_update_order for one in row.preparing]),
    )


def _stated(brief: Brief) -> RolloutStatus:
    """The status by the controller's own account, for users who may not read pods and for specs
    that cannot be used."""
    daemonset, counts = brief.daemonset, brief.daemonset.status or DaemonSetStatus()
    limits = limits_of(daemonset, brief.counts.desired)
    reason, use = PhaseReason(word="AsStated", text=brief.why), stated_budget_use(limits, counts)
    return _document(brief, stated_rollout(daemonset), limits, counts.update_revision, reason=reason, use=use)


def _document(
    brief: Brief, rollout: Rollout, limits: Budget, hash_: str, *, reason: PhaseReason, use: BudgetUse
) -> RolloutStatus:
    """`rollout`: the controller's record."""
    snapshot, daemonset = brief.snapshot, brief.daemonset
    return RolloutStatus(
        api_version=API_VERSION,
        kind="RolloutStatus",
        namespace=daemonset.namespace,
        name=daemonset.name,
        generation=daemonset.generation,
        phase=brief.phase,
        since=rollout.last_transition_time if rollout.phase == brief.phase else None,
        reason=reason.word,
        message=reason.text,
        revision=RevisionNumbers(current=brief.revision, hash=hash_, previous=brief.previous_number),
        strategy=strategy_of(snapshot, limits),
        nodes=brief.counts,
        budget=use,
        steps=_steps(snapshot, limits.desired),
        started_at=rollout.start_time,
        last_progress_at=rollout.last_progress_time,
        completed_at=rollout.completion_time,
        paused=_paused(snapshot, rollout),
        unreadable=snapshot.unread_words,
    )


def _groups(rows: Iterable[NodeRow]) -> tuple[Group, ...]:
    """Groups by key; nodes that should not run the pod belong to none."""
    updated: dict[str, list[bool]] = {}
    for row in rows:
        if row.state is not NodeState.EXCLUDED:
            updated.setdefault(row.group, []).append(row.state in (NodeState.UPDATED, NodeState.UNPLANNED))
    return tuple(Group(key=key, nodes=len(of_it), updated=sum(of_it)) for key, of_it in sorted(updated.items()))


def _images(survey: Survey) -> dict[str, ImageChange]:
    if survey.previous_revision is None:
        return {}
    before = images_of(survey.previous_revision.revision.template)
    after = images_of(survey.daemonset.spec.template)
    return {
        name: ImageChange(before=before.get(name), after=after.get(name))
        for name in {**after, **before}
        if before.get(name) != after.get(name)
    }


def _steps(snapshot: Snapshot, desired: int) -> Steps | None:
    """None also for an invalid list of steps: `promote` says what is wrong with it."""
    daemonset, rolling = snapshot.daemonset, snapshot.daemonset.rolling_update
    if rolling is None:
        return None
    try:
        return steps_of(daemonset.annotations, rolling.partition, desired)
    except (CommandError, ValueError):
        return None


def _paused(snapshot: Snapshot, rollout: Rollout) -> PauseNote | None:
    """`rollout`: the controller's record."""
    if not snapshot.daemonset.paused:
        return None
    action = pause_of(snapshot)
    if action is None:
        since = rollout.last_transition_time if rollout.phase == Phase.PAUSED else None
        return PauseNote(at=since or "", by="", reason="")
    return PauseNote(at=action.at, by=action.by, reason=action.reason)


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


API_VERSION: Final = "kruise-ds/v1"


def document(kind: str, **fields: JSON) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}
