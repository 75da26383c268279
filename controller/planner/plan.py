"""Makes the Plan of one World: the only place where anything is decided. No I/O, no clock, no logging."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from controller.api.base import Value
from controller.api.daemonset import Phase
from controller.api.text import listed
from controller.api.wellknown import INVALID_SPEC, SELECTING_ALL
from controller.planner.actions import Action
from controller.planner.board import Board, lay_out
from controller.planner.claim import claim
from controller.planner.explanation import Explainer
from controller.planner.history import settle_history, trim_history
from controller.planner.placement import place_pods
from controller.planner.progress import due_at
from controller.planner.retries import has_failed, next_retry
from controller.planner.rollout import roll_out
from controller.planner.rollout_events import rollout_events
from controller.planner.running_pods import settle_running_pods
from controller.planner.status import Status, refused_status, status_of
from controller.planner.step import Note, Step
from controller.planner.summary import Summary, summarize
from controller.planner.world import World

Stage: TypeAlias = Callable[[Board], Step]

BEFORE_UPDATE: tuple[Stage, ...] = (claim, settle_history, place_pods)
"""The stages before the update. While one of them has something to do, the generation does not count as observed."""

STAGES: tuple[Stage, ...] = (*BEFORE_UPDATE, roll_out, trim_history)
"""All stages in order. The first one that acts ends the pass; the next pass starts from what that has changed."""

_CLOCK_GRAIN = 0.05
"""Seconds that are added to each wake-up time, because a pod is available only *after* its minReadySeconds."""


class Plan(Value):
    """The actions and the status that one pass wants. `wake_at`, `more` and `again` are as in a `Step`."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    more: bool = False
    again: bool = False
    withheld: bool = False
    """Whether some actions are left out because they failed before. They are tried later."""
    all_written: bool = False
    """Whether nothing is left to be written, so that whatever failed before is over."""
    status: Status | None = None
    """The status as it should be; None: leave it unchanged."""
    rollout_events: tuple[Note, ...] = ()
    """Notes to be reported once this status is written, so that each is reported once."""
    summary: Summary | None = None
    """The counts of this pass; None: the spec cannot be used."""


def plan(world: World) -> Plan:
    """The plan: what to do now, what the status should say, and when to look again."""
    daemonset = world.daemonset
    if daemonset.dying:
        return Plan()  # the garbage collector deletes its pods
    if world.rules.problems:
        return _refused(world, world.rules.problems)
    board = lay_out(world)
    acted, steps = _staged(board) if world.fresh else (None, [])
    actions = steps[-1].actions if steps else ()
    withheld = _withheld(board, actions)
    if world.fresh:
        steps.append(settle_running_pods(board, {action.place for action in actions}))
        actions = (*actions, *steps[-1].actions)
    all_written = world.fresh and not (actions or withheld or world.contested)
    if world.write_failure and all_written:
        world = replace(world, write_failure="")
        board = replace(board, world=world)
    observed = world.fresh and (acted not in BEFORE_UPDATE or bool(world.write_failure or world.unreadable))
    wakes = [step.wake_at for step in steps if step.wake_at is not None]
    if (moment := next_retry(world)) is not None:
        wakes.append(moment)
    if board.next_available is not None:
        wakes.append(board.next_available + _CLOCK_GRAIN)
    explainer = Explainer(board)
    status = status_of(explainer, observed=observed)
    due = due_at(status.rollout, daemonset.progress_deadline)
    if status.rollout.phase == Phase.PROGRESSING and due > world.now:  # else it waits for unreachable nodes
        wakes.append(due + _CLOCK_GRAIN)
    return Plan(
        actions=actions,
        notes=tuple(note for step in steps for note in step.notes),
        wake_at=min(wakes, default=None),
        more=any(step.more for step in steps),
        again=any(step.again for step in steps),
        withheld=withheld,
        all_written=all_written,
        status=status,
        rollout_events=rollout_events(daemonset, status),
        summary=summarize(explainer, settled=status.settled, misscheduled=status.misscheduled),
    )


def _staged(board: Board) -> tuple[Stage | None, list[Step]]:
    """The stage that acts, None if none does, and the steps of all stages up to it."""
    steps: list[Step] = []
    for stage in STAGES:
        steps.append(stage(board))
        if steps[-1].actions:
            return stage, steps
    return None, steps


def _withheld(board: Board, actions: tuple[Action, ...]) -> bool:
    """Whether more would be done if nothing had failed before. It is only worked out while writes fail.

    The slots stay: what failed changes none of them.
    """
    world = board.world
    if not (world.fresh and world.write_failure and has_failed(world)):
        return False
    _, free = _staged(replace(board, world=replace(world, held_back={}, due_again={})))
    return any(action not in actions for action in free[-1].actions)


def _refused(world: World, found: tuple[str, ...]) -> Plan:
    daemonset = world.daemonset
    empty = daemonset.spec.selector.empty
    problem = listed(found)
    text = "This DaemonSet is selecting all pods. A non-empty selector is required." if empty else problem
    note = Note(warning=True, reason=SELECTING_ALL if empty else INVALID_SPEC, message=text)
    return Plan(notes=(note,), status=refused_status(daemonset, problem, world.now))
