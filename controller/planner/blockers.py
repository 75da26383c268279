"""What keeps the planner from acting on a pod or a node: one set of rules for its stages and for the explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from zlib import crc32

from controller.api.daemonset import CheckState, LifecycleHook
from controller.api.in_place import Resize
from controller.api.names import ENV_GATE, IN_PLACE_UPDATE_READY, KRUISE_POD_READY, InPlaceRefusal
from controller.api.pod import Pod
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.blocker_texts import Blocker
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
from controller.planner.world import POD_QUOTA, BackoffKey, Unpullable, World

RETRIES = 5
"""Failed nodes that one pass retries at most."""
NEXT_RETRIES = 1.0
"""Seconds between passes that only retry failed writes."""


def rollout_blocker(rollout: RolloutState) -> Blocker | None:
    """What keeps every old pod: OnDelete, an abort, a pause, a check, or too many unreachable nodes."""
    if rollout.rolling_update is None:
        return Blocker.ON_DELETE
    if rollout.abort:
        return Blocker.ABORTED
    if rollout.rolling_update.paused:
        return Blocker.PAUSED
    if (check := rollout.held_by_check) is not None:
        return Blocker.CHECK_FAILING if check.state is CheckState.FAILING else Blocker.CHECK_UNANSWERED
    return Blocker.TOO_MANY_UNREACHABLE if rollout.too_many_unreachable else None


def update_blocker(rollout: RolloutState, node: NodeInfo) -> Blocker | None:
    """The blocker of the first write of a node's update."""
    old = node.old
    if old is None or not is_updated_in_place(rollout, old):
        if old is not None and not rollout.surging and waits_for_hook(rollout, old):
            return Blocker.HOOK
        if node.name in rollout.blocked_nodes:
            return rollout.blocked_nodes[node.name]  # a new pod would be a second one
        if pods_do_not_last(rollout.world, node.name):
            return Blocker.PODS_DO_NOT_LAST
    found = write_blocker(rollout.world, BackoffKey("node", node.name), first_write_of_update(rollout, node))
    found = found or image_blocker(rollout, node)
    if found is None and drained_until(rollout, node) is not None:
        return Blocker.DRAINING
    return found


def image_blocker(rollout: RolloutState, node: NodeInfo) -> Blocker | None:
    """The blocker while the node lacks the new image; None if the old pod has no traffic to lose. A pod that was
    drained for its update or is restarting counts as having traffic."""
    found, old = rollout.world.unpulled.get(node.name), node.old
    if isinstance(found, Unpullable):
        return Blocker.UNPULLED
    if found is None or old is None:
        return None
    restarts = old.in_progress is not None and old.in_progress.is_pending(rollout.world.now) and old.problem is None
    traffic = old.ready or old.drained_for_update or restarts or node.old_only_held
    return Blocker.PULLING if traffic else None


def drained_until(rollout: RolloutState, node: NodeInfo) -> float | None:
    """When the grace period before an update in place ends (seconds since 1970); None: it is over. A start in the far
    future comes from a wrong clock and is ignored."""
    grace, now = rollout.world.daemonset.in_place_grace, rollout.world.now
    in_progress = None if node.old is None else node.old.in_progress
    had_traffic = in_progress is None or in_progress.only_resizes
    if not grace or node.old is None or not had_traffic:
        return None
    ends = [gate.since + 1 + grace for gate in node.old.gates if gate.draining and gate.since is not None]
    return max((moment for moment in ends if now < moment <= now + 1 + 2 * grace), default=None)


def creation_blocker(rollout: RolloutState, node: NodeInfo) -> Blocker | None:
    """The blocker of creating a pod of any revision on a node without a live pod."""
    world = rollout.world
    if node.pods and not rollout.surging:
        asked = is_unanswered(world, *(BackoffKey("object", pod.uid) for pod in node.pods))
        return Blocker.UNANSWERED if asked else Blocker.TERMINATING
    if node.name in rollout.blocked_nodes:
        return rollout.blocked_nodes[node.name]
    if pods_do_not_last(world, node.name):
        return Blocker.PODS_DO_NOT_LAST
    if not world.in_backoff:
        return None
    found = write_blocker(world, BackoffKey("node", node.name))
    return found or (Blocker.RESOURCE_QUOTA if POD_QUOTA in world.in_backoff else None)


