"""The caches' view of one DaemonSet, frozen into a World. The only reader of the stores on behalf of the planner."""

from __future__ import annotations

from controller.api.daemonset import DaemonSet
from controller.api.pod import Pod
from controller.daemonset.caches import Caches
from controller.daemonset.hands import FailedPods
from controller.daemonset.memory import Memory
from controller.planner.world import World


def gather(
    daemonset: DaemonSet,
    caches: Caches,
    memory: Memory,
    failed_pods: FailedPods,
    now: float,
    moment: float,
    *,
    fresh: bool,
) -> World:
    """Give the DaemonSet with the newest status that is known: the next one is worked out from it.

    `now` is in seconds since 1970; `moment` is `elapsed` now, by which everything that lasts was remembered. The
    world gets both in seconds since 1970, worked out anew in each pass: a clock that is set changes no duration.

    Raises ValueError for placement fields that cannot be compiled.
    """
    rules = memory.rules_of(daemonset)
    pods, revisions = caches.pods_of(daemonset), caches.revisions_of(daemonset)
    collisions = (daemonset.status.collision_count or 0) if daemonset.status is not None else 0
    return World(
        daemonset=daemonset,
        rules=rules,
        nodes=caches.fleet.nodes,
        pods=pods,
        orphans=caches.orphans_in(daemonset.namespace),
        revisions=revisions,
        placements=memory.placements_of(revisions),
        orphan_revisions=caches.orphan_revisions_in(daemonset.namespace),
        now=now,
        fresh=fresh,
        not_before=_not_before(daemonset, pods, failed_pods, now, moment),
        predecessors=memory.predecessors,
        ready_seen=memory.ready_seen(pods, now),
        verdicts=memory.verdicts,
        refusals=memory.refusals,
        ask_at=now + memory.ask_at - moment,
        held_back={what: now + until - moment for what, until in memory.held_back(moment).items()},
        due_again={what: now + since - moment for what, since in memory.due_again(moment).items()},
        trouble=memory.trouble.words if memory.trouble is not None else "",
        unreadable=_unreadable(daemonset, caches),
        collisions=max(memory.collisions, collisions),
    )


def _not_before(
    daemonset: DaemonSet, pods: tuple[Pod, ...], failed_pods: FailedPods, now: float, moment: float
) -> dict[str, float]:
    """For each node with a failed pod: when it may be replaced (seconds since 1970)."""
    return {
        pod.node: now + failed_pods.remaining((daemonset.uid, daemonset.generation, pod.node), moment)
        for pod in pods
        if pod.phase == "Failed"
    }


def _unreadable(daemonset: DaemonSet, caches: Caches) -> str:
    """About a pod of ours that cannot be decoded; whose it is can only be told by its name."""
    for key, reason in caches.pods.malformed.items():
        if key.namespace == daemonset.namespace and key.name.rpartition("-")[0] == daemonset.name:
            return f"pod {key} cannot be read: {reason}"
    return ""
