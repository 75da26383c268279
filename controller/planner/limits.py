"""How many nodes at once: the limits of a pass in nodes and pods (`Budget`); for `rollingUpdate.topology`, how many
nodes of one failure domain, and how many domains, may be disrupted (`Domains`); and for `rollingUpdate.steps`, how
many nodes may hold the current revision, and whether the next step may begin (`StepProgress`).

A node is disrupted when it has no available pod or, while surging, two pods. It counts against its own domain
whatever the reason. Only nodes that are disrupted because of the update count against `maxDomains`.

The step is read from the status, so a step is recorded before any node is updated for it: a restart, a fail-over or a
lost answer may repeat a step, and never skips one. Without a status the rollout begins again at the first step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil, inf

from msgspec.structs import replace

from controller.api import formats
from controller.api.daemonset import DaemonSet, RollingUpdate, Rollout, RolloutStep, Topology
from controller.api.names import APPROVE_ANNOTATION
from controller.api.objects import Value, epoch, rfc3339
from controller.planner.blocker_texts import WaitReason
from controller.planner.failure import is_overridden
from controller.planner.nodes import NodeInfo
from controller.planner.world import ClockOffset

DEFAULT_BURST = 250
"""Pods that one pass creates or deletes at most; the native controller's BurstReplicas."""


class Budget(Value):
    """The limits of a pass, in nodes or pods. Percentages are of `desired`."""

    desired: int
    max_unavailable: int
    max_surge: int
    partition: int
    burst: int
    leave_out: int = 0
    """Unreachable nodes that are not waited for."""

    @property
    def surging(self) -> bool:
        return self.max_surge > 0

    @property
    def limit(self) -> str:
        return "maxSurge" if self.surging else "maxUnavailable"

    @property
    def limit_reason(self) -> WaitReason:
        return WaitReason.MAX_SURGE if self.surging else WaitReason.MAX_UNAVAILABLE

    @property
    def most(self) -> int:
        return self.max_surge if self.surging else self.max_unavailable


def budget_of(daemonset: DaemonSet, desired: int) -> Budget:
    """The limits of the spec as numbers; maxUnavailable and maxSurge round up, the others down.
    maxUnavailable is 1 if both limits come to 0, so that a rollout can go on; maxSurge is 1 if it is unset and the
    type is `Surging`; burst is at least 1. A percentage of maxSurge means surging even if no node is desired."""
    rolling = daemonset.rolling_update or RollingUpdate()
    surge, unavailable, silent = rolling.max_surge, rolling.max_unavailable, rolling.unreachable_nodes
    if rolling.rolling_update_type == "Surging" and surge is None:
        surge = 1
    max_surge = formats.scaled(surge, max(desired, 1), round_up=True)
    max_unavailable = formats.scaled(unavailable, desired, round_up=True)
    if daemonset.rolling_update is None:
        max_surge = 0
    if desired and not max_surge and not max_unavailable:
        max_unavailable = 1
    burst = DEFAULT_BURST if daemonset.spec.burst_replicas is None else daemonset.spec.burst_replicas
    return Budget(
        desired=desired,
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        partition=max(formats.scaled(rolling.partition, desired, round_up=False), 0),
        burst=max(formats.scaled(burst, desired, round_up=False), 1),
        leave_out=formats.scaled(silent.leave_out, desired, round_up=False) if silent is not None else 0,
    )


class Domains:
    def __init__(
        self,
        topology: Topology,
        sizes: Mapping[str | None, int],
        disrupted: Iterable[NodeInfo],
        by_update: Iterable[NodeInfo],
    ) -> None:
        """`sizes`: the number of eligible nodes of each domain; nodes without the label are one domain, None.
        `by_update`: the nodes that are disrupted because of the update."""
        share = topology.max_unavailable
        self._topology = topology
        self.most = {
            domain: inf if share is None else formats.scaled(share, size, round_up=True)
            for domain, size in sizes.items()
        }
        """How many nodes may be disrupted at once in each domain; no limit where its nodes are not known."""
        self.disrupted = Counter(map(self.domain, disrupted))
        self.open = frozenset(map(self.domain, by_update))

    def domain(self, node: NodeInfo) -> str | None:
        return node.object.labels.get(self._topology.key) if node.object is not None else None

    def admitted(
        self, young: Sequence[NodeInfo], young_room: float, available: Sequence[NodeInfo], room: float
    ) -> list[NodeInfo]:
        """The nodes that may be updated together, in order: at most `young_room` of `young`, whose old pod is Ready
        and not yet available, so that they are disrupted already; and at most `room` of `available`."""
        opened = set(self.open)
        others = self.disrupted - Counter(map(self.domain, young))
        chosen = self._chosen(young, young_room, others, opened)
        return [*chosen, *self._chosen(available, room, self.disrupted, opened)]

    def _chosen(
        self, candidates: Sequence[NodeInfo], room: float, disrupted: Counter[str | None], opened: set[str | None]
    ) -> list[NodeInfo]:
        """The first `room` candidates that the limits of their domains allow; adds their domains to `opened`. If more
        domains are open than `maxDomains`, as an earlier update may have left them, no node is chosen."""
        key, most, used, chosen = self._topology.key, self.most, disrupted.copy(), list[NodeInfo]()
        most_open = inf if self._topology.max_domains is None else self._topology.max_domains
        for node in candidates:
            if len(chosen) >= room:
                break
            domain = node.object.labels.get(key) if node.object is not None else None
            if used[domain] < most.get(domain, inf) and len(opened) + (domain not in opened) <= most_open:
                opened.add(domain)
                used[domain] += 1
                chosen.append(node)
        return chosen

    def is_held_by(self, node: NodeInfo, others: Collection[NodeInfo]) -> bool:
        """Whether the node's domain is full, and would not be full without `others`, some of the disrupted nodes."""
        domain = self.domain(node)
        held = sum(self.domain(other) == domain for other in others)
        return self.disrupted[domain] - held < self.most.get(domain, inf) <= self.disrupted[domain]


