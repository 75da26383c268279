"""Rolls back to an earlier revision: its whole template, and whatever else would keep nodes from going back to it.

With a partition, a selector or a pause, an earlier template alone updates no node: the nodes that never left that
revision use up the quota, and the bad nodes stay bad. So the partition and the pause are lifted in the same write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, Rollout
from controller.api.objects import Value
from controller.planner.nodes import NodeInfo
from kubectl_plugin.commands import command
from kubectl_plugin.durations import short_duration
from kubectl_plugin.edits.annotations import template_gone_back_to
from kubectl_plugin.edits.draft import Draft
from kubectl_plugin.edits.edit import ROLLING, Edit
from kubectl_plugin.edits.effects import cautions, on_delete_caution, rollout_after
from kubectl_plugin.failures import CommandError, ExitCode
from kubectl_plugin.report.revisions.history import kept_revisions, live_revision
from kubectl_plugin.report.revisions.images import images_of, short_beside
from kubectl_plugin.report.snapshot import RevisionDetail, Snapshot


class RollbackWish(Value):
    """What a person asks of a rollback."""

    to_revision: int | None = None
    """The number of a revision; None for the one that `target_of` finds."""
    keep_partition: bool = False
    keep_paused: bool = False
    drop_selector: bool = False


def target_of(snapshot: Snapshot, to_revision: int | None) -> RevisionDetail:
    """The revision to go back to: the one with that number. Without a number it is the last one that was rolled out
    completely, by the controller's record; where that is the live one, and complete, the one before.

    Without a record it is the newest that has run, unless most of the nodes that are still to be updated run another
    one: then the newest never got beyond a few nodes. Nothing is concluded from what could not be read.

    Raises CommandError where there is no such revision, or no longer; with exit code 6, and the revisions to choose
    from, where the target cannot be known.
    """
    daemonset, status = snapshot.daemonset, snapshot.daemonset.status
    kept, others = kept_revisions(snapshot), other_revisions(snapshot)
    if to_revision is not None:
        found = next((one for one in kept if one.revision.number == to_revision), None)
        if found is None:
            raise _not_kept(daemonset, to_revision, kept)
        return found
    if not others:
        raise _nothing_earlier(daemonset, kept)
    if status is None or status.stable_revision is None:
        return others[0] if len(others) == 1 else _most_run(snapshot, others)
    stable = next((one for one in kept if one.revision.hash == status.stable_revision), None)
    if stable is None:
        raise _unknown(snapshot, "the last revision that was rolled out completely is not kept")
    if stable.revision.identity != daemonset.identity:
        return stable
    if not _is_everywhere(status):
        raise _unknown(snapshot, f"nodes are on their way back to revision {stable.revision.number}")
    return next((one for one in others if not one.revision.never_ran), others[0])


def _is_everywhere(status: DaemonSetStatus) -> bool:
    """Whether the stable revision is the one that was rolled out last, and no node keeps another."""
    record = status.rollout or Rollout()
    is_last = status.update_revision == record.stable_revision
    return is_last and record.completion_time is not None and record.phase != Phase.HELD


def other_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """The kept revisions that mean something else than the live template, the newest first."""
    return [one for one in kept_revisions(snapshot) if one.revision.identity != snapshot.daemonset.identity]


def depends_on_nodes(snapshot: Snapshot) -> bool:
    """Whether `target_of`, without a number, needs all pods and nodes."""
    status = snapshot.daemonset.status
    return (status is None or status.stable_revision is None) and len(other_revisions(snapshot)) > 1


def _most_run(snapshot: Snapshot, others: list[RevisionDetail]) -> RevisionDetail:
    read = {"pods": snapshot.pods_readable, "nodes": snapshot.nodes is not None}
    unread = [what for what, readable in read.items() if not readable]
    if unread or rollout_after(snapshot) is None:
        why = f"{' and '.join(unread)} could not be read" if unread else "its spec cannot be used"
        raise _unknown(snapshot, f"no revision is known to have been rolled out completely, and {why}")
    run = {one.pod.hash for one in snapshot.pods}
    others = [one for one in others if not one.revision.never_ran or one.revision.hash in run] or others
    left = _nodes_left(snapshot)
    return next((one for one in others if left[one.revision.hash] * 2 > left.total()), others[0])


def age_and_images(snapshot: Snapshot, one: RevisionDetail) -> str:
    """Such as `12d ago, agent:1.8.4`, with the images that differ from the live ones."""
    live = images_of(snapshot.daemonset.spec.template)
    kept = images_of(one.revision.template)
    images = [short_beside(image, live.get(name, "")) for name, image in kept.items() if live.get(name) != image]
    return ", ".join((f"{short_duration(snapshot.now - one.created)} ago", *images))


def choice_explained(snapshot: Snapshot, target: RevisionDetail) -> str:
    """Why `target_of` chose this revision; empty if it is the one that everybody would expect."""
    left, number, status = _nodes_left(snapshot), target.revision.number, snapshot.daemonset.status
    newer = [one.revision.number for one in other_revisions(snapshot) if one.revision.number > number]
    if newer and status is not None and status.stable_revision == target.revision.hash:
        return f"it is the last one that was rolled out completely; revision {max(newer)} was not"
    if newer and left:
        run = "nodes left to update runs it" if left.total() == 1 else "nodes left to update run it"
        return f"{left[target.revision.hash]} of {left.total()} {run}, not revision {max(newer)}"
    if newer:
        return f"no pod has had revision {max(newer)}"
    older = len(nodes_going_forward(snapshot, target))
    run = "1 node runs an older one" if older == 1 else f"{older} nodes run older ones"
    return f"it is the one before; {run}" if older else ""


def _nodes_left(snapshot: Snapshot) -> Counter[str]:
    """The nodes that this update may still move, counted by the hash of the revision that they run."""
    free = (node for node in _eligible_slots(snapshot) if node.only_old and node.selected and not node.unreachable)
    return Counter(node.old.hash for node in free if node.old is not None)


def already_back(snapshot: Snapshot) -> RevisionDetail | None:
    """The live revision, where the last change was a rollback to it; else None.

    Whoever asks again, perhaps because no answer came, does not want the abandoned revision back.
    """
    return live_revision(snapshot) if template_gone_back_to(snapshot) == snapshot.daemonset.identity else None


def nodes_going_forward(snapshot: Snapshot, target: RevisionDetail) -> frozenset[str]:
    """The nodes that run an older revision than `target`: for them the rollback is an update."""
    numbers = {one.revision.hash: one.revision.number for one in snapshot.revisions}
    return frozenset(
        node.name
        for node in _eligible_slots(snapshot)
        for pod in (node.old,)
        if pod is not None and numbers.get(pod.hash, target.revision.number) < target.revision.number
    )


def _eligible_slots(snapshot: Snapshot) -> Sequence[NodeInfo]:
    """The nodes that should have a pod; empty if they cannot be worked out."""
    rollout = rollout_after(snapshot)
    return rollout.eligible if rollout is not None else ()


def roll_back(snapshot: Snapshot, target: RevisionDetail, wish: RollbackWish) -> Edit:
    """Writes nothing, and no partition either, where the live template already means the same as the target's.

    The template is replaced as a whole: a merge would keep keys that were added since.
    """
    revision, daemonset = target.revision, snapshot.daemonset
    if revision.identity == daemonset.identity:
        return Edit(result=f"skipped (template already equals revision {revision.number})", operations=())
    draft = Draft(snapshot.document)
    draft.set(revision.template, "spec", "template")
    rolling = daemonset.rolling_update
    if rolling is not None:
        if rolling.partition and not wish.keep_partition:
            draft.set(0, *ROLLING, "partition")
        if rolling.paused and not wish.keep_paused:
            draft.set(False, *ROLLING, "paused")
        if wish.drop_selector:
            draft.drop(*ROLLING, "selector")
    newest = max(one.revision.number for one in snapshot.revisions)
    renumbered = f" (now revision {newest + 1})" if revision.number != newest else ""
    return Edit(
        result=f"rolled back to revision {revision.number}{renumbered}",
        operations=draft.operations,
        warnings=cautions(snapshot, on_delete_caution(snapshot)),
    )


def _unknown(snapshot: Snapshot, why: str) -> CommandError:
    others = other_revisions(snapshot)
    return CommandError(
        f"it cannot be told which revision {snapshot.key.name} is to go back to: {why}",
        hints=tuple(_way_to(snapshot, one) for one in others),
        exit_code=ExitCode.REFUSED,
    )


def _way_to(snapshot: Snapshot, to: RevisionDetail) -> str:
    words = age_and_images(snapshot, to)
    return command("rollback", snapshot.key, "--to-revision", str(to.revision.number), to=words)


def _nothing_earlier(daemonset: DaemonSet, kept: list[RevisionDetail]) -> CommandError:
    name, limit = daemonset.name, daemonset.spec.revision_history_limit
    because = f" (revisionHistoryLimit {limit})" if limit == 0 else ""
    if not kept:
        return CommandError(f"{name} has no revision yet; there is no earlier one{because}")
    number = kept[0].revision.number
    return CommandError(f"{name} has only revision {number}; there is no earlier revision{because}")


def _not_kept(daemonset: DaemonSet, number: int, kept: list[RevisionDetail]) -> CommandError:
    numbers = ", ".join(str(one) for one in sorted(one.revision.number for one in kept)) or "none"
    return CommandError(
        f"revision {number} of {daemonset.name} is not kept; kept: {numbers}"
        f" (revisionHistoryLimit {daemonset.spec.history_limit})"
    )
