"""Rolls back to an earlier revision: its whole template, and the settings that would keep nodes from going back; and
the rows of its preview.

With a partition, a selector or a pause, an earlier template alone may update no node: nodes still on that revision
use up the partition. So partition and pause are lifted in the same write."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import rollout_of
from controller.api.formats import counted
from controller.api.names import APPROVE_ANNOTATION, SKIP_STEPS_ANNOTATION
from controller.api.objects import JSON, Value, as_bytes, value_at
from controller.planner.blocker_texts import Blocker
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import ROLLING, Caution, Draft, Edit, cautions, on_delete_caution, rollout_after
from kubectl_plugin.rollout.history import live_revision
from kubectl_plugin.rollout.in_place import Moves, planned_moves, ways_of
from kubectl_plugin.rollout.last_action import last_action
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot
from kubectl_plugin.rollout.target import age_and_images, different_revisions
from kubectl_plugin.wording import NO_BREAK, command

_NAMED: Final = 12
_FLAGS: Final = {
    Blocker.SELECTOR: "rollingUpdate.selector does not match; --drop-selector lifts it",
    Blocker.PAUSED: "stays paused; without --keep-paused they go back",
    Blocker.PARTITION: "partition {partition} keeps them; without --keep-partition they go back",
    Blocker.STEP: "in later steps; promote --full then leaves these out",
}
"""Blockers that a flag of this verb removes, or another verb."""
_AS_IT_WAS: Final = {
    "partition": ("with {}", {"keep_partition": True}),
    "paused": ("while paused", {"keep_paused": True}),
    "selector": ("with it", {"drop_selector": False}),
}
"""Other fields that are written: the words for the former value, and the flag that keeps it."""


class RollbackSettings(Value):
    to_revision: int | None = None
    """Revision number; None for the choice of `target_of`."""
    keep_partition: bool = False
    keep_paused: bool = False
    drop_selector: bool = False


def choice_explained(snapshot: Snapshot, target: RevisionDetail, forward: Collection[str]) -> str:
    """Why `target_of` chose this revision; empty if it is the expected one."""
    stable = rollout_of(snapshot.daemonset.status).stable_revision
    newer = [detail for detail in different_revisions(snapshot) if detail.revision.number > target.revision.number]
    if newer:
        which = "the last one" if target.revision.hash == stable else "the one before"
        return f"it is {which} that was rolled out completely; revision {newer[0].revision.number} was not"
    return f"it is the one before; {counted(len(forward), 'node', 'runs')} an older one" if forward else ""


def already_back(snapshot: Snapshot) -> RevisionDetail | None:
    """The live revision if the last change rolled back to it; another rollback would restore the abandoned one."""
    last = last_action(snapshot.daemonset.annotations)
    return live_revision(snapshot) if last is not None and last.template == snapshot.daemonset.identity else None


def nodes_going_forward(snapshot: Snapshot, target: RevisionDetail) -> frozenset[str]:
    """Nodes on a revision older than `target`, for which the rollback is an update."""
    numbers = {detail.revision.hash: detail.revision.number for detail in snapshot.revisions}
    rollout = rollout_after(snapshot)
    return frozenset(
        node.name
        for node in (rollout.eligible if rollout is not None else ())
        for pod in (node.old,)
        if pod is not None and numbers.get(pod.hash, target.revision.number) < target.revision.number
    )


def roll_back(snapshot: Snapshot, target: RevisionDetail, settings: RollbackSettings) -> Edit:
    """Writes nothing, not even the partition, if the live template equals the target's. The template is replaced as a
    whole: a merge would keep keys added since. What was approved or skipped in an earlier rollout of the target does
    not count again."""
    revision, daemonset = target.revision, snapshot.daemonset
    if revision.identity == daemonset.identity:
        return Edit(result=f"skipped (template already equals revision {revision.number})")
    draft = Draft(snapshot.document)
    draft.set(revision.template, "spec", "template")
    for annotation in (APPROVE_ANNOTATION, SKIP_STEPS_ANNOTATION):
        draft.drop("metadata", "annotations", annotation)
    rolling = daemonset.rolling_update
    if rolling is not None:
        if rolling.partition and not settings.keep_partition:
            draft.set(0, *ROLLING, "partition")
        if rolling.paused and not settings.keep_paused:
            draft.set(False, *ROLLING, "paused")
        if settings.drop_selector:
            draft.drop(*ROLLING, "selector")
    newest = max(detail.revision.number for detail in snapshot.revisions)
    renumbered = f" (now revision {newest + 1})" if revision.number != newest else ""
    return Edit(
        result=f"rolled back to revision {revision.number}{renumbered}",
        operations=draft.operations,
        warnings=cautions(snapshot, on_delete_caution(snapshot)),
    )


def headline(snapshot: Snapshot, target: RevisionDetail) -> str:
    """`Roll back node-agent to revision 6 (12d ago, agent:1.8.4)?`"""
    return f"Roll back {snapshot.key.name} to revision {target.revision.number} ({age_and_images(snapshot, target)})?"


def preview(
    snapshot: Snapshot, target: RevisionDetail, settings: RollbackSettings, edit: Edit
) -> tuple[tuple[str, str], ...]:
    """Labels and texts; `edit` is the result of `roll_back`. If the nodes that move are unknown, the rows say so and
    list only the settings written."""
    rollout = rollout_after(snapshot, edit.operations)
    if rollout is None:
        unread = "pods" if not snapshot.pods_readable else "nodes" if snapshot.nodes is None else ""
        unseen = "unknown" + (f": the {unread} could not be read" if unread else "")
        return (("who moves", unseen), *_setting_rows(snapshot, target, settings, edit, None))
    forward = nodes_going_forward(snapshot, target)
    why = choice_explained(snapshot, target, forward) if settings.to_revision is None else ""
    moves = planned_moves(rollout)
    return (
        *_moving_rows(moves, forward),
        *(("how", words) for words in ways_of(rollout).words() if moves.moving),
        *_setting_rows(snapshot, target, settings, edit, moves),
        *_kept_rows(moves, rollout),
        *([("why", why)] if why else []),
    )


def kept_cautions(snapshot: Snapshot, target: RevisionDetail) -> tuple[Caution, ...]:
    """For a target that is already live: what keeps nodes on a younger revision. Nodes on an older one are left out,
    since a rollout keeps them there on purpose."""
    rollout = rollout_after(snapshot)
    if rollout is None or rollout.rolling_update is None:
        return ()
    key = snapshot.key
    ways = {
        Blocker.PARTITION: (
            f"partition {rollout.rolling_update.partition} keeps",
            command("set-partition", key, "0"),
        ),
        Blocker.PAUSED: ("the pause keeps", command("resume", key)),
    }
    held = planned_moves(rollout).held
    younger = {detail.revision.hash for detail in snapshot.revisions if detail.created > target.created}
    bad = {node.name for node in rollout.nodes if node.old is not None and node.old.hash in younger}
    cautions = []
    for blocker, (why, way) in ways.items():
        if nodes := [node for node in held.get(blocker, ()) if node in bad]:
            text = f"{why} {_node_count(nodes)} from going back: {_name_list(nodes)}".replace(NO_BREAK, " ")
            cautions.append(Caution(text=text, hints=(way,)))
    return tuple(cautions)


def _moving_rows(moves: Moves, forward: Collection[str]) -> Iterator[tuple[str, str]]:
    on = [node for node in moves.moving if node in forward]
    if on and len(on) == len(moves.moving):
        yield "go forward", f"{_node_count(on)} from an older revision{_order_words(moves)}"
    elif on:
        back = [node for node in moves.moving if node not in forward]
        yield "move back", f"{_node_count(back)}: {_name_list(back)}"
        yield "go forward", f"{_node_count(on)} from an older revision: {_name_list(on)}"
        yield "order", _order_words(moves).removeprefix(": ")
    else:
        yield "move back", f"{_node_count(moves.moving)}{_order_words(moves)}"
    if moves.starting:
        yield "start", f"{_node_count(moves.starting)} without a pod: {_name_list(moves.starting)}"
    if moves.staying:
        yield "stay", f"{_node_count(moves.staying)} already on it"


def _order_words(moves: Moves) -> str:
    parts = []
    if moves.at_once:
        they = "it is" if len(moves.at_once) == 1 else "they are"
        parts.append(f"{_name_list(moves.at_once)} at once ({they} down)")
    if moves.waves:
        parts.append(_in_waves(moves.waves))
    elif moves.later:
        parts.append(f"{_name_list(moves.later)} once {_name_list(moves.spent_by)} can do without the budget")
    return f": {', then '.join(parts)}{NO_BREAK * 5}{moves.how}".rstrip(NO_BREAK) if parts else ""


def _in_waves(waves: Sequence[Sequence[str]]) -> str:
    shown: list[str] = []
    left = _NAMED
    for wave in waves:
        if left <= 0:
            break
        shown.append(_name_list(wave, left))
        left -= len(wave)
    more = len(waves) - len(shown)
    return " | ".join((*shown, *([counted(more, "more wave")] if more else [])))


def _setting_rows(
    snapshot: Snapshot, target: RevisionDetail, settings: RollbackSettings, edit: Edit, moves: Moves | None
) -> Iterator[tuple[str, str]]:
    """The other fields that are written, and what would happen without each, if known."""
    label = iter(("also set",))
    for operation in edit.operations:
        *above, field = path = operation.path
        if tuple(above) != ROLLING:
            continue
        before = value_at(snapshot.document, *path)
        words = f"{field} {_word(before)} -> {_word(operation.value)}"
        called, kept = _AS_IT_WAS[field]
        without = _moves_without(snapshot, target, replace(settings, **kept), moves) if moves is not None else ""
        yield next(label, ""), words + (f"   ({called.format(before)}, {without})" if without else "")


def _word(value: JSON) -> str:
    return "none" if value is None else str(value) if isinstance(value, str) else as_bytes(value).decode()


def _moves_without(snapshot: Snapshot, target: RevisionDetail, settings: RollbackSettings, moves: Moves) -> str:
    rollout = rollout_after(snapshot, roll_back(snapshot, target, settings).operations)
    moving = planned_moves(rollout).moving if rollout is not None else moves.moving
    if len(moving) == len(moves.moving):
        return ""
    return f"{'only ' if moving else ''}{_node_count(moving)} would move back"


def _kept_rows(moves: Moves, rollout: RolloutState) -> Iterator[tuple[str, str]]:
    rolling = rollout.rolling_update
    for blocker, nodes in moves.held.items():
        why = _FLAGS.get(blocker, blocker.text.of_rollback).format(partition=rolling.partition if rolling else 0)
        yield "will NOT", f"{_node_count(nodes)}: {_name_list(nodes)} ({why})"


def _node_count(nodes: Sequence[str]) -> str:
    return counted(len(nodes), "node") if nodes else "no node"


def _name_list(nodes: Sequence[str], most: int = _NAMED) -> str:
    """At most `most` names; a name and its comma stay on the same line."""
    if len(nodes) <= most:
        return (NO_BREAK if len(nodes) <= 3 else " ").join(nodes)
    return f"{' '.join(nodes[:most])} and {len(nodes) - most} more"
