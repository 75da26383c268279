"""What the status should say (behaviour.md §16). Counts are of nodes, not of pods."""

from __future__ import annotations

from collections.abc import Iterable

from controller.api import selector
from controller.api.base import JSON, Value
from controller.api.daemonset import Columns, DaemonSet
from controller.api.wellknown import (
    AVAILABLE,
    DEGRADED,
    FEATURES_PENDING,
    INVALID_SPEC,
    PROGRESSING,
    TEMPLATE_REFUSED,
)
from controller.planner.board import Board
from controller.planner.eligibility import Fit


class Verdict(Value):
    """A condition without its times: these depend on what was written before."""

    type: str
    status: str
    reason: str
    message: str


class Blocker(Value):
    """What a rollout waits for, as a condition's reason and in words."""

    reason: str
    text: str


class Counts(Value):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0


class Status(Value):
    """The status as it should read. Fields that are None stay as they are."""

    observed_generation: int | None
    counts: Counts | None
    revision_hash: str | None
    collision_count: int | None
    columns: Columns
    conditions: tuple[Verdict, ...]

    @property
    def settled(self) -> bool:
        """Every node has an available pod of the current revision: good news, not to be kept waiting."""
        counts = self.counts
        if counts is None:
            return True
        return counts.desired_number_scheduled == counts.number_available == counts.updated_number_scheduled


def count(board: Board) -> Counts:
    """One pod stands for a node: a live one before a dying one; while surging the old one.

    A dying pod still counts as scheduled.
    """
    hash_ = board.revision.hash
    current = misscheduled = ready = updated = available = 0
    for slot in board.slots:
        if not slot.pods or slot.fit is None:
            continue
        if slot.fit is not Fit.RUN:
            misscheduled += 1
            continue
        current += 1
        first = slot.old or slot.current or slot.pods[0]
        updated += first.hash == hash_
        ready += first.ready and not first.ended
        available += slot.old_available if first is slot.old else slot.current_available
    desired = board.budget.desired
    return Counts(
        desired_number_scheduled=desired,
        current_number_scheduled=current,
        number_misscheduled=misscheduled,
        number_ready=ready,
        updated_number_scheduled=updated,
        number_available=available,
        number_unavailable=desired - available,
    )


def status_of(board: Board, *, observed: bool, pending: tuple[str, ...], blocker: Blocker | None) -> Status:
    """`observed`: nothing was left to do or to wait for before the update, so the generation counts as seen."""
    world = board.world
    counts = count(board)
    return Status(
        observed_generation=world.daemonset.generation if observed else None,
        counts=counts,
        revision_hash=board.revision.hash,
        collision_count=world.collisions or None,
        columns=columns_of(world.daemonset),
        conditions=(
            _progressing(board, counts, blocker),
            _available(counts),
            _degraded(board),
            *pending_condition(pending),
        ),
    )


def refused_status(daemonset: DaemonSet, problem: str, pending: tuple[str, ...]) -> Status:
    """For a spec that nothing can be done with: the counts stay as they were."""
    return Status(
        observed_generation=None,
        counts=None,
        revision_hash=None,
        collision_count=None,
        columns=columns_of(daemonset),
        conditions=(
            Verdict(
                type=PROGRESSING, status="False", reason=INVALID_SPEC, message="nothing is done until it is mended"
            ),
            Verdict(type=DEGRADED, status="True", reason=INVALID_SPEC, message=problem),
            *pending_condition(pending),
        ),
    )


def pending_condition(features: tuple[str, ...]) -> tuple[Verdict, ...]:
    """Says which fields of the spec are accepted but not acted on yet; absent when there are none."""
    if not features:
        return ()
    message = "; ".join(features)
    return (Verdict(type=FEATURES_PENDING, status="True", reason="NotSupportedYet", message=message),)


def _progressing(board: Board, counts: Counts, blocker: Blocker | None) -> Verdict:
    updated, desired = counts.updated_number_scheduled, counts.desired_number_scheduled
    progress = f"{updated} of {desired} nodes have a pod of revision {board.revision.hash}"
    rolling = board.rolling_update
    if updated >= desired:
        return Verdict(type=PROGRESSING, status="True", reason="RolloutComplete", message=progress)
    if rolling is None:
        return Verdict(
            type=PROGRESSING, status="True", reason="OnDelete", message=f"{progress}; delete pods to update"
        )
    if rolling.paused and board.older:
        return Verdict(type=PROGRESSING, status="Unknown", reason="Paused", message=f"{progress}; paused")
    if (board.older or board.progressive) and board.budget.partition and updated >= board.quota:
        text = f"{progress}; {_kept_by_partition(board, counts)}"
        return Verdict(type=PROGRESSING, status="True", reason="PartitionReached", message=text)
    if blocker is not None:
        text = f"{progress}; {blocker.text}"
        return Verdict(type=PROGRESSING, status="True", reason=blocker.reason, message=text)
    text = "; ".join(filter(None, (progress, _used_up(board))))
    return Verdict(type=PROGRESSING, status="True", reason="Updating", message=text)


def _used_up(board: Board) -> str:
    """Which limit the update waits for; empty while it has room."""
    if board.surging:
        used, most = board.surge_in_use, board.budget.max_surge
        return f"{used} nodes are in the middle of their surge, maxSurge is {most}" if used >= most else ""
    used, most = board.unserved, board.budget.max_unavailable
    return f"{used} nodes count as unavailable, maxUnavailable is {most}" if used >= most else ""


def _kept_by_partition(board: Board, counts: Counts) -> str:
    partition = f"partition {board.budget.partition}"
    waiting = counts.desired_number_scheduled - counts.current_number_scheduled
    if not board.progressive or not waiting:
        return f"{partition} keeps the others on the old revision"
    return f"{partition} with partitionedScaling leaves {waiting} without a pod"


def _available(counts: Counts) -> Verdict:
    missing, desired = counts.number_unavailable, counts.desired_number_scheduled
    if not missing:
        return Verdict(
            type=AVAILABLE, status="True", reason="AllAvailable", message=f"{desired} of {desired} nodes are served"
        )
    text = f"{missing} of {desired} nodes have no available pod"
    return Verdict(type=AVAILABLE, status="False", reason="PodsUnavailable", message=text)


def _degraded(board: Board) -> Verdict:
    refusal = board.world.verdicts.get(board.revision.hash)
    if refusal:
        return Verdict(type=DEGRADED, status="True", reason=TEMPLATE_REFUSED, message=refusal)
    if board.world.trouble:
        return Verdict(type=DEGRADED, status="True", reason="WritesFail", message=board.world.trouble)
    return Verdict(type=DEGRADED, status="False", reason="AsExpected", message="")


def columns_of(daemonset: DaemonSet) -> Columns:
    """The strings that `kubectl get` prints (D19); `<none>` where there is nothing."""
    spec = daemonset.spec.template.get("spec")
    fields = spec if isinstance(spec, dict) else {}
    containers = fields.get("containers")
    listed = containers if isinstance(containers, list) else []
    wanted = fields.get("nodeSelector")
    labels = wanted if isinstance(wanted, dict) else {}
    return Columns(
        node_selector=_joined(f"{key}={value}" for key, value in sorted(labels.items())),
        containers=_joined(_field(one, "name") for one in listed),
        images=_joined(_field(one, "image") for one in listed),
        selector=selector.as_text(daemonset.spec.selector),
    )


def _field(container: JSON, name: str) -> str:
    value = container.get(name) if isinstance(container, dict) else None
    return value if isinstance(value, str) else ""


def _joined(parts: Iterable[str]) -> str:
    return ",".join(parts) or "<none>"
