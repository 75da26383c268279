"""Who owns what: adopt what the selector matches and nobody controls, release what it no longer matches."""

from __future__ import annotations

from controller.planner.actions import Action, AdoptPod, AdoptRevision, ReleasePod, Step
from controller.planner.board import Board


def claim(board: Board) -> Step:
    """Adoption and release of pods, adoption of revisions.

    At most `burst` of them a pass. A dying orphan is never adopted. The executor re-reads the DaemonSet from the
    server before the first adoption.
    """
    world = board.world
    matches = world.rules.owns
    strangers = [pod for pod in board.strangers if pod.uid not in world.held_back]
    releases = [ReleasePod(pod=pod.ref, owner_index=pod.owner_index) for pod in strangers if not pod.dying]
    adopted = [
        AdoptPod(pod=pod.ref, owners=pod.owner_index)
        for pod in world.orphans
        if not pod.dying and not pod.ended and pod.uid not in world.held_back and matches(pod.labels)
    ]
    histories = [
        AdoptRevision(revision=revision.ref, owners=revision.owner_index)
        for revision in world.orphan_revisions
        if not revision.dying and revision.uid not in world.held_back and matches(revision.labels)
    ]
    actions: tuple[Action, ...] = (
        *sorted(releases, key=lambda one: one.pod.name),
        *sorted(adopted, key=lambda one: one.pod.name),
        *sorted(histories, key=lambda one: one.revision.name),
    )
    return Step(actions=actions[: board.budget.burst], more=bool(actions))
