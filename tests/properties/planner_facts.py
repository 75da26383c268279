"""What the laws ask of a world and of a plan: the pods, and never the rollout that the planner lays out."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controller.api.daemonset import RollingUpdate, rollout_of
from controller.api.formats import scaled
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.api.selector import LabelSelector, parse
from controller.planner import actions
from controller.planner.node_fit import Fit, Rules
from controller.planner.nodes import PROVEN_SECONDS
from controller.planner.plan import Plan
from controller.planner.revisions import current_revision
from controller.planner.world import World


def eligible(world: World) -> set[str]:
    return {one.name for one in world.nodes if world.rules.fit(one) is Fit.RUN}


def ours(world: World) -> list[Pod]:
    matches = parse(world.daemonset.spec.selector)
    return [one for one in world.pods if matches(one.labels)]


def live(world: World, node: str) -> list[Pod]:
    return [one for one in ours(world) if one.node == node and not one.terminating and not one.ended]


def is_available(world: World, pod: Pod) -> bool:
    wait = world.daemonset.spec.min_ready_seconds
    if pod.terminating or pod.ended or not pod.ready or pod.held_by_hook:
        return False
    if pod.in_progress is not None and pod.in_progress.is_pending(world.now):
        return False
    if pod.updated_in_place and pod.restarted_at is not None and pod.restarted_at + PROVEN_SECONDS >= world.now:
        return False
    return not wait or (pod.ready_since is not None and pod.ready_since + wait < world.now)


def served(world: World) -> set[str]:
    """Eligible nodes with an available pod."""
    return {node for node in eligible(world) if any(is_available(world, one) for one in live(world, node))}


def serving(world: World) -> set[str]:
    """These, and those whose old pod is Ready and only younger than minReadySeconds."""
    found = served(world)
    for node in eligible(world):
        pods = live(world, node)
        if not any(of_current(world, one) for one in pods) and any(
            one.ready and not one.held_by_hook and one.in_progress is None for one in pods
        ):
            found.add(node)
    return found


def of_current(world: World, pod: Pod) -> bool:
    return pod.hash == current_revision(world)[0].hash


def empty(world: World) -> set[str]:
    """Eligible nodes without any pod."""
    return eligible(world) - {one.node for one in ours(world)}


def last_hash(world: World, node: str) -> str | None:
    """Of the last pod on an empty node: it is on its way out, has ended, or is gone. None: unknown."""
    there = [one for one in ours(world) if one.node == node]
    before = world.predecessors.get(node)
    gone = before.pod if before else None
    if not there:
        return gone.hash if gone else None
    staying = [one for one in there if not (one.terminating and one.ended)]
    youngest = max(staying or there, key=lambda one: (one.created, one.name))
    if not staying and gone and gone.created > youngest.created:
        return gone.hash
    return youngest.hash


def have_run(world: World, stored: Iterable[Revision]) -> list[Revision]:
    """Those that were not only adopted as history: a pod has them, or the last pod of a node had."""
    hashes = {one.hash for one in world.pods} | {one.pod.hash for one in world.predecessors.values() if one.pod}
    return [one for one in stored if not one.never_ran or one.hash in hashes]


def promised(world: World, node: str) -> Revision:
    """What an empty node gets that may not hold the current revision."""
    current, stored = current_revision(world)
    older = [one for one in have_run(world, stored) if one.identity != current.identity]
    known = {one.hash: one for one in (*reversed(older), current)}.get(last_hash(world, node) or "unknown")
    if known or not older:
        return known or current
    if len(updated(world)) > partition_quota(world):
        return current
    alive = [one.hash for one in ours(world) if not one.terminating and not one.ended and one.node]
    most = max(alive.count(one.hash) for one in older)
    return next(one for one in older if alive.count(one.hash) == most)


def runs_on(world: World, revision: Revision, node: str) -> bool:
    """By the placement of that very revision."""
    if revision.identity == world.daemonset.identity:
        return True
    place = next(one for one in world.nodes if one.name == node)
    try:
        return Rules(revision.template).fit(place) is Fit.RUN
    except (ValueError, msgspec.ValidationError):
        return False


def unfit(world: World) -> set[str]:
    """Eligible nodes without a pod on which the older revision that they would get does not run."""
    if world.daemonset.rolling_update is None:
        return set()
    return {node for node in empty(world) if not runs_on(world, promised(world, node), node)}


def quota(world: World) -> int:
    return min(partition_quota(world), step_limit(world))


def partition_quota(world: World) -> int:
    return max(len(eligible(world)) - limit(world, rolling(world).partition, round_up=False), 0)


def step_limit(world: World) -> int:
    """The nodes that may hold the current revision at the step of the status; all where steps do not apply."""
    current, stored = current_revision(world)
    status, steps = world.daemonset.status, rolling(world).steps
    record = rollout_of(status)
    skipped = world.daemonset.annotations.get("kruise-ds/skip-steps") == current.hash
    if not steps or not have_run(world, stored) or skipped or record.stable_revision == current.hash:
        return len(eligible(world))
    begun = status is not None and status.update_revision == current.hash
    step = min((record.step or 1) if begun else 1, len(steps))
    having = updated(world) | {name for name in eligible(world) if last_hash(world, name) == current.hash}
    chosen = having | {one.name for one in world.nodes if one.name in eligible(world) and world.rules.selects(one)}
    return max(scaled(one.nodes, len(chosen), round_up=True) for one in steps[:step])


def is_progressive(world: World) -> bool:
    asked = world.daemonset.rolling_update is not None and world.daemonset.partitioned_scaling
    return asked and limit(world, rolling(world).partition, round_up=False) > 0


def updated(world: World) -> set[str]:
    return {node for node in eligible(world) if any(of_current(world, one) for one in live(world, node))}


def creates(plan: Plan) -> list[actions.CreatePod]:
    return [one for one in plan.actions if isinstance(one, actions.CreatePod)]


def deletes(plan: Plan, why: actions.DeleteReason | None = None) -> list[actions.DeletePod | actions.PrepareDelete]:
    """And what is prepared for that, which takes the pod away as well."""
    ends = [one for one in plan.actions if isinstance(one, actions.DeletePod | actions.PrepareDelete)]
    return [one for one in ends if why in (None, one.why)]


def begun(plan: Plan) -> list[actions.UpdateInPlace | actions.DrainPod]:
    """Updates in place."""
    return [one for one in plan.actions if isinstance(one, actions.UpdateInPlace | actions.DrainPod)]


def outgoing(plan: Plan) -> list[str]:
    """Nodes whose old pod goes or begins to change, in order."""
    return [
        one.node
        for one in plan.actions
        if isinstance(one, actions.UpdateInPlace | actions.DrainPod)
        or (isinstance(one, actions.DeletePod | actions.PrepareDelete) and one.why is actions.DeleteReason.OUTDATED)
    ]


def released(world: World) -> set[str]:
    """Pods that are not ours any more: their gates are opened first, whatever is under way."""
    return {pod.uid for pod in world.pods if not world.rules.owns(pod.labels)}


def unreachable(world: World, node: str) -> bool:
    return any(one.unreachable for one in world.nodes if one.name == node)


def left_out(world: World) -> set[str]:
    """The unreachable nodes that are not waited for."""
    return set() if too_many_unreachable(world) or not _may_be_left_out(world) else _silent(world)


def too_many_unreachable(world: World) -> bool:
    most = _may_be_left_out(world)
    return most > 0 and len(_silent(world)) > most


def _silent(world: World) -> set[str]:
    return {one.name for one in world.nodes if one.unreachable} & eligible(world)


def _may_be_left_out(world: World) -> int:
    asked = rolling(world).unreachable_nodes
    return 0 if asked is None else limit(world, asked.leave_out, round_up=False)


def in_update_order(world: World, nodes: Iterable[str]) -> list[str]:
    """By the rules of `order`, where values of these worlds have no digits; then by name, descending."""
    labels = {one.name: one.labels for one in world.nodes}

    def place(node: str) -> list[tuple[bool, str]]:
        found = []
        for rule in rolling(world).order:
            value = labels[node].get(rule.group_by)
            chosen = LabelSelector(match_labels=rule.match_labels, match_expressions=rule.match_expressions)
            last = value is None if rule.group_by else not parse(chosen)(labels[node])
            found.append((last, value or ""))
        return found

    return sorted(sorted(nodes, reverse=True), key=place)


def left_behind(world: World) -> set[str]:
    """Nodes with only an unready pod of an earlier update, to which nothing is done: not of the stable revision."""
    current, stored = current_revision(world)
    older = [one.hash for one in have_run(world, stored) if one.identity != current.identity]
    stable = rollout_of(world.daemonset.status).stable_revision or (older[-1] if older else None)

    def is_idle(pod: Pod) -> bool:
        waits = pod.held_by_hook or pod.marked_not_ready or pod.draining or pod.in_progress is not None
        return not (pod.ready or waits or of_current(world, pod) or pod.hash == stable)

    return {node for node in eligible(world) if (pods := live(world, node)) and all(is_idle(one) for one in pods)}


def rolling(world: World) -> RollingUpdate:
    return world.daemonset.rolling_update or RollingUpdate()


def limit(world: World, value: int | str | None, *, round_up: bool) -> int:
    return scaled(value, len(eligible(world)), round_up=round_up)
