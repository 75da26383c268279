"""The stages that keep the history, that is, the stored revisions: create, renumber, remove duplicates, trim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.api.revision import HIGHEST_NUMBER
from controller.planner.actions import (
    Action,
    CreateRevision,
    DeleteRevision,
    RecordRun,
    RelabelPod,
    RenumberRevision,
)
from controller.planner.board import Board
from controller.planner.current_revision import of_template
from controller.planner.eligibility import Fit
from controller.planner.step import Step
from controller.planner.world import hashes_of_pods


def _unless_held_back(board: Board, actions: Iterable[Action], *, more: bool) -> Step:
    """A step with those actions that are not held back. A held back write keeps nothing else waiting."""
    free = tuple(action for action in actions if action.place not in board.world.held_back)
    return Step(actions=free, more=more and bool(free))


def settle_history(board: Board) -> Step:
    """The stage that makes the current revision exist exactly once, with the highest number.

    A rollback gives the old revision a new number. If several revisions mean the same, the newest stays: pods of the
    others get its label, without a restart, and then the others are deleted. Pods of a duplicate that is being
    deleted but held by a finalizer are relabelled too, because its name and hash are taken until it is gone.
    """
    revision = board.revision
    if not revision.uid:
        create = CreateRevision(name=revision.name, hash=revision.hash, number=revision.number)
        return _unless_held_back(board, (create,), more=True)
    newest = board.history[0].number if board.history else 0
    highest = min(max(revision.number, newest + 1), HIGHEST_NUMBER)
    if revision.number < highest:
        renumber = RenumberRevision(revision=revision.ref, number=highest)
        return _unless_held_back(board, (renumber,), more=True)
    twins = of_template(board.world.daemonset, board.history)
    if not twins:
        return Step()
    hashes = {one.hash for one in twins} - {revision.hash}
    pods = sorted((pod for pod in board.world.pods if pod.hash in hashes), key=lambda pod: pod.name)
    if pods:
        relabels = (RelabelPod(pod=pod.ref, hash=revision.hash) for pod in pods)
        return _unless_held_back(board, relabels, more=True)
    return _unless_held_back(board, (DeleteRevision(revision=one.ref) for one in twins if not one.dying), more=True)


def trim_history(board: Board) -> Step:
    """The stage that records which revisions pods have, and deletes the oldest beyond revisionHistoryLimit, but never
    one that a pod has, nor the stable one: `rollback` goes back to that.

    While partition, selector or pause keep nodes on older revisions, the revisions are kept from which pods may be
    recreated there: the one with the most pods, and the last one of each empty node.
    """
    new = [one for one in (board.revision, *board.history) if one.never_ran and not one.dying]
    ran = hashes_of_pods(board.world) if new else frozenset[str]()
    unmark = [RecordRun(revision=one.ref) for one in new if one.hash in ran]
    return _unless_held_back(board, (*unmark, *_surplus(board)), more=False)


def _surplus(board: Board) -> Sequence[DeleteRevision]:
    daemonset = board.world.daemonset
    surplus = len(board.history) - daemonset.spec.history_limit
    if surplus <= 0:
        return ()
    in_use = {pod.hash for pod in board.world.pods}
    if daemonset.status is not None and daemonset.status.stable_revision is not None:
        in_use.add(daemonset.status.stable_revision)
    if board.holds_back:
        in_use |= {slot.last for slot in board.slots if slot.fit is Fit.RUN and slot.last is not None}
        if board.fallback.most_run is not None:
            in_use.add(board.fallback.most_run.hash)
    idle = [one for one in reversed(board.history) if one.hash not in in_use and not one.dying]
    return [DeleteRevision(revision=one.ref) for one in idle[:surplus]]