class StepProgress(Value):
    """The progress of a rollout through its steps. Times are in seconds since 1970."""

    step: int
    """The number of the current step, from 1."""
    count: int
    allowed: int
    """Nodes that may hold the current revision at this step."""
    soak: float
    """Seconds."""
    unapproved: bool
    """Whether the step needs an approval that is not given."""
    now: float
    server_offset: ClockOffset = ClockOffset()
    unchecked: bool = False
    """Whether some check has no passing answer from after the soak yet."""
    needed: int = 0
    """Nodes that must have an available pod of the current revision before the step is reached: `allowed`, or all
    that can have one."""
    finished: bool = False
    """Whether the rollout was completed at the last step, and still is complete."""
    reached_time: str | None = None
    """`Rollout.step_reached_time`; None if the step is not reached. It is written by the later of the controller's
    and the server's clock and read by the earlier one (`SoakClock`), so that a difference never shortens a soak."""
    since: float | None = None
    """`reached_time` by the monotonic clock; None if the step is not reached."""

    @property
    def due(self) -> float:
        """When the soak ends."""
        return (self.since or self.now) + self.soak if self.soak else self.now

    @property
    def checked_from(self) -> float | None:
        """The time after which an answer counts for the end of the step; None if the step is not reached."""
        return None if self.since is None else self.since + self.soak

    @property
    def is_reached(self) -> bool:
        return self.reached_time is not None

    @property
    def is_soaking(self) -> bool:
        waits = self.now < self.due or (self.unchecked and not self.unapproved)
        return self.is_reached and not self.finished and waits

    @property
    def awaits_approval(self) -> bool:
        return self.is_reached and not self.is_soaking and self.unapproved

    @property
    def is_over(self) -> bool:
        return self.finished or (self.is_reached and not self.is_soaking and not self.unapproved)

    @property
    def is_complete(self) -> bool:
        return self.is_over and self.step == self.count

    def after_pass(self, *, done: int, reachable: int, unavailable: bool, latest: float) -> StepProgress:
        """The progress after this pass, which decides whether the step is reached.

        `done`: the number of nodes that have an available pod of the current revision and no other pod, or are left
        out and have a pod of it; `reachable`: the number of nodes that can be done; `unavailable`: whether a node
        that is not left out has a pod of it that is not available; `latest`: when the last of these pods became
        ready. A later time than the recorded one restarts the soak."""
        if self.finished:
            return self
        needed, recorded = min(self.allowed, reachable), epoch(self.reached_time)
        if unavailable or not 0 < needed <= done:
            return replace(self, needed=needed, reached_time=None, since=None)
        if recorded is None or self.since is None or latest > self.since:
            begun = ceil(latest if recorded is not None else max(latest, self.now))
            stamp = rfc3339(ceil(self.server_offset.later(begun)))
            return replace(self, needed=needed, reached_time=stamp, since=float(begun))
        return replace(self, needed=needed)


def step_progress_of(
    daemonset: DaemonSet,
    record: Rollout,
    revision: str,
    *,
    nodes: int,
    now: float,
    server_offset: ClockOffset,
    reached: float | None,
    edited: bool,
) -> StepProgress:
    """The progress recorded in `record` for the rollout of this revision, if steps apply (`applies`).

    `nodes`: the number of nodes that a percentage refers to; `reached`: the recorded time by the monotonic clock,
    None for as recorded; `edited`: whether the spec has changed since. While it soaks, an unedited step allows no
    more nodes than when it was reached, so that nodes that join do not restart the soak."""
    steps = _steps(daemonset)
    number = min(max(record.step or 1, 1), len(steps))
    step = steps[number - 1]
    allowed = max(formats.scaled(step.nodes, nodes, round_up=True) for step in steps[:number])
    finished = record.is_past(len(steps))
    stamp = record.step_reached_time if number == record.step else None
    if stamp is not None and not finished and not edited and allowed < nodes:
        allowed = min(allowed, max(record.target, 1))
    approved = daemonset.annotations.get(APPROVE_ANNOTATION) == f"{revision}/{number}"
    return StepProgress(
        step=number,
        count=len(steps),
        allowed=allowed,
        soak=step.soak_seconds,
        unapproved=step.approval == "Required" and not approved,
        now=now,
        server_offset=server_offset,
        finished=finished,
        reached_time=stamp,
        since=epoch(stamp) if stamp is None or reached is None else reached,
    )


def applies(daemonset: DaemonSet, record: Rollout, revision: str, *, first: bool) -> bool:
    """Whether steps apply to a rollout of this revision: not to the `first` deployment, not to a return to the stable
    revision, and not with the annotation that skips them."""
    skipped = is_overridden(daemonset, revision)
    return bool(_steps(daemonset)) and not (first or skipped or record.stable_revision == revision)


def _steps(daemonset: DaemonSet) -> tuple[RolloutStep, ...]:
    rolling = daemonset.rolling_update
    return rolling.steps if rolling is not None else ()
