"""The update strategy counted in nodes, and the budget that is in use, as `status` prints them for programs."""

from __future__ import annotations

from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.objects import JSON, Value, value_at
from controller.planner.limits import Budget, budget_of
from kubectl_plugin.report.snapshot import Snapshot
from kubectl_plugin.report.survey import Survey


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
