"""Writes that the server accepts and somebody else takes back: a webhook, or another controller. Each would be made
again as soon as that is seen, without end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from controller.api.base import Value
from controller.daemonset.answers import Answer
from controller.daemonset.places import Failing
from controller.kube.errors import ApiError, Conflict
from controller.kube.kinds import PODS
from controller.planner.actions import Action, CancelDelete, OnPod
from controller.planner.place import Place
from controller.planner.traits import Effect

SECONDS = 60.0
"""If a write is due again within this many seconds after the server accepted it, somebody has taken it back. If its
place is held back for longer, twice the hold time applies instead."""
KEPT = 10_000
"""Number of writes that are remembered of one DaemonSet. Beyond that all are forgotten, which bounds the memory."""

Which: TypeAlias = tuple[str, Effect]
"""The uid of a pod, and what was done to it."""


class Reverted(Conflict):
    """A write was accepted, and its effect is gone again."""


class RecentWrite(Value):
    variant: str
    """The variant of the action."""
    at: float
    """When it was accepted, by `elapsed`."""


class RevertedWrites(msgspec.Struct):
    """The recent writes to the pods of one DaemonSet that should not be due again. All moments by `elapsed`."""

    done: dict[Which, RecentWrite] = msgspec.field(default_factory=dict)
    contested: set[Place] = msgspec.field(default_factory=set)
    """Places where the last write repeated one that was taken back."""

    def forget(self) -> None:
        self.done.clear()
        self.contested.clear()

    def reverted(self, action: Action, failing: Mapping[Place, Failing], moment: float) -> ApiError | None:
        """The error to report for an accepted action that repeats a recent one; None: it repeats none."""
        if not isinstance(action, OnPod) or (effect := action.traits.leaves) is None:
            return None
        known = self.done.get((action.pod.uid, effect))
        if known is None or known.variant != action.variant:
            return None
        alone = failing[action.place].delay if action.place in failing else 0.0
        if moment - known.at > max(SECONDS, 2 * alone):
            return None
        words = "it is accepted each time, and taken back by a webhook or by another controller"
        return Reverted("patch", PODS.describe(action.pod), words)

    def learn(self, answer: Answer, failing: Mapping[Place, Failing], moment: float) -> None:
        """Note a write that was accepted, and forget the earlier one that it ends. A cancelled deletion is not noted
        if its preparation failed: then it takes nothing back."""
        action = answer.action
        if not isinstance(action, OnPod):
            return
        uid, traits = action.pod.uid, action.traits
        self._end(uid, traits.may_end)
        if answer.error is not None and not isinstance(answer.error, Reverted):
            return
        if isinstance(action, CancelDelete) and Place.of_object(uid) in failing:
            return
        self._end(uid, traits.ends)
        if traits.leaves is None:
            return
        if len(self.done) > KEPT:
            self.forget()
        self.done[uid, traits.leaves] = RecentWrite(variant=action.variant, at=moment)
        (self.contested.discard if answer.error is None else self.contested.add)(answer.place)

    def _end(self, uid: str, effect: Effect | None) -> None:
        if effect is not None:
            self.done.pop((uid, effect), None)