def removal_blocker(rollout: RolloutState, pod: Pod) -> Blocker | None:
    """The blocker of replacing a pod. One that has ended stays during the back-off, so that its log can be read."""
    waits = pod.ended and pods_do_not_last(rollout.world, pod.node)
    return Blocker.PODS_DO_NOT_LAST if waits else deletion_blocker(rollout, pod)


def replacement_blocker(rollout: RolloutState, pods: Iterable[Pod]) -> Blocker | None:
    """The blocker of replacing these pods; None if one of them is replaced."""
    found = [removal_blocker(rollout, pod) for pod in pods]
    return None if None in found else found[0]


def deletion_blocker(rollout: RolloutState, pod: Pod) -> Blocker | None:
    """The blocker of deleting the pod for any reason."""
    if waits_for_hook(rollout, pod):
        return Blocker.HOOK
    if pod.node in rollout.world.recreated_externally and pods_do_not_last(rollout.world, pod.node):
        return Blocker.PODS_DO_NOT_LAST
    return write_blocker(rollout.world, BackoffKey("object", pod.uid))


def write_blocker(world: World, *keys: BackoffKey) -> Blocker | None:
    if not world.in_backoff or all(key not in world.in_backoff for key in keys):
        return None
    return Blocker.UNANSWERED if is_unanswered(world, *keys) else Blocker.WRITE_FAILED


def pods_do_not_last(world: World, node: str) -> bool:
    """Whether pods do not last on the node, and the next one is not due yet."""
    return world.now < world.not_before.get(node, 0.0)


def is_given_up(rollout: RolloutState, pod: Pod) -> bool:
    """Whether a write for the pod's deletion failed. It then gets traffic until an attempt succeeds."""
    world, key = rollout.world, BackoffKey("object", pod.uid)
    return (key in world.in_backoff or key in world.due_again) and not waits_for_hook(rollout, pod)


def waits_for_hook(rollout: RolloutState, pod: Pod) -> bool:
    """Whether the pod is fully prepared for its deletion and the preDelete hook still matches it."""
    hook = rollout.world.daemonset.pre_delete
    return hook is not None and pod.held_by_hook and bool(handlers(pod, hook)) and is_prepared(pod, hook)


def is_prepared(pod: Pod, hook: LifecycleHook) -> bool:
    gated = any(gate.type == KRUISE_POD_READY and not gate.unlisted for gate in pod.gates)
    return pod.held_by_hook and pod.marked_not_ready is (hook.mark_pod_not_ready and gated)


def handlers(pod: Pod, hook: LifecycleHook | None) -> tuple[str, ...]:
    """The labels and finalizers by which the hook holds the pod, as texts."""
    if hook is None:
        return ()
    labels, finalizers = hook.labels_handler or {}, hook.finalizers_handler or ()
    found = [f"label {key}={value}" for key, value in pod.labels.items() if labels.get(key) == value]
    return (*found, *(f"finalizer {finalizer}" for finalizer in pod.finalizers if finalizer in finalizers))


def first_write_of_update(rollout: RolloutState, node: NodeInfo) -> BackoffKey:
    return (
        BackoffKey("node", node.name) if rollout.surging or node.old is None else BackoffKey("object", node.old.uid)
    )


def in_the_way(rollout: RolloutState, node: NodeInfo) -> list[Pod]:
    """While surging: pods to delete before one is created beside a live old one, such as one that has failed."""
    if len(node.pods) == 1:
        return []
    ended = node.awaits_retry(rollout.revision.hash)
    if len(node.live) <= 1 and not ended:
        return []
    return [pod for pod in node.pods if not pod.terminating and pod is not node.old and (ended or not pod.ended)]


def outgoing(rollout: RolloutState, node: NodeInfo) -> Pod | None:
    """Which of an old and a current live pod is deleted; neither on an unreachable node, where that has no effect."""
    current, old = node.current, node.old
    if current is None or old is None or node.unreachable:
        return None
    if node.fit is Fit.STAY and not current.bound:
        return current  # no pod can start there any more
    if rollout.surging:
        return old if node.current_available or not old.ready_ignoring_hook else None
    better = (node.old_available, old.ready_ignoring_hook) > (node.current_available, current.ready_ignoring_hook)
    return current if better else old


