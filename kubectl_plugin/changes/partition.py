"""Sets the partition (how many pods stay old) by the nodes that may be updated; promotes to the next step."""

from __future__ import annotations

from msgspec.structs import replace

from controller.api import formats
from controller.api.formats import IntOrPercent, counted
from controller.api.objects import Value
from controller.planner.explanation import NodeState
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Draft,
    Edit,
    cautions,
    revision_of,
    rollout_after,
    settings_of,
)
from kubectl_plugin.errors import CommandError, ExitCode
from kubectl_plugin.rollout.history import way_back
from kubectl_plugin.rollout.snapshot import Snapshot
from kubectl_plugin.rollout.steps import STEPS_ANNOTATION, Steps, steps_of
from kubectl_plugin.rollout.survey import survey
from kubectl_plugin.wording import between, command, new_nodes


def set_partition(snapshot: Snapshot, value: IntOrPercent) -> Edit:
    """Raises CommandError (exit code 6) for OnDelete."""
    present = settings_of(snapshot, "set the partition of").partition or 0
    if value == present:
        return Edit(result=f"already at partition {partition_words(snapshot, value)}", operations=())
    draft = Draft(snapshot.document)
    draft.set(value, *ROLLING, "partition")
    before, after = rollout_after(snapshot), rollout_after(snapshot, draft.operations)
    details, warnings = _outcome(snapshot, before, after) if before and after else ((), ())
    return Edit(
        result=f"partition {present} -> {value}",
        operations=draft.operations,
        details=details,
        warnings=cautions(snapshot, *warnings),
    )


def partition_for_nodes(snapshot: Snapshot, updated: IntOrPercent) -> IntOrPercent:
    """The partition that allows `updated` nodes. Raises CommandError (exit code 6) for a number if the count of nodes
    is unknown or 0: a partition computed from 0 nodes would allow all nodes that join later."""
    if isinstance(updated, str):
        return f"{100 - int(updated.removesuffix('%'))}%"
    desired = known_desired(snapshot)
    if not desired:
        raise _desired_error(snapshot, ": no node is eligible now")
    return max(desired - updated, 0)


def partition_of(snapshot: Snapshot) -> IntOrPercent:
    rolling = snapshot.daemonset.rolling_update
    return (rolling.partition if rolling is not None else None) or 0


def keeps_fewer(one: IntOrPercent, other: IntOrPercent, desired: int | None) -> bool:
    """Whether partition `one` keeps fewer old pods than `other`; if `desired` is unknown, whether it may."""
    if desired is None and isinstance(one, str) != isinstance(other, str):
        return other not in (0, "0%")
    fewer, more = (formats.scaled(each, desired or 100, round_up=False) for each in (one, other))
    return fewer < more


def known_desired(snapshot: Snapshot) -> int:
    """Like `desired_of`. Raises CommandError (exit code 6) if the number is unknown."""
    desired = desired_of(snapshot)
    if desired is None:
        raise _desired_error(snapshot)
    return desired


def desired_of(snapshot: Snapshot) -> int | None:
    """How many nodes should run a pod; without the right to list nodes, the controller's count for this spec."""
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    if snapshot.nodes is not None and (rollout := rollout_after(snapshot)) is not None:
        return rollout.budget.desired
    counted = status is not None and status.observed_generation >= daemonset.generation
    return status.desired_number_scheduled if status is not None and counted else None


def _desired_error(snapshot: Snapshot, why: str = "") -> CommandError:
    return CommandError(
        f"it is not known how many nodes should run {snapshot.key.name}{why}",
        hints=("set-partition takes the partition itself: the number of pods that stay old",),
        exit_code=ExitCode.REFUSED,
    )


def misread_caution(snapshot: Snapshot, value: IntOrPercent) -> Caution | None:
    """A caution if the partition allows no node, which is rarely intended."""
    desired = desired_of(snapshot)
    if not desired or (kept := formats.scaled(value, desired, round_up=False)) < desired:
        return None
    pods = value if isinstance(value, int) else kept
    there = "but" if pods > desired else "and"
    only = f"{'is' if desired == 1 else 'are'} only {counted(desired, 'node')}"
    instead = command("set-partition", snapshot.key, "0", to="to update all nodes")
    if desired < pods <= 100:
        instead = command("set-partition", snapshot.key, "--update", f"{pods}%", to=f"to update {pods}% of the nodes")
    return Caution(
        text=f"partition {value} keeps {counted(pods, 'pod')} OLD, {there} there {only}: nothing will be updated",
        hints=(instead, command("pause", snapshot.key, to="to stop updates")),
    )


def partition_words(snapshot: Snapshot, value: IntOrPercent) -> str:
    """`16 (8 of 24 new)`, or `16` if the number of nodes is unknown."""
    desired = desired_of(snapshot)
    return str(value) if desired is None else f"{value} ({new_nodes(value, desired)})"


def skipped_steps(snapshot: Snapshot, value: IntOrPercent) -> tuple[IntOrPercent, ...]:
    """The steps between the present partition and a smaller `value`; possible ones if `desired_of` is None."""
    present, desired = partition_of(snapshot), desired_of(snapshot)
    try:
        steps = steps_of(snapshot.daemonset.annotations, present, desired or 0)
    except CommandError:
        return ()  # `promote` reports an invalid list
    values = steps.values if steps is not None else ()
    return tuple(step for step in values if keeps_fewer(step, present, desired) and keeps_fewer(value, step, desired))


