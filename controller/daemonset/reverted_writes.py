"""Writes that the server accepts and that have to be made again and again.

A webhook or another controller may take a write back, or two writes of ours may undo each other. Each would be made
again as soon as that is seen, without end. Whatever the cycle, each of its writes repeats: so the same write to one
object is counted, and beyond a few in ten minutes it counts as failed, and its place is left alone for ever longer
times. The status has a count of its own in `status_writer`.
Creates of pods have `node_backoff`, because each makes another object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from controller.daemonset.answers import Answer
from controller.daemonset.places import FAILING_AT_MOST, Failing
from controller.kube.errors import ApiError, Conflict
from controller.kube.kinds import PODS, REVISIONS
from controller.planner.actions import (
    Action,
    CancelDelete,
    CreatePod,
    DeletePod,
    DeleteRevision,
    DrainPod,
    OnPod,
    OnRevision,
    OpenGates,
    ProbeTemplate,
)
from controller.planner.place import Place

MOST = 2
"""How often the same write to one object may be made before it counts as reverted."""
SECONDS = 600.0
"""Writes that are this many seconds apart do not count as repeated. If their place is held back for longer, four
times the hold time applies instead: in a cycle, each of its writes may be held back in turn."""
KEPT = 10_000
"""Number of writes of one DaemonSet beyond which those of more than `KEPT_SECONDS` ago are forgotten."""
KEPT_SECONDS = 4 * FAILING_AT_MOST


class Reverted(Conflict):
    """A write was accepted, and its effect is gone again."""


class _Repeated(msgspec.Struct):
    times: int
    at: float
    """When it was accepted last, by `elapsed`."""


class RevertedWrites(msgspec.Struct):
    """The recent writes of one DaemonSet, of one generation. All moments by `elapsed`."""

    done: dict[tuple[type[Action], Place, str], _Repeated] = msgspec.field(default_factory=dict)
    contested: set[Place] = msgspec.field(default_factory=set)
    """Places where the last write repeated one that was taken back."""

    room: int = KEPT
    """Number of writes at which old ones are forgotten."""

    def keep(self, wanted: Callable[[Place], bool]) -> None:
        """Forget the writes at all other places."""
        self.done = {which: one for which, one in self.done.items() if wanted(which[1])}
        self.contested = {place for place in self.contested if wanted(place)}

    def forget(self) -> None:
        self.done.clear()
        self.contested.clear()

    def reverted(self, action: Action, failing: Mapping[Place, Failing], moment: float) -> ApiError | None:
        """The error to report for an accepted action that was made too often; None: it was not."""
        known = self.done.get(_which(action))
        if known is None or known.times < MOST or not _is_recent(known, action, failing, moment):
            return None
        words = (
            "it is accepted each time, and taken back by a webhook or by another controller, "
            "or undone by another part of the spec"
        )
        match action:
            case OnPod():
                return Reverted(
                    "delete" if isinstance(action, DeletePod) else "patch", PODS.describe(action.pod), words
                )
            case OnRevision():
                verb = "delete" if isinstance(action, DeleteRevision) else "patch"
                return Reverted(verb, REVISIONS.describe(action.revision), words)
            case _:
                return Reverted("create", f"{REVISIONS.name} {action.name}", words)

    def learn(self, answer: Answer, failing: Mapping[Place, Failing], moment: float) -> None:
        """Count a write that was accepted. What only makes up for a failed write is not counted: the writes that fail
        have their own back-off. A gate that has to be opened again shows that closing it was not taken back."""
        action = answer.action
        if isinstance(action, CreatePod | ProbeTemplate) or not (
            answer.error is None or isinstance(answer.error, Reverted)
        ):
            return
        if isinstance(action, CancelDelete | OpenGates) and (place := Place.of_object(action.pod.uid)) in failing:
            if isinstance(action, OpenGates):
                self.done.pop((DrainPod, place, ""), None)
            return
        if len(self.done) >= self.room:
            self.done = {which: one for which, one in self.done.items() if moment - one.at <= KEPT_SECONDS}
            self.room = max(KEPT, 2 * len(self.done))
        known = self.done.get(which := _which(action))
        recent = known is not None and _is_recent(known, action, failing, moment)
        self.done[which] = _Repeated(times=known.times + 1 if known is not None and recent else 1, at=moment)
        (self.contested.discard if answer.error is None else self.contested.add)(answer.place)


def _which(action: Action) -> tuple[type[Action], Place, str]:
    return type(action), action.place, action.variant if isinstance(action, OnPod) else ""


def _is_recent(known: _Repeated, action: Action, failing: Mapping[Place, Failing], moment: float) -> bool:
    alone = failing[action.place].delay if action.place in failing else 0.0
    return moment - known.at <= max(SECONDS, 4 * alone)