def is_updated_in_place(rollout: RolloutState, pod: Pod) -> bool:
    return rollout.in_place and isinstance(in_place_change_of(rollout, pod), InPlaceChange)


def in_place_change_of(rollout: RolloutState, pod: Pod) -> InPlaceChange | NotPossible:
    """The update in place of an old pod to the current revision, or why it needs a new pod."""
    change = rollout.world.changes.get(pod.hash)
    if change is None:
        return NotPossible(why="their revision is not stored any more", refusal=InPlaceRefusal.OTHER)
    if isinstance(change, NotPossible):
        return change
    if why := rollout.world.unmapped.get(pod.uid):
        return NotPossible(why=why, refusal=InPlaceRefusal.ADMISSION)
    if not pod.bound:
        return NotPossible(why="they are on no node yet", refusal=InPlaceRefusal.OTHER)
    if change.restarts and all(gate.type != IN_PLACE_UPDATE_READY for gate in pod.gates):
        why = f"they were made without the readiness gate {IN_PLACE_UPDATE_READY}"
        return NotPossible(why=why, refusal=InPlaceRefusal.READINESS_GATE)
    if change.rereads and not (rollout.world.reads_env and pod.has_node_agent):
        lacking = f"the feature gate {ENV_GATE} is off" if pod.has_node_agent else "no node agent restarts it"
        why = f"container {change.rereads[0]} reads a changed label or annotation from its environment, and {lacking}"
        return NotPossible(why=why, refusal=InPlaceRefusal.NODE_AGENT)
    return change


def is_recreated(world: World, pod: Pod) -> bool:
    """Whether the pod is replaced because its resize is refused."""
    return bool(resize_refusal(world, pod)) and (world.daemonset.recreates_unresized or bool(world.no_resize))


def resize_refusal(world: World, pod: Pod) -> str:
    """Why the kubelet or the server refuses to resize the pod; empty: neither does."""
    if pod.in_progress is None or pod.in_progress.resize is None:
        return ""
    if pod.in_progress.resize is Resize.INFEASIBLE:
        return pod.in_progress.problem
    known = world.refused_resizes.get(pod.uid, "")
    return known or (world.no_resize if pod.in_progress.resize is Resize.PROPOSED else "")


def resize_deferral(pod: Pod) -> str:
    if pod.in_progress is None or pod.in_progress.resize is not Resize.DEFERRED:
        return ""
    return pod.in_progress.problem or Resize.DEFERRED


def has_failed(world: World) -> bool:
    """Whether a write has failed and not succeeded since."""
    return bool(world.in_backoff or world.due_again)


def is_unanswered(world: World, *keys: BackoffKey) -> bool:
    in_flight = world.in_flight
    return bool(in_flight) and any(key in in_flight for key in keys)


def others_first(
    world: World, nodes: Iterable[NodeInfo], key_of: Callable[[NodeInfo], BackoffKey], *, scattered: bool = False
) -> list[NodeInfo]:
    """`nodes` in order, then at most `RETRIES` of those where a write failed, the longest due first: a failing node
    takes no budget from others. With `scattered`, the others are ordered by a checksum of their names once a write
    has failed, because nodes of one kind fail together and have similar names."""
    due = world.due_again
    if not due and not (scattered and world.in_backoff):
        return list(nodes)
    others = [node for node in nodes if key_of(node) not in due]
    again = sorted((node for node in nodes if key_of(node) in due), key=lambda node: due[key_of(node)])
    if scattered:
        others.sort(key=lambda node: crc32(node.name.encode()))
    return others + again[:RETRIES]


def next_retry(world: World) -> float | None:
    """When the first backoff of a write or of a node ends (seconds since 1970)."""
    held = [until for until in world.in_backoff.values() if until < inf]
    retry = [max(min(held), world.now + NEXT_RETRIES)] if held else []
    ends = (end for ends in (world.not_before, world.short_lived) for end in ends.values() if end > world.now)
    return min([*retry, *ends], default=None)
