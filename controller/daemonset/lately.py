"""Writes that the server accepts and somebody else takes back: a webhook, or another controller. Each would be made
again as soon as that is seen, without end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from controller.api.base import Value
from controller.api.wellknown import KRUISE_POD_READY
from controller.daemonset.answers import Answer
from controller.daemonset.places import Failing
from controller.kube.errors import ApiError, Conflict
from controller.kube.kinds import PODS
from controller.planner.actions import (
    Action,
    AdoptPod,
    CancelDelete,
    OpenGates,
    PrepareDelete,
    RelabelPod,
    ReleasePod,
    UpdateInPlace,
    place_of,
)
from controller.planner.retries import place_of_keeping

SECONDS = 60.0
"""The same that was done before and is to be done again within so many was taken back. While its place is left alone
for longer and longer, so is this."""
KEPT = 10_000
"""Writes that are remembered."""

Lasting: TypeAlias = PrepareDelete | CancelDelete | OpenGates | UpdateInPlace | RelabelPod | AdoptPod
"""What stays done unless somebody takes it back."""


class Undone(Conflict):
    """It was done, and is not so."""


class Done(Value):
    what: tuple[type[Action], str]
    """With the hash of the revision that it is about, if there is one."""
    at: float
    """By `elapsed`."""


class Lately(msgspec.Struct):
    """Of one DaemonSet: what was done to pods by place, and is not due again unless somebody takes it back. All
    moments by `elapsed`."""

    done: dict[str, Done] = msgspec.field(default_factory=dict)
    fought: set[str] = msgspec.field(default_factory=set)
    """Where the last time was not the first."""

    def forget(self) -> None:
        self.done.clear()
        self.fought.clear()

    def undone(self, action: Action, failing: Mapping[str, Failing], moment: float) -> ApiError | None:
        """What there is to say of an action that went through again."""
        place = place_of(action)
        known = self.done.get(place)
        if not isinstance(action, Lasting) or known is None or known.what != _what(action):
            return None
        alone = failing[place].delay if place in failing else 0.0
        if moment - known.at > max(SECONDS, 2 * alone):
            return None
        words = "it is accepted each time, and taken back by a webhook or by another controller"
        return Undone("patch", PODS.describe(action.pod), words)

    def learn(self, answer: Answer, failing: Mapping[str, Failing], moment: float) -> None:
        """A preparation and what takes it back end each other, except where that only makes up for a failure."""
        action = answer.action
        if answer.error is not None and not isinstance(answer.error, Undone):
            return
        match action:
            case PrepareDelete(pod=ref):
                self.done.pop(place_of_keeping(ref.uid), None)
            case CancelDelete(pod=ref) if ref.uid not in failing:
                self.done.pop(ref.uid, None)
            case CancelDelete():
                return
            case OpenGates(gates=gates) if all(gate.type == KRUISE_POD_READY for gate in gates):
                pass  # the other one is closed by ourselves, again and again
            case ReleasePod():
                self.done.pop(answer.place, None)
                return
            case UpdateInPlace() | RelabelPod() | AdoptPod():
                pass
            case _:
                return
        if len(self.done) > KEPT:
            self.forget()
        self.done[answer.place] = Done(what=_what(action), at=moment)
        (self.fought.discard if answer.error is None else self.fought.add)(answer.place)


def _what(action: Action) -> tuple[type[Action], str]:
    """A pod may be changed to one revision, back, and to the first again."""
    match action:
        case UpdateInPlace(revision=revision):
            return type(action), revision.hash
        case RelabelPod(hash=hash_):
            return type(action), hash_
        case _:
            return type(action), ""
