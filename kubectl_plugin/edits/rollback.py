"""Rolls back to an earlier revision: its whole template, and whatever else would keep nodes from going back to it.

With a partition, a selector or a pause, an earlier template alone updates no node: the nodes that never left that
revision use up the quota, and the bad nodes stay bad. So the partition and the pause are lifted in the same write.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.api.daemonset import DaemonSet, Phase, Rollout
from controller.api.formats import counted
from controller.api.objects import Value
from controller.api.template_identity import without_restart
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
    completely, by the controller's record; where that is the live one, the one that was before it.

    Raises CommandError where there is no such revision, or no longer; with exit code 6, and the revisions to choose
    from, where the target cannot be known: it is never guessed from numbers or from what some pods run.
    """
    daemonset, kept, others = snapshot.daemonset, kept_revisions(snapshot), _different_ones(snapshot)
    if to_revision is not None:
        found = next((one for one in kept if one.revision.number == to_revision), None)
        if found is None:
            raise _not_kept(daemonset, to_revision, kept)
        return found
    if not others:
        raise _nothing_earlier(daemonset, kept)
    record = _record(snapshot)
    by_hash = {one.revision.hash: one for one in kept}
    stable, former = by_hash.get(record.stable_revision or ""), by_hash.get(record.previous_stable_revision or "")
    if record.stable_revision is None and former in others:
        return former
    if record.stable_revision is None:
        raise _unknown(snapshot, "no revision is known to have been rolled out completely")
    if stable is None:
        raise _unknown(snapshot, "the last revision that was rolled out completely is not kept")
    if former is not None and former not in others:
        raise _unknown(snapshot, f"nodes are on their way back to revision {former.revision.number}")
    if stable in others:
        return stable
    if not _is_everywhere(snapshot, stable):
        raise _unknown(snapshot, f"nodes are on their way back to revision {stable.revision.number}")
    if former is None:
        raise _unknown(snapshot, f"none is known to have been rolled out before revision {stable.revision.number}")
    return former


def _record(snapshot: Snapshot) -> Rollout:
    status = snapshot.daemonset.status
    return (status.rollout if status is not None else None) or Rollout()


def _is_everywhere(snapshot: Snapshot, stable: RevisionDetail) -> bool:
    """Whether no node keeps another revision than the stable one, which is live: it was rolled out last, or restarted
    with no other in between."""
    status, record = snapshot.daemonset.status, _record(snapshot)
    if stable.revision.identity != snapshot.daemonset.identity:
        return all(one.revision.number < stable.revision.number for one in _different_ones(snapshot))
    is_last = status is not None and status.update_revision == record.stable_revision
    return is_last and record.completion_time is not None and record.phase != Phase.HELD


def other_revisions(snapshot: Snapshot) -> list[RevisionDetail]:
    """The kept revisions that mean something else than the live template, the newest first."""
    return [one for one in kept_revisions(snapshot) if one.revision.identity != snapshot.daemonset.identity]


def _different_ones(snapshot: Snapshot) -> list[RevisionDetail]:
    """Those of them that differ in more than a restart: to go back from a restart changes nothing."""
    live = without_restart(snapshot.daemonset.spec.template)
    return [one for one in other_revisions(snapshot) if without_restart(one.revision.template) != live]


def age_and_images(snapshot: Snapshot, one: RevisionDetail) -> str:
    """Such as `12d ago, agent:1.8.4`, with the images that differ from the live ones."""
    live = images_of(snapshot.daemonset.spec.template)
    kept = images_of(one.revision.template)
    images = [short_beside(image, live.get(name, "")) for name, image in kept.items() if live.get(name) != image]
    return ", ".join((f"{short_duration(snapshot.now - one.created)} ago", *images))


def choice_explained(snapshot: Snapshot, target: RevisionDetail) -> str:
    """Why `target_of` chose this revision; empty if it is the one that everybody would expect."""
    stable = _record(snapshot).stable_revision
    newer = [one for one in _different_ones(snapshot) if one.revision.number > target.revision.number]
    if newer:
        which = "the last one" if target.revision.hash == stable else "the one before"
        return f"it is {which} that was rolled out completely; revision {newer[0].revision.number} was not"
    older = len(nodes_going_forward(snapshot, target))
    return f"it is the one before; {counted(older, 'node', 'runs')} an older one" if older else ""


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
    others = _different_ones(snapshot)
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
