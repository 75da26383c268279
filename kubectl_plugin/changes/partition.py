"""Sets the partition (how many pods stay old), also by the number of nodes that may be updated."""

from __future__ import annotations

from controller.api import formats
from controller.api.formats import IntOrPercent, counted
from controller.planner.explanation import Explainer, NodeState
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
from kubectl_plugin.wording import between, command, new_nodes


def set_partition(snapshot: Snapshot, value: IntOrPercent, *, of_nodes: bool = False) -> Edit:
    """Keeps the pods of `value` nodes old or, with `of_nodes`, lets `value` nodes be updated. Raises CommandError
    (exit code 6) for OnDelete, and as `partition_for_nodes`."""
    present = settings_of(snapshot, "set the partition of").partition or 0
    before = rollout_after(snapshot)
    desired = _desired(snapshot, before)
    wanted = partition_for_nodes(snapshot, value, desired) if of_nodes else value
    if wanted == present:
        new = "" if desired is None else f" ({new_nodes(wanted, desired)})"
        return Edit(result=f"already at partition {wanted}{new}", operations=())
    draft = Draft(snapshot.document)
    draft.set(wanted, *ROLLING, "partition")
    after = rollout_after(snapshot, draft.operations)
    details, warnings = outcome(snapshot, before, after) if before and after else ((), ())
    misread = None if of_nodes else misread_caution(snapshot, wanted, desired)
    return Edit(
        result=f"partition {present} -> {wanted}",
        operations=draft.operations,
        details=details,
        warnings=(*([misread] if misread else []), *cautions(snapshot, *warnings)),
    )


def partition_for_nodes(snapshot: Snapshot, updated: IntOrPercent, desired: int | None) -> IntOrPercent:
    """The partition that lets `updated` of the `desired` nodes be updated. Raises CommandError (exit code 6) for a
    number if the count of nodes is unknown or 0: computed from 0 nodes, it would allow all nodes that join later."""
    if isinstance(updated, str):
        return f"{100 - int(updated.removesuffix('%'))}%"
    if not desired:
        why = "" if desired is None else ": no node is eligible now"
        raise CommandError(
            f"it is not known how many nodes should run {snapshot.key.name}{why}",
            hints=("set-partition takes the partition itself: the number of pods that stay old",),
            exit_code=ExitCode.REFUSED,
        )
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


def desired_of(snapshot: Snapshot) -> int | None:
    """How many nodes should run a pod; without the right to list nodes, the controller's count for this spec."""
    return _desired(snapshot, rollout_after(snapshot) if snapshot.nodes is not None else None)


def _desired(snapshot: Snapshot, rollout: RolloutState | None) -> int | None:
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    if snapshot.nodes is not None and rollout is not None:
        return rollout.budget.desired
    counted = status is not None and status.observed_generation >= daemonset.generation
    return status.desired_number_scheduled if status is not None and counted else None


def misread_caution(snapshot: Snapshot, value: IntOrPercent, desired: int | None) -> Caution | None:
    """A caution if the partition lets none of the `desired` nodes be updated, which is rarely intended."""
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


def outcome(
    snapshot: Snapshot, before: RolloutState, after: RolloutState
) -> tuple[tuple[str, ...], tuple[Caution, ...]]:
    """What the change from `before` to `after` lets happen, and what to be careful about."""
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
    return tuple(lines), _failing_caution(before, revision)


def _raised_caution(snapshot: Snapshot, updated: int, revision: str) -> Caution:
    already, back = counted(updated, "node", "already runs"), "it" if updated == 1 else "them"
    return Caution(
        text=f"{already} {revision}; raising the partition does not move {back} back", hints=way_back(snapshot)
    )


def _failing_caution(rollout: RolloutState, revision: str) -> tuple[Caution, ...]:
    explainer = Explainer(rollout)
    nodes = [one.name for one in rollout.in_update_order if explainer.explain(one).state is NodeState.FAILING]
    if not nodes:
        return ()
    verb = "is" if len(nodes) == 1 else "are"
    return (Caution(text=f"{between(nodes)} {verb} failing on {revision}"),)
