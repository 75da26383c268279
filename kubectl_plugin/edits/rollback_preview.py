"""A rollback before it is done, in words: what goes back, in which order, what stays, and what can not go back."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from controller.api.daemonset import DaemonSet
from controller.planner.board import lay_out
from kubectl_plugin.durations import short as short_time
from kubectl_plugin.edits.edit import Edit
from kubectl_plugin.edits.rollback import Wish, outcome, roll_back
from kubectl_plugin.report.images import images_of, short
from kubectl_plugin.report.moves import Moves, Obstacle, moves_of
from kubectl_plugin.report.snapshot import RevisionDetail, Snapshot
from kubectl_plugin.report.survey import world_of

_LABEL: Final = 12
_INDENT: Final = 2
_NAMED: Final = 12
"""Of nodes that are told by name in one list; of more there is no overview anyway."""
_BREAKABLE, _FAST = " ", "\N{NO-BREAK SPACE}"
"""A line may end between waves, not within one."""

_WHY: Final = {
    Obstacle.MANUAL: "OnDelete: each goes back when you delete its pod",
    Obstacle.TAINTED: "tainted NoSchedule: no pod is started there, the one that is there stays",
    Obstacle.UNREACHABLE: "unreachable: they go back when they are heard of again",
    Obstacle.HOOKED: "the preDelete hook holds the pod; take its label or finalizer away",
    Obstacle.UNSELECTED: "rollingUpdate.selector does not match; --drop-selector lifts it",
    Obstacle.PAUSED: "stays paused; without --keep-paused they go back",
    Obstacle.PARTITION: "partition {partition} keeps them; without --keep-partition they go back",
}


def headline(snapshot: Snapshot, target: RevisionDetail) -> str:
    """`Roll back node-agent to revision 6 (12d ago, agent:1.8.4)?`: the images are those that are not live now."""
    live = images_of(snapshot.daemonset.spec.template)
    kept = images_of(target.revision.template)
    images = [short(image) for name, image in kept.items() if live.get(name) != image]
    told = ", ".join((f"{short_time(snapshot.now - target.created)} ago", *images))
    return f"Roll back {snapshot.key.name} to revision {target.revision.number} ({told})?"


def preview(snapshot: Snapshot, target: RevisionDetail, wish: Wish, edit: Edit, *, width: int) -> tuple[str, ...]:
    """Lines of at most `width` columns, with no indent; `edit` is what `roll_back` makes of the other arguments."""
    after = outcome(snapshot, edit)
    moves = _moves(snapshot, after)
    rows = (*_paths(moves), *_settings(snapshot, target, wish, after, moves), *_held(moves, after))
    return tuple(line for label, text in rows for line in _row(label, text, width - _INDENT))


def _moves(snapshot: Snapshot, after: DaemonSet) -> Moves:
    return moves_of(lay_out(world_of(snapshot, after)))


def _paths(moves: Moves) -> Iterator[tuple[str, str]]:
    yield "move back", f"{_counted(moves.moving)}{_order(moves)}"
    if moves.later and not moves.wave:
        yield "", f"{_listed(moves.later)} wait: maxUnavailable is used up by {_listed(moves.spent_by)}"
    if moves.starting:
        yield "start", f"{_counted(moves.starting)} without a pod: {_listed(moves.starting)}"
    if moves.staying:
        yield "stay", f"{_counted(moves.staying)} already on it"


def _order(moves: Moves) -> str:
    parts = []
    if moves.at_once:
        they = "it is" if len(moves.at_once) == 1 else "they are"
        parts.append(f"{_listed(moves.at_once)} at once ({they} down)")
    if moves.waves:
        parts.append(_in_waves(moves.waves))
    return f": {', then '.join(parts)}{_FAST * 5}re-create" if parts else ""


def _in_waves(waves: Sequence[Sequence[str]]) -> str:
    shown: list[str] = []
    left = _NAMED
    for wave in waves:
        if left <= 0:
            break
        shown.append(_listed(wave, left))
        left -= len(wave)
    more = len(waves) - len(shown)
    return " | ".join((*shown, *([f"{more} more" if more > 1 else "1 more"] if more else [])))


def _settings(
    snapshot: Snapshot, target: RevisionDetail, wish: Wish, after: DaemonSet, moves: Moves
) -> Iterator[tuple[str, str]]:
    """The other fields of the same write, each with what would be without it."""
    before, later = snapshot.daemonset.rolling_update, after.rolling_update
    if before is None or later is None:
        return
    label = iter(("also set",))
    if before.partition != later.partition:
        without = _without(snapshot, target, replace(wish, keep_partition=True), moves)
        words = f"partition {before.partition} -> {later.partition}"
        yield next(label, ""), words + (f"   (with {before.partition}, {without})" if without else "")
    if before.paused != later.paused:
        without = _without(snapshot, target, replace(wish, keep_paused=True), moves)
        yield next(label, ""), "paused true -> false" + (f"   (while paused, {without})" if without else "")
    if before.selector is not None and later.selector is None:
        without = _without(snapshot, target, replace(wish, drop_selector=False), moves)
        yield next(label, ""), "selector removed" + (f"   (with it, {without})" if without else "")


def _without(snapshot: Snapshot, target: RevisionDetail, wish: Wish, moves: Moves) -> str:
    """Who would move if this one field were left as it is; empty where that makes no difference."""
    other = _moves(snapshot, outcome(snapshot, roll_back(snapshot, target, wish)))
    if len(other.moving) == len(moves.moving):
        return ""
    only = "only " if other.moving else ""
    return f"{only}{_counted(other.moving)} would move back"


def _held(moves: Moves, after: DaemonSet) -> Iterator[tuple[str, str]]:
    rolling = after.rolling_update
    for obstacle, nodes in moves.held.items():
        why = _WHY[obstacle].format(partition=rolling.partition if rolling else 0)
        yield "will NOT", f"{_counted(nodes)}: {_listed(nodes)} ({why})"


def _counted(nodes: Sequence[str]) -> str:
    if not nodes:
        return "no node"
    return "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"


def _listed(nodes: Sequence[str], most: int = _NAMED) -> str:
    """Names that stay together on a line, but not too many of them."""
    if len(nodes) <= most:
        return (_FAST if len(nodes) <= 3 else _BREAKABLE).join(nodes)
    return f"{_BREAKABLE.join(nodes[:most])} and {len(nodes) - most} more"


def _row(label: str, text: str, width: int) -> Iterable[str]:
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=label.ljust(_LABEL),
        subsequent_indent=" " * _LABEL,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return (line.replace(_FAST, " ") for line in lines)
