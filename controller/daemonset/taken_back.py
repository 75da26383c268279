"""Writes that the server accepts and somebody else takes back: a webhook, or another controller. Each would be made
again as soon as that is seen, without end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

import msgspec

from controller.api.base import Value
from controller.daemonset.answers import Answer
from controller.daemonset.places import Failing
from controller.kube.errors import ApiError, Conflict
from controller.kube.kinds import PODS
from controller.planner import actions
from controller.planner.place import Place

SECONDS = 60.0
"""A write that is due again so soon after it was accepted was taken back by somebody. This grows with the back-off of
its place."""
KEPT = 10_000
"""Writes that are remembered."""

Lasting: TypeAlias = (
    actions.PrepareDelete | actions.CancelDelete | actions.InPlaceAction | actions.RelabelPod | actions.AdoptPod
)
"""Actions whose effect lasts unless somebody takes it back, or we end it by another action: see `_ENDS`."""
_ENDS: Final[Mapping[type[actions.Action], type[actions.Action]]] = {
    actions.PrepareDelete: actions.CancelDelete,
    actions.CancelDelete: actions.PrepareDelete,
    actions.OpenGates: actions.DrainPod,
    actions.UpdateInPlace: actions.RelabelPod,
    actions.ReleasePod: actions.AdoptPod,
}
"""An action of ours, and the earlier one on the same pod whose effect it ends."""

Which: TypeAlias = tuple[str, type[actions.Action]]
"""Uid of a pod, and what was done to it."""


class Undone(Conflict):
    """A write was accepted, and its effect is gone again."""


class RecentWrite(Value):
    what: str
    """What was written, for actions that can write different things to one pod: only an equal one is a repetition."""
    at: float
    """By `elapsed`."""


class TakenBack(msgspec.Struct):
    """The recent writes to the pods of one DaemonSet that should not be due again. All moments by `elapsed`."""

    done: dict[Which, RecentWrite] = msgspec.field(default_factory=dict)
    fought: set[Place] = msgspec.field(default_factory=set)
    """Places where the last write repeated one that was taken back."""

    def forget(self) -> None:
        self.done.clear()
        self.fought.clear()

    def undone(self, action: actions.Action, failing: Mapping[Place, Failing], moment: float) -> ApiError | None:
        """What there is to say of an action that went through again."""
        if (wanted := lasting(action)) is None:
            return None
        place = wanted.place
        known = self.done.get((wanted.pod.uid, type(wanted)))
        if known is None or known.what != _what(wanted):
            return None
        alone = failing[place].delay if place in failing else 0.0
        if moment - known.at > max(SECONDS, 2 * alone):
            return None
        words = "it is accepted each time, and taken back by a webhook or by another controller"
        return Undone("patch", PODS.describe(wanted.pod), words)

    def learn(self, answer: Answer, failing: Mapping[Place, Failing], moment: float) -> None:
        """Note a write that was accepted, and forget the earlier one that it ends. A cancelled deletion is not noted
        if its preparation failed: then it takes nothing back."""
        action = answer.action
        if isinstance(
            action, actions.DrainPod | actions.UpdateInPlace
        ):  # it may have closed the gate, however it ended
            self.done.pop((action.pod.uid, actions.OpenGates), None)
        if answer.error is not None and not isinstance(answer.error, Undone):
            return
        written = action if isinstance(action, actions.ReleasePod) else lasting(action)
        if written is None:
            return
        uid = written.pod.uid
        if isinstance(action, actions.CancelDelete) and Place.of_object(uid) in failing:
            return
        if (ended := _ENDS.get(type(action))) is not None:
            self.done.pop((uid, ended), None)
        if isinstance(written, actions.ReleasePod):
            return
        if len(self.done) > KEPT:
            self.forget()
        self.done[uid, type(written)] = RecentWrite(what=_what(written), at=moment)
        (self.fought.discard if answer.error is None else self.fought.add)(answer.place)


def lasting(action: actions.Action) -> Lasting | None:
    """The action, if what it does to a pod stays done."""
    if isinstance(action, Lasting):
        return action
    if isinstance(action, actions.CreatePod | actions.DeletePod | actions.ProbeTemplate | actions.ReleasePod):
        return None
    if isinstance(action, actions.RevisionAction):
        return None
    assert_never(action)


def _what(action: Lasting) -> str:
    """A pod may be changed to one revision, back, and to the first again; its containers take turns."""
    match action:
        case actions.UpdateInPlace(revision=revision):
            return revision.hash
        case actions.RelabelPod(hash=hash_):
            return hash_
        case actions.ContinueInPlace(waiting=names):
            return " ".join(names)
        case actions.OpenGates(gates=gates):
            return " ".join(gate.type for gate in gates)
        case _:
            return ""
