"""Finds what stops the planner from acting on a pod or a node. Each stage asks here before it acts.

Retries at places where writes failed: after a while, and after everything that never failed.

Decides which revision an empty node gets, or why it gets no pod yet.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from math import inf
from typing import assert_never
from zlib import crc32

from controller.api.daemonset import LifecycleHook
from controller.api.in_place import Resize, Underway
from controller.api.names import ENV_GATE, IN_PLACE_UPDATE_READY, KRUISE_POD_READY, InPlaceRefusal
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.blockers import Blocker
from controller.planner.limits import awaits_retry, only_held
from controller.planner.node_fit import Fit
from controller.planner.nodes import NodeInfo
from controller.planner.rollout_state import RolloutState
from controller.planner.world import POD_QUOTA, BackoffKey, BeingPulled, Unpullable, World

_SWITCHED_OFF = "the controller may not change cpu and memory in place any more"


def hooked(pod: Pod, hook: LifecycleHook | None) -> bool:
    """Whether the preDelete hook matches this pod, that is, the pod has any of its labels or finalizers."""
    return bool(handlers(pod, hook))


def handlers(pod: Pod, hook: LifecycleHook | None) -> tuple[str, ...]:
    """The labels and finalizers by which the hook holds the pod, in words. They are taken from the pod, where their
    number is bounded; in the hook it is not."""
    if hook is None:
        return ()
    labels, finalizers = hook.labels_handler or {}, hook.finalizers_handler or ()
    found = [f"label {key}={value}" for key, value in pod.labels.items() if labels.get(key) == value]
    return (*found, *(f"finalizer {one}" for one in pod.finalizers if one in finalizers))


def is_prepared(pod: Pod, hook: LifecycleHook) -> bool:
    """Whether the pod is fully prepared, so that only its hook is waited for."""
    gated = any(gate.type == KRUISE_POD_READY and not gate.foreign for gate in pod.gates)
    return pod.held_by_hook and pod.marked is (hook.mark_pod_not_ready and gated)


def waits_for_hook(rollout: RolloutState, pod: Pod) -> bool:
    """Whether the pod was prepared for its deletion and the preDelete hook still holds it."""
    hook = rollout.world.daemonset.pre_delete
    return hook is not None and pod.held_by_hook and hooked(pod, hook) and is_prepared(pod, hook)


def is_given_up(rollout: RolloutState, pod: Pod) -> bool:
    """Whether the last write towards deleting this pod has failed. The pod then serves until a later attempt
    succeeds. Never true while only its hook is waited for: no write is due then."""
    world, place = rollout.world, BackoffKey.of_object(pod.uid)
    return (place in world.in_backoff or place in world.due_again) and not waits_for_hook(rollout, pod)


def write_blocker(world: World, *places: BackoffKey) -> Blocker | None:
    """The blocker to a write at one of these places: one has failed more than once and may not be tried yet, or one
    is not answered yet. None: no blocker."""
    if not world.in_backoff or all(place not in world.in_backoff for place in places):
        return None
    return Blocker.UNANSWERED if is_unanswered(world, *places) else Blocker.IN_BACKOFF


def deletion_blocker(rollout: RolloutState, pod: Pod) -> Blocker | None:
    """The blocker to deleting this pod, whatever the reason to delete it."""
    if waits_for_hook(rollout, pod):
        return Blocker.HOOK
    if pod.node in rollout.world.restored and waits_for_back_off(rollout.world, pod.node):
        return Blocker.BACK_OFF
    return write_blocker(rollout.world, BackoffKey.of_object(pod.uid))


def waits_for_back_off(world: World, node: str) -> bool:
    """Whether the pods of this node do not last, so that its next one is not due yet."""
    return world.now < world.not_before.get(node, 0.0)


def removal_blocker(rollout: RolloutState, pod: Pod) -> Blocker | None:
    """The blocker to deleting a pod that is in the way of another one. A pod that has ended stays while its node
    waits for its back-off: its log can be read so long."""
    waits = pod.ended and waits_for_back_off(rollout.world, pod.node)
    return Blocker.BACK_OFF if waits else deletion_blocker(rollout, pod)


def rollout_blocker(rollout: RolloutState) -> Blocker | None:
    """The setting that keeps every old pod: OnDelete or a pause."""
    if rollout.rolling_update is None:
        return Blocker.ON_DELETE
    return Blocker.PAUSED if rollout.rolling_update.paused else None


def update_blocker(rollout: RolloutState, node: NodeInfo) -> Blocker | None:
    """The blocker to the first write of the update of this node."""
    old = node.old
    if (
        old is not None
        and not rollout.surging
        and waits_for_hook(rollout, old)
        and not is_updated_in_place(rollout, old)
    ):
        return Blocker.HOOK
    if node.name in rollout.taken and (old is None or not is_updated_in_place(rollout, old)):
        return rollout.taken[node.name]  # a new pod would be a second one
    if waits_for_back_off(rollout.world, node.name) and not (old is not None and is_updated_in_place(rollout, old)):
        return Blocker.BACK_OFF
    found = write_blocker(rollout.world, BackoffKey.of_node(node.name), first_write_of_update(rollout, node))
    found = found or image_blocker(rollout, node)
    if found is None and drained_until(rollout, node) is not None:
        return Blocker.DRAINING
    return found


def image_blocker(rollout: RolloutState, node: NodeInfo) -> Blocker | None:
    """The blocker while the new image is not on the node. None if the old pod serves nobody: pulling then costs
    nothing. These serve: a ready pod, which has traffic long before it counts as available; one that was drained for
    an update, because it gets its traffic back meanwhile; and one that restarts into another image."""
    found, old = rollout.world.unpulled.get(node.name), node.old
    match found:
        case None:
            return None
        case Unpullable():
            return Blocker.UNPULLED
        case BeingPulled():
            serves = only_held(node) or (old is not None and (old.ready or _is_to_serve(old, rollout.world.now)))
            return Blocker.PULLING if serves else None
        case _:
            assert_never(found)


def _is_to_serve(pod: Pod, now: float) -> bool:
    restarts = pod.underway is not None and pod.underway.lasts(now) and pod.problem is None
    return pod.drained_for_update or restarts


def drained_until(rollout: RolloutState, node: NodeInfo) -> float | None:
    """When the grace period before an update in place ends (seconds since 1970); None: it is over. Its start is given
    in whole seconds; a start far ahead comes from a wrong clock and does not count."""
    grace, now = rollout.world.daemonset.in_place_grace, rollout.world.now
    if not grace or node.old is None or not _had_traffic(node.old.underway):
        return None
    ends = [gate.since + 1 + grace for gate in node.old.gates if gate.draining and gate.since is not None]
    return max((moment for moment in ends if now < moment <= now + 1 + 2 * grace), default=None)


def _had_traffic(underway: Underway | None) -> bool:
    """Whether a pod had traffic until it was drained: not in the middle of an update, unless only its resize
    waits."""
    return underway is None or underway.only_resizes


def creation_blocker(rollout: RolloutState, node: NodeInfo) -> Blocker | None:
    """The blocker to creating a pod on a node that has no live one, whatever its revision."""
    world = rollout.world
    if node.pods and not rollout.surging:
        asked = is_unanswered(world, *(BackoffKey.of_object(pod.uid) for pod in node.pods))
        return Blocker.UNANSWERED if asked else Blocker.TERMINATING
    if node.name in rollout.taken:
        return rollout.taken[node.name]
    if waits_for_back_off(world, node.name):
        return Blocker.BACK_OFF
    if not world.in_backoff:
        return None
    found = write_blocker(world, BackoffKey.of_node(node.name))
    return found or (Blocker.RESOURCE_QUOTA if POD_QUOTA in world.in_backoff else None)


def first_write_of_update(rollout: RolloutState, node: NodeInfo) -> BackoffKey:
    """The place of the first write of this update: a new pod beside the old one, or the deletion of the old one."""
    return (
        BackoffKey.of_node(node.name) if rollout.surging or node.old is None else BackoffKey.of_object(node.old.uid)
    )


def in_the_way(rollout: RolloutState, node: NodeInfo) -> list[Pod]:
    """While surging: pods beside a live old one that must go before a new one is created.

    An excess pod leaves no room for a third one. A failed current pod stays until its back-off is over.
    """
    if len(node.pods) == 1:
        return []
    ended = awaits_retry(node, rollout.revision.hash)
    if node.single and not ended:
        return []
    return [pod for pod in node.pods if not pod.dying and pod is not node.old and (ended or not pod.ended)]


def outgoing(rollout: RolloutState, node: NodeInfo) -> Pod | None:
    """The one of two live pods, one of each kind, that goes now; None: neither. While surging that is the old one,
    once it is not needed any more.

    On an unreachable node a deletion would change nothing, so neither goes.
    """
    current, old = node.current, node.old
    if current is None or old is None or node.unreachable:
        return None
    if node.fit is Fit.STAY and not current.bound:
        return current  # no pod can start there any more
    if rollout.surging:
        return old if node.current_available or not old.ready_ignoring_hook else None
    better = (node.old_available, old.ready_ignoring_hook) > (node.current_available, current.ready_ignoring_hook)
    return current if better else old


def resize_refusal(world: World, pod: Pod) -> str:
    """Why the kubelet or the server refuses to resize the pod; empty: neither does, or no resize is needed."""
    if pod.underway is None or pod.underway.resize is None:
        return ""
    if pod.underway.resize is Resize.REFUSED:
        return pod.underway.problem
    known = world.refused_resizes.get(pod.uid, "")
    if known or pod.underway.resize is not Resize.WANTED or world.resizable:
        return known
    return world.no_resize or _SWITCHED_OFF


def resize_deferral(pod: Pod) -> str:
    """Why the kubelet defers the resize of the pod; empty: it does not."""
    if pod.underway is None or pod.underway.resize is not Resize.DEFERRED:
        return ""
    return pod.underway.problem or Resize.DEFERRED


def is_recreated(world: World, pod: Pod) -> bool:
    """Whether a pod whose resize is refused is replaced by a new one."""
    return bool(resize_refusal(world, pod)) and (world.daemonset.recreates_unresized or not world.resizable)


def is_updated_in_place(rollout: RolloutState, pod: Pod) -> bool:
    """Whether the update of this old pod is done in place."""
    return rollout.in_place and isinstance(in_place_change_of(rollout, pod), InPlaceChange)


def in_place_change_of(rollout: RolloutState, pod: Pod) -> InPlaceChange | NotPossible:
    """The changes of the current revision to an old pod in place; or why it needs a new pod."""
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


RETRIES = 5
"""Failed nodes that one pass tries again, so that it has no more failures than this; the others come later."""
NEXT_RETRIES = 1.0
"""Seconds between passes that only retry failed writes. While some nodes were not tried yet, the next pass comes at
the latest after this time."""


def has_failed(world: World) -> bool:
    """Whether a write has failed and has not succeeded since."""
    return bool(world.in_backoff or world.due_again)


def is_unanswered(world: World, *places: BackoffKey) -> bool:
    """Whether a write at one of these places is still unanswered."""
    awaited = world.awaited
    return bool(awaited) and any(place in awaited for place in places)


def others_first(
    world: World, nodes: Iterable[NodeInfo], place_of: Callable[[NodeInfo], BackoffKey], *, scattered: bool = False
) -> list[NodeInfo]:
    """`nodes` in order, but those whose place has failed come last, at most `RETRIES`, the longest due first.

    So a node that always fails takes no turn and no budget from others. `scattered`: while something fails, others
    are ordered by a checksum of their names, because nodes of one kind fail together and have similar names.
    """
    due = world.due_again
    if not due and not (scattered and world.in_backoff):
        return list(nodes)
    others = [node for node in nodes if place_of(node) not in due]
    again = sorted((node for node in nodes if place_of(node) in due), key=lambda node: due[place_of(node)])
    if scattered:
        others.sort(key=lambda node: crc32(node.name.encode()))
    return others + again[:RETRIES]


def next_retry(world: World) -> float | None:
    """The earliest end of a wait (seconds since 1970): of a place that is held back, or of a node whose pods do not
    last; None: there is none."""
    held = [until for until in world.in_backoff.values() if until < inf]
    retry = [max(min(held), world.now + NEXT_RETRIES)] if held else []
    ends = (end for ends in (world.not_before, world.short_lived) for end in ends.values() if end > world.now)
    return min([*retry, *ends], default=None)


def fillable(rollout: RolloutState) -> list[NodeInfo]:
    """The eligible nodes without a pod that may get one, whatever its revision, ascending."""
    return [node for node in rollout.without_pod if creation_blocker(rollout, node) is None]


def in_order(rollout: RolloutState, empty: Sequence[NodeInfo]) -> list[NodeInfo]:
    """`empty` in the order of creation, without the nodes that are left for a later pass."""
    return others_first(rollout.world, empty, lambda node: BackoffKey.of_node(node.name), scattered=True)


def refills(rollout: RolloutState, empty: Sequence[NodeInfo]) -> list[tuple[NodeInfo, Revision | Blocker]]:
    """The revision that each node of `empty` gets, or a blocker. Call it with `fillable` nodes, `in_order`.

    A node gets the current revision if it may hold that and it is stored, else what `Fallback` says. If that revision
    does not run there, the node stays empty. With partitionedScaling, nodes that never had a pod wait for their turn.
    No node gets a revision of which the server does not know every field.
    """
    refused = Blocker.REFUSED if rollout.refused_for_unknown_fields else None
    if rollout.fills_with_current:
        return [(node, refused or rollout.revision) for node in empty]
    may_hold = rollout.holders
    waiting: Container[str] = ()
    if rollout.progressive:
        waiting, started = _in_turn(rollout, empty, may_hold)
        may_hold |= started
    current, fallback, replaced = rollout.revision, rollout.fallback, rollout.fallback.replaces_current
    found: list[tuple[NodeInfo, Revision | Blocker]] = []
    for node in empty:
        if node.name in waiting:
            found.append((node, Blocker.SCALING))
            continue
        may = node.name in may_hold
        revision = current if may and not replaced else fallback.revision(node)
        if revision is current and refused:
            found.append((node, refused))
        elif fallback.accepts(node, revision):
            found.append((node, revision))
        else:
            found.append((node, Blocker.UNSTORED if may else Blocker.PLACEMENT))
    return found


def _in_turn(rollout: RolloutState, empty: Sequence[NodeInfo], may_hold: Container[str]) -> tuple[set[str], set[str]]:
    """New nodes that have to wait because the quota is used up, and new nodes that get the current revision.

    Nodes that lost their pod never wait. Nodes that selector or pause keep from the current revision do not count.

    OpenKruise does not even replace a lost pod while the quota is used up. A pod counts as lost only if this process
    has seen it: after a restart, its node waits like a new one.
    """
    returning = [node for node in rollout.eligible if node.had_old and not node.live and node.name in may_hold]
    room = rollout.quota - sum(1 for node in rollout.eligible if node.had_current) - len(returning)
    frozen = rollout.frozen
    waiting: set[str] = set()
    started: set[str] = set()
    for node in empty:
        if node.had_current or node.had_old:
            continue
        if room <= 0:
            waiting.add(node.name)
        elif not rollout.older or (node.selected and not frozen):
            started.add(node.name)
            room -= 1
    return waiting, started
