"""Finds the revision that a rollback goes to: the last one that proved itself, and the one that did so before it."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import Rollout
from controller.api.revision import Revision
from controller.api.template_identity import without_restart
from controller.planner.revisions import of_template
from controller.planner.rollout_state import RolloutState

SOAK_SECONDS: Final = 30.0
"""For so long, or for minReadySeconds if that is longer, a pod must have been ready to prove its revision."""


def with_stable(rollout: RolloutState, record: Rollout, *, observed: bool) -> tuple[Rollout, float | None]:
    """The record with the stable revision and the one before it, and when another one becomes stable, if nothing
    happens (seconds since 1970); None: not by waiting.

    Nothing is concluded from what is incomplete: own writes that are not seen yet, a pod that cannot be decoded. A
    restart makes no other revision; and one that was gone back to has none before it, because the one before is the
    one that was abandoned. While none is stable, the first that was available everywhere stands in for it.
    """
    current = rollout.revision
    twins = {one.hash for one in of_template(rollout.world.daemonset, rollout.history)}  # about to be deleted
    known, former = (
        current.hash if one in twins else one for one in (record.stable_revision, record.previous_stable_revision)
    )
    record = replace(record, stable_revision=known, previous_stable_revision=former)
    if known == current.hash or rollout.world.unreadable:
        return record, None
    proven, moment = _proven(rollout, 0.75 if known is not None else 0.5, observed=observed)
    if proven is None or proven.hash == known:
        return record, None
    if moment > rollout.world.now:
        first = proven is current and known is None and former is None
        return replace(record, previous_stable_revision=proven.hash if first else former), moment
    stored = {one.hash: without_restart(one.template) for one in (current, *rollout.history)}
    content = stored[proven.hash]
    if known is None or stored.get(known) != content:
        former = None if former is not None and stored.get(former) == content else known
    return replace(record, stable_revision=proven.hash, previous_stable_revision=former), None


def _proven(rollout: RolloutState, share: float, *, observed: bool) -> tuple[Revision | None, float]:
    """The revision that the pods prove, and the moment of that, if they stay as they are.

    The current one is proven by available pods on all nodes that can be reached, an older one on more than `share` of
    them: with a few nodes kept old for good, or one where its pod never got ready, it was what most nodes had. Nodes
    that cannot be reached do not count, if they are fewer than half.
    """
    seen = rollout.world.ready_seen
    reached = [node for node in rollout.eligible if not node.unreachable]
    moments: dict[str, list[float]] = {}
    for node in reached:
        pod = node.old if node.old is not None else node.current
        available = node.old_available if node.old is not None else node.current_available
        if pod is not None and available and pod.ready_since is not None:
            since = min(pod.ready_since, seen.get(pod.uid, pod.ready_since))
            moments.setdefault(pod.hash, []).append(since + SOAK_SECONDS)
    current = moments.get(rollout.revision.hash, [])
    if len(current) == len(reached) > rollout.budget.desired / 2 and observed and rollout.revision.uid:
        return rollout.revision, max(current)
    enough = int(max(len(reached) * share, rollout.budget.desired / 2))
    for one in rollout.history:
        if len(found := sorted(moments.get(one.hash, ()))) > enough:
            return one, found[enough]
    return None, 0.0