def _outcome(
    snapshot: Snapshot, before: RolloutState, after: RolloutState
) -> tuple[tuple[str, ...], tuple[Caution, ...]]:
    revision, desired, quota = revision_of(snapshot, after), after.budget.desired, after.quota
    updated = sum(node.current is not None for node in after.eligible)
    run = f"{counted(updated, 'node', 'runs', of=desired)} {revision}"
    if updated == desired:
        return (f"{run}; the next one may go to {quota} of them",), ()
    if updated > quota and quota < before.quota:
        words = f"no more than {counted(quota, 'node', of=desired)} may"
        return (words,), (_raised_caution(snapshot, updated, revision),)
    if updated > quota:
        return (f"{run} already, and no more may",), ()
    could = {node.name for node in before.target}
    more = [node.name for node in after.target if node.only_old and node.name not in could]
    gained = f" ({len(more)} more: {between(more)})" if more else ""
    lines = [f"up to {counted(quota, 'node', of=desired)} may now run {revision}{gained}"]
    if after.world.daemonset.paused:
        lines.append("it is paused: no node is updated before resume")
    return tuple(lines), _failing_caution(snapshot, revision)


def _raised_caution(snapshot: Snapshot, updated: int, revision: str) -> Caution:
    already, back = counted(updated, "node", "already runs"), "it" if updated == 1 else "them"
    return Caution(
        text=f"{already} {revision}; raising the partition does not move {back} back",
        hints=way_back(snapshot),
    )


def _failing_caution(snapshot: Snapshot, revision: str) -> tuple[Caution, ...]:
    nodes = [row.node for row in survey(snapshot).rows_in(NodeState.FAILING)]
    if not nodes:
        return ()
    verb = "is" if len(nodes) == 1 else "are"
    return (Caution(text=f"{between(nodes)} {verb} failing on {revision}"),)


_FULLY = "fully"


class Goal(Value):
    partition: IntOrPercent
    words: str = ""
    """`to step 3 of 4` or `fully`; empty if the partition is not a step."""

    @property
    def is_full(self) -> bool:
        return self.words == _FULLY


def steps_for_promotion(snapshot: Snapshot, desired: int) -> Steps | None:
    """None without steps. Raises CommandError (exit code 6) for OnDelete and for invalid steps."""
    rolling = settings_of(snapshot, "promote")
    return steps_of(snapshot.daemonset.annotations, rolling.partition, desired)


def goal_of(snapshot: Snapshot, steps: Steps | None, desired: int, *, to: IntOrPercent | None) -> Goal | None:
    """The next step, or partition `to`; None if the partition is already 0. Raises CommandError (exit code 6) if
    there are neither steps nor `to`, or if `to` would raise the partition."""
    present = settings_of(snapshot, "promote").partition or 0
    if to is not None:
        return _goal_of_partition(snapshot, steps, desired, to)
    if steps is None and formats.scaled(present, desired, round_up=False):
        raise _without_steps(snapshot, lower=formats.scaled(present, desired, round_up=False) // 2)
    if steps is None or steps.next is None:
        return None
    return _step_goal(steps, steps.next, desired)


def promote(snapshot: Snapshot, goal: Goal | None) -> Edit:
    if goal is None:
        return Edit(result="already promoted fully", operations=())
    edit = set_partition(snapshot, goal.partition)
    words = " ".join(("promoted", goal.words)).rstrip()
    return replace(edit, result=f"{words} ({edit.result})") if edit.operations else edit


def _goal_of_partition(snapshot: Snapshot, steps: Steps | None, desired: int, to: IntOrPercent) -> Goal | None:
    present = settings_of(snapshot, "promote").partition or 0
    kept, wanted = (formats.scaled(one, desired, round_up=False) for one in (present, to))
    if wanted > kept:
        raise CommandError(
            f"cannot promote {snapshot.key.name} to partition {to}: partition {present} lets more nodes update",
            hints=(command("set-partition", snapshot.key, str(to), to="to set it all the same"),),
            exit_code=ExitCode.REFUSED,
        )
    if not wanted:
        return Goal(partition=to, words=_FULLY) if kept else None
    return _step_goal(steps, to, desired) if steps is not None else Goal(partition=to)


def _step_goal(steps: Steps, value: IntOrPercent, desired: int) -> Goal:
    """Of steps that keep the same number of nodes, the last one counts."""
    passed = [formats.scaled(one, desired, round_up=False) for one in steps.values]
    kept = formats.scaled(value, desired, round_up=False)
    if kept not in passed:
        return Goal(partition=value)
    return Goal(partition=value, words=f"to step {len(passed) - passed[::-1].index(kept)} of {steps.count}")


def _without_steps(snapshot: Snapshot, lower: int) -> CommandError:
    steps = f"{STEPS_ANNOTATION}=90%,50%,0"
    return CommandError(
        f"{snapshot.key.name} has no steps: it has no annotation {STEPS_ANNOTATION}",
        hints=(
            command("annotate ads", snapshot.key, steps, to="to have steps", program="kubectl"),
            command("promote", snapshot.key, "--to", str(lower), to="or without steps"),
        ),
        exit_code=ExitCode.REFUSED,
    )
