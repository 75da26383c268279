"""Whether a rollout may go on: its step is finished, nothing fails, and it has been quiet long enough."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, Phase
from controller.api.formats import IntOrPercent, counted
from controller.api.objects import Value, epoch
from controller.planner.explanation import NodeState
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.rollout.reasons import awaited_nodes_words, reason_of
from kubectl_plugin.rollout.status import is_degraded_for_long
from kubectl_plugin.rollout.steps import Steps
from kubectl_plugin.rollout.survey import Survey, world_of
from kubectl_plugin.units import short_duration


class Release(Value):
    """The nodes freed by a lower partition, in update order."""

    before: int
    """In nodes, as is `keeps`."""
    keeps: int
    after: IntOrPercent
    """The lower partition as written."""
    is_step: bool
    nodes: tuple[str, ...]


def release_of(survey: Survey, steps: Steps | None) -> Release | None:
    """None if a lower partition frees no node: rollingUpdate.selector excludes all old ones."""
    before = survey.rollout.budget.partition
    if not before:
        return None
    step = steps.next if steps is not None else None
    after = 0 if step is None else step
    rollout = rollout_state(world_of(survey.snapshot, with_partition(survey.daemonset, after)))
    freed = tuple(node.name for node in rollout.target if node.current is None)
    if not freed:
        return None
    return Release(before=before, keeps=rollout.budget.partition, after=after, is_step=step is not None, nodes=freed)


def with_partition(daemonset: DaemonSet, partition: IntOrPercent) -> DaemonSet:
    strategy, rolling = daemonset.spec.update_strategy, daemonset.rolling_update
    if rolling is None:
        return daemonset
    strategy = replace(strategy, rolling_update=replace(rolling, partition=partition))
    return replace(daemonset, spec=replace(daemonset.spec, update_strategy=strategy))


_NAMED: Final = 3


class PromotionBlockReason(StrEnum):
    BLIND = "blind"
    """The user lacks the right to read what the decision needs."""
    UNSEEN = "unseen"
    PAUSED = "paused"
    STALLED = "stalled"
    UNFINISHED = "unfinished"
    FAILING = "failing"
    SOAKING = "soaking"


class PromotionBlock(Value):
    why: PromotionBlockReason
    text: str


def why_blocked(seen: Survey, steps: Steps | None, *, soak: float) -> PromotionBlock | None:
    """None if the next step may be taken; unreadable objects block it. `soak`: quiet time required, in seconds."""
    name, counts, done = seen.snapshot.key.name, seen.counts, seen.standing.done
    step = f"step {steps.index}" if steps is not None and steps.index else "the update"
    nodes, failing = f"{counted(done, 'node', of=counts.target)} updated", _failing(seen)
    waits = filter(None, (seen.standing.refused, awaited_nodes_words(seen)))
    unfinished = f"{step} is not finished: {', '.join((nodes, *failing, *waits))}"
    why, text = PromotionBlockReason.UNFINISHED, unfinished
    if unread := [one.what for one in seen.snapshot.unread]:
        kinds = " and ".join(filter(None, (", ".join(unread[:-1]), unread[-1])))
        why, text = PromotionBlockReason.BLIND, f"cannot see whether {step} is finished: no right to list {kinds}"
    elif not seen.standing.observed:
        why = PromotionBlockReason.UNSEEN
        text = f"the controller has not acted on the newest change of {name} yet"
    elif seen.phase is Phase.STALLED and (seen.standing.refused or seen.certain):
        why = PromotionBlockReason.STALLED
    elif seen.phase is Phase.DEGRADED and is_degraded_for_long(seen.snapshot):
        waited = short_duration(seen.daemonset.progress_deadline)
        why = PromotionBlockReason.STALLED
        text = f"{step} is not finished: {nodes}, {reason_of(seen).text} for longer than {waited}"
    elif seen.daemonset.paused:
        why, text = PromotionBlockReason.PAUSED, f"{name} is paused: {nodes}"
    elif done < counts.target or seen.standing.outdated:
        pass
    elif failing:
        why, text = PromotionBlockReason.FAILING, f"{step} is finished, but not well: {', '.join(failing)}"
    elif not seen.controller_agrees:
        text = f"{step} looks finished, but the controller does not say so yet"
    elif (quiet := seen.snapshot.now - quiet_since(seen)) < soak:
        why = PromotionBlockReason.SOAKING
        text = f"{step} is finished, and quiet for {short_duration(quiet)} of {short_duration(soak)}"
    else:
        return None
    return PromotionBlock(why=why, text=text)


def quiet_since(seen: Survey) -> float:
    """Unix time of the last progress or, if later, of an updated pod becoming ready, even after a restart."""
    progress = epoch(seen.record.last_progress_time) or 0.0
    ready = (one.current.ready_since for one in seen.rollout.nodes if one.current is not None)
    return max(progress, *(moment or 0.0 for moment in ready), 0.0)


def _failing(seen: Survey) -> tuple[str, ...]:
    """`c-04 CrashLoopBackOff` for each failing node that has, or will get, the current revision."""
    target = {node.name for node in seen.rollout.target}
    told = [
        f"{row.node} {row.why if row.failure is None else row.failure.reason}"
        for row in seen.in_update_order
        if row.state is NodeState.FAILING and (row.revision == seen.current or row.node in target)
    ]
    more = len(told) - _NAMED
    return (*told[:_NAMED], *([f"{more} more failing"] if more > 0 else []))
