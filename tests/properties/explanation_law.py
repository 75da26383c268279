"""What an explanation promises of any world: a node without a blocker is exactly one on which the planner acts
next, given budget; and the blocker named is the one whose removal makes it act, or reveals the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import RollingUpdate
from controller.api.pod import Pod
from controller.planner import actions
from controller.planner.actions import DeleteReason
from controller.planner.blocker_texts import Blocker
from controller.planner.blockers import outgoing
from controller.planner.explanation import Explainer, NodeState
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.placement import place_pods
from controller.planner.rolling_update import roll_out, settle_running_pods
from controller.planner.rollout_state import RolloutState, rollout_state
from controller.planner.validation import compiled
from controller.planner.world import Accepted, World

DONE: Final = (NodeState.UPDATED, NodeState.UNPLANNED, NodeState.EXCLUDED)


def unlimited(rollout: RolloutState) -> RolloutState:
    """The same with more budget than there are nodes, and without a turn for what failed before."""
    most = len(rollout.nodes) + len(rollout.world.pods) + 1
    surge = most if rollout.surging else 0
    budget = replace(rollout.budget, max_unavailable=most, max_surge=surge, burst=most)
    return replace(rollout, world=replace(rollout.world, due_again={}), budget=budget)


def crowded(rollout: RolloutState, node: NodeInfo) -> bool:
    """Whether a surge there waits for pods beside the old one to go."""
    return rollout.surging and node.only_old and (node.awaits_retry(rollout.revision.hash) or len(node.live) > 1)


def stays(rollout: RolloutState, node: NodeInfo) -> Pod | None:
    """The current pod of a node from which no other one goes now."""
    return node.current if outgoing(rollout, node) is None else None


def acted_on(rollout: RolloutState) -> set[str]:
    """Nodes on which placement or update would act: in this pass, or in the next if nothing else came in between.

    Not where only something beside the pod in question is removed.
    """
    by_name = {node.name: node for node in rollout.nodes}
    found: set[str] = set()
    steps = (place_pods(rollout), roll_out(rollout), settle_running_pods(rollout, ())) if rollout.world.fresh else ()
    for action in (action for step in steps for action in step.actions):
        match action:
            case (
                actions.CreatePod(node=name)
                | actions.DeletePod(node=name, why=DeleteReason.OUTDATED | DeleteReason.SURGED)
            ):
                found.add(name)
            case actions.PrepareDelete(node=name, why=DeleteReason.OUTDATED | DeleteReason.SURGED):
                found.add(name)
            case actions.UpdateInPlace(node=name) | actions.DrainPod(node=name):
                found.add(name)
            case (
                actions.DeletePod(why=DeleteReason.NOT_RESIZED) | actions.PrepareDelete(why=DeleteReason.NOT_RESIZED)
            ):
                pass  # the blocker is what ends so
            case actions.DeletePod(node=name, pod=pod) | actions.PrepareDelete(node=name, pod=pod):
                node = by_name[name]
                one_of_two = node.paired and pod.uid in {one.uid for one in (node.current, node.old) if one}
                if one_of_two or crowded(rollout, node) or not (node.current or node.old):
                    found.add(name)
            case actions.CancelDelete(pod=pod):
                found |= {one.name for one in rollout.nodes if (kept := stays(rollout, one)) and kept.uid == pod.uid}
            case actions.ProbeTemplate() if not rollout.dry_run.refused:
                answer = {**rollout.world.verdicts, rollout.revision.hash: Accepted()}
                found |= acted_on(replace(rollout, world=replace(rollout.world, verdicts=answer)))
    return found


def blockers(world: World) -> dict[str, Blocker | None]:
    """By node."""
    rollout = unlimited(rollout_state(world))
    explainer = Explainer(rollout)
    return {node.name: explainer.blocker(node) for node in rollout.nodes}


def misled(world: World) -> Iterator[str]:
    """Nodes of which the explanation says that something is in the way and the planner acts, or nothing and it does
    not."""
    rollout = unlimited(rollout_state(world))
    acted, explainer = acted_on(rollout), Explainer(rollout)
    for node in rollout.nodes:
        one = explainer.explain(node)
        if one.state in DONE or (one.blocker is not None and crowded(rollout, node)):
            continue
        if (node.name in acted) is not (one.blocker is None):
            does = "acts" if node.name in acted else "does nothing"
            yield f"{node.name} is {one.state} with blocker {one.blocker}, and the planner {does} there"


def misnamed(world: World) -> Iterator[str]:
    """Nodes for which one blocker after the other is removed, each once, and the planner does not act in the end."""
    for node in rollout_state(world).nodes:
        now, seen = world, list[Blocker]()
        while (explained := _explained(now, node.name)) is not None:
            rollout, one, state, blocker = explained
            if blocker is None or blocker is Blocker.UNSTORED:
                done = state in DONE or one.fit is not Fit.RUN
                if blocker is None and not done and node.name not in acted_on(rollout):
                    yield f"{node.name}: without {_names(seen)} nothing is in the way, and the planner does nothing"
                break
            if blocker in seen:
                yield f"{node.name}: {blocker} is there still, without {_names(seen)}"
                break
            seen.append(blocker)
            now = REMOVALS[blocker](now, node.name)


def _explained(world: World, name: str) -> tuple[RolloutState, NodeInfo, NodeState, Blocker | None] | None:
    rollout = unlimited(rollout_state(world))
    node = next((found for found in rollout.nodes if found.name == name), None)
    if node is None:
        return None
    one = Explainer(rollout).explain(node)
    return rollout, node, one.state, one.blocker


def _names(blockers: list[Blocker]) -> str:
    return ", ".join(blockers) or "any blocker"


def with_spec(world: World, **fields: object) -> World:
    """With other fields of the spec."""
    changed = replace(world.daemonset, spec=replace(world.daemonset.spec, **fields))
    return replace(world, daemonset=changed, rules=compiled(changed))


def rolling(world: World, **fields: object) -> World:
    strategy = world.daemonset.spec.update_strategy
    rolling = replace(strategy.rolling_update or RollingUpdate(), **fields)
    return with_spec(world, update_strategy=replace(strategy, rolling_update=rolling, type="RollingUpdate"))


def _cleared(world: World, node: str) -> World:
    """Nothing is left alone any more, and everything is answered."""
    return replace(world, in_backoff={}, in_flight=frozenset())


def _pulled(world: World, node: str) -> World:
    return replace(world, unpulled={})


def _unhooked(world: World, node: str) -> World:
    return with_spec(world, lifecycle=None)


def _placed(world: World, node: str) -> World:
    """Every older revision runs wherever the current one does."""
    return replace(world, placements={one.uid: world.rules for one in world.revisions})


def _gone(world: World, node: str) -> World:
    return replace(world, pods=tuple(one for one in world.pods if one.node != node or not one.terminating))


def _untainted(world: World, node: str) -> World:
    nodes = tuple(replace(one, taints=()) if one.name == node else one for one in world.nodes)
    return replace(world, nodes=nodes)


def _ready(world: World, node: str) -> World:
    """Every pod on the node is available, and nothing is done to it."""
    pods = tuple(
        replace(
            one,
            ready=True,
            ready_since=world.now - 3600,
            restarted_at=None,
            phase="Running",
            problem=None,
            in_progress=None,
            gates=tuple(replace(gate, open=True, draining=False) for gate in one.gates),
        )
        if one.node == node and not one.ended
        else one
        for one in world.pods
    )
    return replace(world, pods=pods)


def _undrained(world: World, node: str) -> World:
    """No grace period is asked for any more."""
    return replace(world, daemonset=replace(world.daemonset, annotations={}))


REMOVALS: Final[Mapping[Blocker, Callable[[World, str], World]]] = {
    Blocker.PARTITION: lambda world, node: rolling(world, partition=0),
    Blocker.SELECTOR: lambda world, node: rolling(world, selector=None),
    Blocker.STEP: lambda world, node: rolling(world, steps=()),
    Blocker.ABORTED: lambda world, node: rolling(world, on_failure=None),
    Blocker.PAUSED: lambda world, node: rolling(world, paused=False),
    Blocker.CHECK_FAILING: lambda world, node: rolling(world, checks=()),
    Blocker.CHECK_UNANSWERED: lambda world, node: rolling(world, checks=()),
    Blocker.ON_DELETE: lambda world, node: rolling(world),
    Blocker.SCALING: lambda world, node: rolling(world, partition=0),
    Blocker.PLACEMENT: _placed,
    Blocker.TAINTED: _untainted,
    Blocker.HOOK: _unhooked,
    Blocker.UNREACHABLE: _untainted,
    Blocker.REFUSED: lambda world, node: replace(world, verdicts=dict.fromkeys(world.verdicts, Accepted())),
    Blocker.ADOPTABLE: lambda world, node: replace(world, orphans=()),
    Blocker.STRAY: lambda world, node: replace(world, pods=tuple(p for p in world.pods if p.uid not in world.strays)),
    Blocker.WRITE_FAILED: _cleared,
    Blocker.UNANSWERED: _cleared,
    Blocker.RESOURCE_QUOTA: _cleared,
    Blocker.PODS_DO_NOT_LAST: lambda world, node: replace(world, not_before={}),
    Blocker.TERMINATING: _gone,
    Blocker.STARTING: _ready,
    Blocker.DRAINING: _undrained,
    Blocker.RESTARTING: _ready,
    Blocker.RESIZING: _ready,
    Blocker.UNRESIZED: _ready,
    Blocker.PULLING: _pulled,
    Blocker.UNPULLED: _pulled,
    Blocker.TOO_MANY_UNREACHABLE: lambda world, node: rolling(world, unreachable_nodes=None),
    Blocker.DOMAIN: lambda world, node: rolling(world, topology=None),
    Blocker.STALE: lambda world, node: replace(world, fresh=True),
}
"""What ends each: the world without it. The budget is lifted anyway, and the planner itself stores a revision."""
