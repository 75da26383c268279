"""The preview of a rollback: which nodes move, how, what else is set, and which nodes stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from controller.api.formats import counted
from controller.api.objects import JSON, as_bytes, value_at
from controller.planner.blocker_texts import Blocker
from controller.planner.rollout_state import RolloutState
from kubectl_plugin.changes.edit import (
    ROLLING,
    Caution,
    Edit,
    rollout_after,
)
from kubectl_plugin.changes.rollback import RollbackSettings, choice_explained, nodes_going_forward, roll_back
from kubectl_plugin.render.tables import wrapped
from kubectl_plugin.rollout.history import age_and_images
from kubectl_plugin.rollout.in_place import Moves, planned_moves, ways_of
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot
from kubectl_plugin.wording import command

_LABEL: Final = 12
_NAMED: Final = 12
_BREAKABLE, _FAST = " ", "\N{NO-BREAK SPACE}"
"""Lines may break between waves, but not within one."""
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


def headline(snapshot: Snapshot, target: RevisionDetail) -> str:
    """`Roll back node-agent to revision 6 (12d ago, agent:1.8.4)?`"""
    return f"Roll back {snapshot.key.name} to revision {target.revision.number} ({age_and_images(snapshot, target)})?"


def preview(
    snapshot: Snapshot, target: RevisionDetail, settings: RollbackSettings, edit: Edit, *, width: int
) -> tuple[str, ...]:
    """Lines of at most `width` columns; `edit` is the result of `roll_back`. If the nodes that move are unknown, the
    lines say so and list only the settings written."""
    rollout = rollout_after(snapshot, edit.operations)
    if rollout is None:
        unread = "pods" if not snapshot.pods_readable else "nodes" if snapshot.nodes is None else ""
        unseen = "unknown" + (f": the {unread} could not be read" if unread else "")
        rows = [("who moves", unseen), *_setting_rows(snapshot, target, settings, edit, None)]
    else:
        why = choice_explained(snapshot, target) if settings.to_revision is None else ""
        moves = planned_moves(rollout)
        rows = [
            *_moving_rows(moves, nodes_going_forward(snapshot, target)),
            *(("how", words) for words in ways_of(rollout).words() if moves.moving),
            *_setting_rows(snapshot, target, settings, edit, moves),
            *_kept_rows(moves, rollout),
            *([("why", why)] if why else []),
        ]
    return tuple(line for label, text in rows for line in _row(label, text, width))


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
            text = f"{why} {_node_count(nodes)} from going back: {_name_list(nodes)}".replace(_FAST, " ")
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
    return f": {', then '.join(parts)}{_FAST * 5}{moves.how}".rstrip(_FAST) if parts else ""


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
        return (_FAST if len(nodes) <= 3 else _BREAKABLE).join(nodes)
    return f"{_BREAKABLE.join(nodes[:most])} and {len(nodes) - most} more"


def _row(label: str, text: str, width: int) -> Iterable[str]:
    lines = wrapped(text, width, first=label.ljust(_LABEL), indent=" " * _LABEL, whole_words=True)
    return (line.replace(_FAST, " ") for line in lines)
