"""What the fields of progressive rollouts add to a decision: order, topology, steps, unreachableNodes, onFailure
and checks beside the same cluster without them, where a partition allows as many nodes as the step does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from controller.api import node, pod
from controller.api.daemonset import (
    Check,
    DaemonSetStatus,
    OnFailure,
    OrderRule,
    Phase,
    RollingUpdate,
    Rollout,
    RolloutStep,
    Topology,
    UnreachableNodes,
    UpdateStrategy,
)
from controller.api.names import HASH_LABEL
from controller.api.objects import rfc3339
from controller.planner.checks import CheckResult
from controller.planner.failure import effective_daemonset
from controller.planner.plan import Plan, plan
from controller.planner.revisions import placements_of
from controller.planner.validation import compiled
from controller.planner.world import Accepted, World
from tests.tools.bench import manifests, wire
from tests.tools.bench.decide import stored_revision, timed
from tests.tools.bench.figures import Comparison, Report, compared

NODES, DOMAINS = 5000, 50
ALLOWED = NODES // 10
"""Nodes that the first step, or the partition, allows."""
CEILING, FIRST_LOOK = 1.2, 1.3
REPEATS = 31
OLD, NEW = wire.HASH, wire.HASH[::-1]

PLAIN: dict[str, Any] = {"max_unavailable": "10%"}
FIELDS = PLAIN | {
    "order": (OrderRule(match_labels={"ring": "canary"}), OrderRule(group_by="rack")),
    "topology": Topology(key="rack", max_unavailable="20%", max_domains=15),
    "unreachable_nodes": UnreachableNodes(leave_out="2%"),
    "steps": (RolloutStep(nodes="10%", soak="10m"), RolloutStep(nodes="50%", approval="Required"), RolloutStep()),
    "on_failure": OnFailure(unavailable_nodes="1%", restarts=3, action="RollBack"),
    "checks": (Check(name="errors", query='errors{pod=~"$pods"} > 0'),),
}


def progressive(say: Callable[[str], None]) -> Report:
    say(f"decisions on {NODES} nodes in {DOMAINS} failure domains")
    return compared("progressive fields", list(_rows(_Cluster())), plain="without", ours="with")


def _rows(cluster: _Cluster) -> Iterator[Comparison]:
    done = cluster.record(phase=Phase.HEALTHY, stable_revision=OLD, completion_time=cluster.ago(50))
    quiet = replace(done, stable_revision=NEW, step=3, steps=3)
    going = cluster.record(phase=Phase.PROGRESSING, stable_revision=OLD, step=1, steps=3)
    soaking = replace(going, phase=Phase.SOAKING, step_reached_time=cluster.ago(50))
    aborted = replace(going, phase=Phase.ABORTED, aborted_revision=NEW, aborted_message="why")
    yield cluster.row("nothing to do (ms)", quiet, NODES)
    yield cluster.row("the first look (ms)", quiet, NODES, ceiling=FIRST_LOOK, cold=True)
    yield cluster.row("a new template (ms)", done, 0, of=OLD, phase=Phase.PROGRESSING)
    yield cluster.row("a step in progress (ms)", going, ALLOWED // 2, young=20)
    yield cluster.row("a step that soaks (ms)", soaking, ALLOWED)
    yield cluster.row("an aborted rollout goes back (ms)", aborted, ALLOWED // 2, young=20)


class _Cluster:
    def __init__(self) -> None:
        self._now = float(int(time.time()))
        self._nodes = tuple([_node(index) for index in range(NODES)])
        found = [pod.project(msgspec.convert(one, pod.PodView)) for one in wire.pods(range(NODES))]
        self._pods = [one for one in found if one is not None]
        self._labels = {label: {**self._pods[0].labels, HASH_LABEL: label} for label in (OLD, NEW)}
        first, second = stored_revision(manifests.FIRST_IMAGE, OLD), stored_revision(manifests.NEXT_IMAGE, NEW)
        self._revisions = (first, replace(second, uid="next", name="next", number=first.number + 1))

    def ago(self, seconds: float) -> str:
        return rfc3339(self._now - seconds)

    def record(self, **fields: Any) -> Rollout:
        return Rollout(start_time=self.ago(900), last_progress_time=self.ago(50), target=ALLOWED, **fields)

    def row(
        self,
        text: str,
        record: Rollout,
        updated: int,
        *,
        young: int = 0,
        of: str = NEW,
        phase: str = "",
        ceiling: float = CEILING,
        cold: bool = False,
    ) -> Comparison:
        """`record`: the record so far, of the revision `of`; `updated`: how many nodes have the new revision, of
        which `young` pods are not ready. The decision must keep the phase, or come to `phase`."""
        back = record.aborted_revision is not None
        partition = 0 if back or updated == NODES else NODES - ALLOWED
        world = self._world(FIELDS, NEW, record, of, updated, young)
        plain = replace(record, step=None, steps=None, step_reached_time=None, aborted_revision=None)
        without = self._world(PLAIN | {"partition": partition}, OLD if back else NEW, plain, of, updated, young)
        status = plan(world).status
        if status is None or status.rollout.phase != (phase or record.phase):
            raise AssertionError(f"{text}: the decision is not what it should be")

        def decision(of: World) -> Callable[[], Plan]:
            return lambda: plan(replace(of, rules=compiled(of.daemonset)) if cold else of)

        return Comparison(text, *timed(decision(without), decision(world), REPEATS), ceiling)

    def _world(
        self, rolling: dict[str, Any], template: str, record: Rollout, of: str, updated: int, young: int
    ) -> World:
        owner, wanted = wire.parsed_owner(), self._revisions[template == NEW]
        strategy = UpdateStrategy(type="RollingUpdate", rolling_update=RollingUpdate(**rolling))
        spec = replace(owner.spec, template=wanted.template, update_strategy=strategy)
        status = DaemonSetStatus(observed_generation=1, update_revision=of, rollout=record)
        owner = effective_daemonset(
            replace(owner, spec=spec, identity=wanted.identity, status=status), self._revisions
        )
        return World(
            daemonset=owner,
            rules=compiled(owner),
            nodes=self._nodes,
            pods=tuple([self._pod(index, updated, young) for index in range(NODES)]),
            revisions=self._revisions,
            placements=placements_of(self._revisions, {}),
            verdicts={OLD: Accepted(), NEW: Accepted()},
            check_results={"errors": CheckResult(sent_at=self._now)},
            now=self._now,
        )

    def _pod(self, index: int, updated: int, young: int) -> pod.Pod:
        found, place = self._pods[index], _place(index)
        found = replace(found, labels=self._labels[NEW if place < updated else OLD])
        if updated - young <= place < updated:
            return replace(found, ready=False, ready_since=None, unready_since=self._now - 20)
        return found


def _node(index: int) -> node.Node:
    found = wire.node(index)
    found["metadata"]["labels"] |= {"rack": f"rack-{_place(index) * DOMAINS // NODES}", "ring": "rest"}
    return node.project(msgspec.convert(found, node.NodeView))


def _place(index: int) -> int:
    """The place in the update order, which is scattered over the names."""
    return index * 7 % NODES
