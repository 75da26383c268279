"""The state of one node in a rollout, in one word: the same for metrics, `nodes --only` and every screen.

Explains why a node is not as the planner wants it, and what it waits for, for conditions, metrics and plugin.

The stages of the planner ask the same functions (`obstacle_checks`) before they act. So if a node has no blocker,
the planner acts there next, as far as the budget allows.

The texts about the preDelete hook: which pods it holds, or that it matches none.

Finds the wait of a rollout: the one reason for which nodes that should be updated now wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final, assert_never

from controller.api.formats import joined, listed
from controller.api.names import (
    FAILED_IN_PLACE,
    HELD_BY_HOOK,
    HOOK_UNMATCHED,
    NODES_UNREACHABLE,
    RESIZE_DEFERRED,
    RESIZE_REFUSED,
)
from controller.api.objects import Value, rfc3339
from controller.api.pod import Pod
from controller.planner.blocker_checks import (
    creation_blocker,
    deletion_blocker,
    fillable,
    handlers,
    hooked,
    in_order,
    in_the_way,
    is_given_up,
    is_recreated,
    is_unanswered,
    outgoing,
    refills,
    removal_blocker,
    resize_deferral,
    resize_refusal,
    rollout_blocker,
    update_blocker,
    waits_for_hook,
    write_blocker,
)
from controller.planner.blockers import Blocker
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.progress import Condition, Standing
from controller.planner.rollout_state import RolloutState
from controller.planner.world import POD_QUOTA, Accepted, BackoffKey, TemplateRefused, Unasked, Unpullable


class NodeState(StrEnum):
    UPDATED = "updated"
    """It has an available pod of the current revision."""
    UPDATING = "updating"
    """It is being updated: the old pod is going, or the new one is not available yet."""
    FAILING = "failing"
    """Its pod of the current revision does not recover by waiting, or has ended."""
    NEXT = "next"
    """Its old pod may be replaced, and its turn comes."""
    OLD = "old"
    """Partition or selector keeps its old pod."""
    MISSING = "missing"
    """It has no pod, although it should have one."""
    UNPLANNED = "unplanned"
    """It is updated, although partition or selector would have kept it old."""
    DELETING = "deleting"
    """Its only pod is being deleted, and one of an older revision will follow."""
    EXCLUDED = "excluded"
    """It should not run a pod."""


PREPARING: Final = "preparing"
"""No state of its own, but shown beside any state: the preDelete hook holds a pod there."""


class Explanation(Value):
    node: NodeInfo
    state: NodeState
    blocker: Blocker | None
    """The blocker to acting on the node; None: there is none. On an empty node: to creating any pod."""


class Explainer:
    """Explains the nodes of one rollout. What is the same for all nodes is worked out once, when it is needed."""

    def __init__(self, rollout: RolloutState) -> None:
        self.rollout = rollout
        self._paused = rollout.rolling_update is not None and rollout.rolling_update.paused
        world = rollout.world
        of_daemonset = world.daemonset.pre_delete or world.daemonset.in_place_grace
        waits = world.in_backoff or world.not_before or world.unpulled or rollout.taken
        self._particular = bool(waits or of_daemonset)
        self._stale = None if world.fresh else Blocker.STALE

    def explain(self, node: NodeInfo) -> Explanation:
        return Explanation(node=node, state=self.state(node), blocker=self.blocker(node))

    def state(self, node: NodeInfo) -> NodeState:
        if node.fit is not Fit.RUN:
            return NodeState.EXCLUDED
        targeted = node.name in self.target
        if node.current is not None:
            if node.current.problem is not None:
                return NodeState.FAILING
            if node.old is not None or not node.current_available:
                return NodeState.UPDATING
            planned = targeted and (node.selected or not self.rollout.split_by_selector)
            return NodeState.UPDATED if planned else NodeState.UNPLANNED
        if node.old is not None:
            return NodeState.NEXT if targeted else NodeState.OLD
        if node.ended:
            return NodeState.FAILING
        if node.pods:
            return NodeState.UPDATING if targeted else NodeState.DELETING
        return NodeState.MISSING

    def kept(self, node: NodeInfo) -> Blocker | None:
        """What keeps the current revision from the node, for now or for good; None if it has it or may get it."""
        if node.current is not None or node.fit is not Fit.RUN or node.name in self.rollout.holders:
            return None
        if node.name not in self.target:
            return Blocker.PARTITION if node.selected else Blocker.SELECTOR
        gets_it = not self.rollout.older and node.old is None  # even while paused
        return Blocker.PAUSED if self._paused and not gets_it else None

    @property
    def keepers(self) -> set[Blocker]:
        """The blockers that `kept` may return for some node, found without calling it for each node."""
        rollout, rolling = self.rollout, self.rollout.rolling_update
        found = {Blocker.PAUSED} if self._paused else set()
        if len(rollout.target) < rollout.budget.desired:
            found.add(Blocker.PARTITION)
            if rolling is not None and rolling.selector is not None:
                found.add(Blocker.SELECTOR)
        return found

    def blocker(self, node: NodeInfo) -> Blocker | None:
        if node.fit is not Fit.RUN:
            return Blocker.TAINTED if node.fit is Fit.STAY and node.only_old else None
        if node.current is not None:
            return self._of_new(node)
        return self._of_empty(node) if node.old is None else self.kept(node) or self.of_turn(node)

    def of_turn(self, node: NodeInfo) -> Blocker | None:
        """The blocker of a node in `outdated`. It is kept cheap, because it may be called for all nodes."""
        if self.of_all is not None:
            return self.of_all
        if (self._particular or len(node.pods) > 1) and (found := self._of_particular(node)) is not None:
            return found
        if node.unreachable:
            return Blocker.UNREACHABLE
        if node.old_ready and (self._used_up if node.old_available else self._none_young):
            return Blocker.BUDGET
        if self._stale is None and not self.rollout.revision.uid:
            return Blocker.UNSTORED  # without it, nobody could roll back to it
        return self._stale

    def _of_particular(self, node: NodeInfo) -> Blocker | None:
        rollout = self.rollout
        if rollout.surging and (others := in_the_way(rollout, node)):
            return self._unless_one_goes(others)
        return update_blocker(rollout, node)

    @cached_property
    def held_by_hook(self) -> tuple[Pod, ...]:
        """All pods that the preDelete hook holds, for whatever reason they have to go, in update order."""
        rollout = self.rollout
        if rollout.world.daemonset.pre_delete is None:
            return ()
        pods = (pod for node in reversed(rollout.nodes) for pod in node.pods)
        return tuple([pod for pod in pods if not pod.dying and waits_for_hook(rollout, pod)])

    @cached_property
    def of_all(self) -> Blocker | None:
        """The blocker that keeps all nodes from being updated; None: there is none."""
        rollout = self.rollout
        in_backoff = rollout.world.in_backoff
        if (found := rollout_blocker(rollout)) is not None:
            return found
        match rollout.verdict:
            case TemplateRefused():
                return Blocker.REFUSED
            case Unasked():
                if (found := write_blocker(rollout.world, BackoffKey.of_template(rollout.revision.hash))) is not None:
                    return found
            case Accepted():
                pass
            case _:
                assert_never(rollout.verdict)
        return Blocker.RESOURCE_QUOTA if rollout.surging and POD_QUOTA in in_backoff else None

    @cached_property
    def in_turn(self) -> tuple[NodeInfo, ...]:
        """The nodes that are updated as soon as the budget has room, in update order."""
        going = {Blocker.BUDGET, Blocker.STALE, Blocker.UNSTORED, None}
        return tuple([node for node in self.rollout.outdated if self.of_turn(node) in going])

    @cached_property
    def waiting(self) -> Mapping[Blocker | None, list[NodeInfo]]:
        """All nodes in `RolloutState.outdated`, in update order, by their blocker."""
        found: dict[Blocker | None, list[NodeInfo]] = {}
        for node in self.rollout.outdated:
            found.setdefault(self.of_turn(node), []).append(node)
        return found

    def _of_new(self, node: NodeInfo) -> Blocker | None:
        """The blocker of a node with a live pod of the current revision."""
        if node.old is None:
            return None if node.current_available or node.current is None else self._of_starting(node.current)
        if node.unreachable:
            return Blocker.UNREACHABLE
        pod = outgoing(self.rollout, node)
        if pod is None and node.current is not None:
            return self._of_starting(node.current)
        return Blocker.STARTING if pod is None else deletion_blocker(self.rollout, pod) or self._stale

    def _of_starting(self, pod: Pod) -> Blocker | None:
        """The blocker of a pod of the current revision that has to stay and is not available."""
        world = self.rollout.world
        stays = is_given_up(self.rollout, pod) or not is_recreated(world, pod)
        if (pod.held_by_hook or pod.marked) and stays:  # the next pass takes that back
            asked = Blocker.UNANSWERED if is_unanswered(world, BackoffKey.of_object(pod.uid)) else None
            return asked or write_blocker(world, BackoffKey.of_keeping(pod.uid)) or self._stale
        if resize_refusal(world, pod):
            return Blocker.UNRESIZED
        underway = pod.underway
        if underway is None or not underway.lasts(world.now):
            return Blocker.STARTING
        if underway.resize is None:
            return Blocker.RESTARTING
        return Blocker.RESIZING

    def _of_empty(self, node: NodeInfo) -> Blocker | None:
        """The blocker of a node without a live pod."""
        if ended := node.ended:
            return self._unless_one_goes(ended)
        found = creation_blocker(self.rollout, node)
        if found is None and node.name in self.rollout.unplaceable:
            return Blocker.PLACEMENT
        return found or self._unfilled.get(node.name) or self._stale

    def _unless_one_goes(self, pods: list[Pod]) -> Blocker | None:
        found = [removal_blocker(self.rollout, pod) for pod in pods]
        return self._stale if None in found else found[0]

    @cached_property
    def _unfilled(self) -> Mapping[str, Blocker]:
        rollout = self.rollout
        if rollout.fills_with_current and not rollout.refused_for_unknown_fields:
            return {}
        served = refills(rollout, in_order(rollout, fillable(rollout)))
        return {node.name: found for node, found in served if isinstance(found, Blocker)}

    @cached_property
    def _used_up(self) -> bool:
        return not self.rollout.room

    @cached_property
    def _none_young(self) -> bool:
        """Whether the limit leaves no room for nodes whose old pod is Ready, but not yet available."""
        if self.rollout.surging:
            return self._used_up
        young = [
            node
            for node in self.rollout.outdated
            if node.old_ready
            and not node.old_available
            and not node.unreachable
            and update_blocker(self.rollout, node) is None
        ]
        return not self.rollout.room_for(len(young))

    @cached_property
    def target(self) -> frozenset[str]:
        """The names of the nodes in `RolloutState.target`."""
        return frozenset([node.name for node in self.rollout.target])


def holding(explainer: Explainer) -> str:
    """Which pods the hook holds, by what and since when; empty: none. It does not change because time passes."""
    pods, hook = explainer.held_by_hook, explainer.rollout.world.daemonset.pre_delete
    if not pods:
        return ""
    names = some(pod.name for pod in pods)
    held_by = listed(dict.fromkeys(one for pod in pods for one in handlers(pod, hook)), separator=" and ")
    since = min((pod.held_since for pod in pods if pod.held_since is not None), default=None)
    when = "" if since is None else f" since {rfc3339(since)}"
    return f"the preDelete hook holds {names} by {held_by}{when}"


def unmatched_hook(rollout: RolloutState) -> tuple[Condition, ...]:
    """A warning while no pod has what the hook looks for; something other than the template may still add it. Pods
    that are being deleted, or were released by the hook, do not count."""
    hook = rollout.world.daemonset.pre_delete
    if hook is None:
        return ()
    live = [pod for node in rollout.nodes for pod in node.live]
    if all(pod.held_by_hook for pod in live) or any(hooked(pod, hook) for pod in live):
        return ()
    labels = [f"label {key}={value}" for key, value in (hook.labels_handler or {}).items()]
    wanted = listed(
        [*labels, *(f"finalizer {one}" for one in sorted(hook.finalizers_handler or ()))], separator=" or "
    )
    text = f"no pod has {wanted}: the preDelete hook holds none of them back"
    return (Condition(type=HOOK_UNMATCHED, status="True", reason="NoPodMatches", message=text),)


def some(names: Iterable[str]) -> str:
    """The first three names, and how many more follow."""
    known = list(names)
    shown = ", ".join(known[:3])
    return f"{shown} and {len(known) - 3} more" if len(known) > 3 else shown


WAITS_FOR: Final = "waits for "
"""How `awaiting` begins."""


class WaitReason(Value):
    """A reason why a rollout waits, for the condition, and a text."""

    reason: str
    text: str


_WAITS = {
    Blocker.UNPULLED: WaitReason(reason="ImagesNotPulled", text="the new image cannot be pulled on"),
    Blocker.UNANSWERED: WaitReason(reason="ServerSilent", text="the server has not answered what was asked for"),
    Blocker.PULLING: WaitReason(reason="PullingImages", text="the new image is being pulled on"),
    Blocker.UNREACHABLE: WaitReason(reason=NODES_UNREACHABLE, text="it is the turn of unreachable nodes:"),
}


def wait_reason(explainer: Explainer, standing: Standing) -> WaitReason | None:
    """The wait of a rollout: why nodes that should be updated now wait, if that is neither a pod nor the budget;
    None: the rollout moves."""
    if standing.awaited:
        return WaitReason(reason=NODES_UNREACHABLE, text=awaiting(standing.awaited))
    if Blocker.HOOK in explainer.waiting or _holds_a_node(explainer):
        return WaitReason(reason=HELD_BY_HOOK, text=holding(explainer))
    if explainer.rollout.in_place and (stuck := _stuck_in_place(explainer.rollout)) is not None:
        return stuck
    return _all_wait(explainer)


def awaiting(names: Collection[str]) -> str:
    """Such as `waits for 3 unreachable nodes: node-2, node-1, node-0`."""
    return f"{WAITS_FOR}{len(names)} unreachable {'node' if len(names) == 1 else 'nodes'}: {some(names)}"


def _all_wait(explainer: Explainer) -> WaitReason | None:
    """The wait of a rollout in which every node waits for somebody else to act, though not all of them for
    unreachable nodes. Its reason is the first in the order of `_WAITS`."""
    rollout, waiting = explainer.rollout, explainer.waiting
    found = [(one, nodes) for one in _WAITS if (nodes := waiting.get(one))]
    if {one for one, _ in found} <= {Blocker.UNREACHABLE} or sum(len(nodes) for _, nodes in found) < len(
        rollout.outdated
    ):
        return None
    parts = []
    for blocker, nodes in found:
        first = rollout.world.unpulled.get(nodes[0].name)
        why = f": {first.why}" if blocker is Blocker.UNPULLED and isinstance(first, Unpullable) else ""
        parts.append(f"{_WAITS[blocker].text} {some(node.name for node in nodes)}{why}")
    return WaitReason(reason=_WAITS[found[0][0]].reason, text=joined(*parts))


def _holds_a_node(explainer: Explainer) -> bool:
    """Whether the preDelete hook keeps a failed pod, or an old one whose successor is available."""
    held = {pod.node for pod in explainer.held_by_hook}
    return any(node.name in held and explainer.blocker(node) is Blocker.HOOK for node in explainer.rollout.nodes)


def _stuck_in_place(rollout: RolloutState) -> WaitReason | None:
    """The wait for pods that were updated in place and do not become what the revision asks for."""
    updated = [node.current for node in rollout.nodes if node.current is not None and not node.current_available]
    pods = [pod for pod in updated if pod.underway is not None]
    for reason, text, why in (
        (
            RESIZE_REFUSED,
            "the resize of pods is refused on",
            {pod.node: resize_refusal(rollout.world, pod) for pod in pods},
        ),
        (RESIZE_DEFERRED, "the resize of pods is deferred on", {pod.node: resize_deferral(pod) for pod in pods}),
        (FAILED_IN_PLACE, "containers do not start again on", {pod.node: pod.problem or "" for pod in pods}),
    ):
        if names := [node for node in why if why[node]]:
            return WaitReason(reason=reason, text=f"{text} {some(names)}: {why[names[0]]}")
    return None
