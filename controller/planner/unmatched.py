"""Pods that we control although the selector does not match them: they are released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.api.pod import Pod
from controller.planner.world import World


def split_unmatched(world: World) -> tuple[Sequence[Pod], tuple[Pod, ...]]:
    """Our pods, and those of them that the selector does not match."""
    matches = world.rules.owns
    known: dict[int, bool] = {}  # label sets are shared between pods: ask once per set
    unmatched = []
    for pod in world.pods:
        labels = pod.labels
        ours = known.get(id(labels))
        if ours is None:
            ours = known[id(labels)] = matches(labels) or matches({**labels, **taken_away(world, pod)})
        if not ours:
            unmatched.append(pod)
    if not unmatched:
        return world.pods, ()
    uids = {pod.uid for pod in unmatched}
    return [pod for pod in world.pods if pod.uid not in uids], tuple(unmatched)


def taken_away(world: World, pod: Pod) -> Mapping[str, str]:
    """Labels that let this pod go, and that the selector asks for too: as long as it is prepared it is ours without
    them, or it would run on, nobody's, beside the one that comes in its place."""
    hook, selector = world.daemonset.pre_delete, world.daemonset.spec.selector
    if hook is None or not pod.held_by_hook or world.rules.owns(pod.labels):
        return {}
    asked = {*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())}
    return {key: value for key, value in (hook.labels_handler or {}).items() if key in asked}
