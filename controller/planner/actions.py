"""What the planner may ask for. One action is one intention on one object, with what its precondition needs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias, assert_never

from controller.api.base import Value
from controller.api.gates import Gate
from controller.api.meta import Ref
from controller.api.revision import Revision
from controller.api.wellknown import InPlaceRefusal
from controller.planner.in_place.change import InPlaceChange
from controller.planner.place import Place
from controller.planner.status import Status
from controller.planner.summary import Summary


class DeleteReason(StrEnum):
    """Why a pod is deleted."""

    UNWANTED = "its node should not run it"
    EXCESS = "the node has another one"
    FAILED = "it failed"
    SUCCEEDED = "it ended"
    OUTDATED = "it is of an old revision"
    SURGED = "its successor is available, or it is not ready itself"
    SURPLUS = "its node may only keep it, and others serve instead"
    VANISHED = "its node is gone"
    NOT_RESIZED = "its resize is refused"


class AdoptPod(Value):
    pod: Ref
    owners: int
    """Number of owner references that it has already."""


class ReleasePod(Value):
    pod: Ref
    owner_index: int


class RelabelPod(Value):
    """Move a pod to the kept one of two revisions with the same content; nothing restarts."""

    pod: Ref
    hash: str
    taken_back: bool = False
    """Back to its former one instead: somebody has put back what its update changed."""


class AdoptRevision(Value):
    revision: Ref
    owners: int


class CreateRevision(Value):
    name: str
    hash: str
    number: int


class RenumberRevision(Value):
    revision: Ref
    number: int


class DeleteRevision(Value):
    revision: Ref


class ProbeTemplate(Value):
    """Ask the server by a dry run whether it would accept a pod of this revision on this node."""

    node: str
    name: str
    revision: Revision


class CreatePod(Value):
    node: str
    name: str
    """Derived from the world, so that a repeated create is refused rather than doubled."""
    revision: Revision


class DeletePod(Value):
    pod: Ref
    node: str
    why: DeleteReason
    refusal: InPlaceRefusal | None = None
    """Where an update in place was asked for instead: what speaks against it."""
    as_seen: bool = False
    """Only on the very version that was decided about: something may hold it since."""


class PrepareDelete(Value):
    """The state PreparingDelete, and not ready where the preDelete hook asks for that: it is to let the pod go."""

    pod: Ref
    node: str
    why: DeleteReason
    mark: bool
    """Whether the pod is to be not ready meanwhile."""
    held_by: str
    """The labels and finalizers that have to go first, in words."""
    tried: bool = False
    """It failed before: the server is asked by a dry run before the pod is made to leave its traffic again."""


class CancelDelete(Value):
    """Both of that taken back: the pod stays."""

    pod: Ref
    labels: Mapping[str, str] = {}
    """What let it go already, where the selector asks for it."""


class DrainPod(Value):
    """Close the pod's readiness gate some time before it is updated in place."""

    pod: Ref
    node: str


class UpdateInPlace(Value):
    """Change a running pod to the revision, without a new pod. Where that restarts a container, its readiness gate is
    closed before."""

    pod: Ref
    node: str
    before: str
    """Revision hash that the pod has; one that has another one by now is left alone."""
    revision: Revision
    change: InPlaceChange
    tried: bool = False
    """It failed before: the server is asked by a dry run before the pod is made to leave its traffic again."""


class ContinueInPlace(Value):
    """The containers of the next launch priority."""

    pod: Ref
    node: str
    revision: Revision
    """Of the pod; where that is not stored any more the current one. It tells the order."""
    waiting: tuple[str, ...] = ()
    """These and all that come after them."""


class ResizePod(Value):
    """What the pod's state annotation says that its containers are to have of cpu and memory."""

    pod: Ref
    node: str


class OpenGates(Value):
    """Set the conditions of the pod's readiness gates True, all that are closed and ours."""

    pod: Ref
    gates: tuple[Gate, ...]


InPlaceAction: TypeAlias = DrainPod | UpdateInPlace | ContinueInPlace | ResizePod | OpenGates
RevisionAction: TypeAlias = AdoptRevision | CreateRevision | RenumberRevision | DeleteRevision
Action: TypeAlias = (
    AdoptPod
    | ReleasePod
    | RelabelPod
    | ProbeTemplate
    | CreatePod
    | DeletePod
    | PrepareDelete
    | CancelDelete
    | InPlaceAction
    | RevisionAction
)


def place_of(action: Action) -> Place:
    """Where a failure of this action would come again."""
    match action:
        case CreatePod(node=node):
            return Place.of_node(node)
        case DeletePod(pod=ref) | AdoptPod(pod=ref) | ReleasePod(pod=ref):
            return Place.of_object(ref.uid)
        case RelabelPod(pod=ref, taken_back=taken_back):
            return Place.of_label(ref.uid) if taken_back else Place.of_object(ref.uid)
        case PrepareDelete(pod=ref):
            return Place.of_object(ref.uid)
        case CancelDelete(pod=ref):
            return Place.of_keeping(ref.uid)
        case DrainPod(pod=ref) | UpdateInPlace(pod=ref) | ContinueInPlace(pod=ref) | ResizePod(pod=ref):
            return Place.of_object(ref.uid)
        case OpenGates(pod=ref):
            return Place.of_gates(ref.uid)
        case AdoptRevision(revision=ref) | RenumberRevision(revision=ref) | DeleteRevision(revision=ref):
            return Place.of_object(ref.uid)
        case CreateRevision():
            return Place.of_revision(action.hash)
        case ProbeTemplate():
            return Place.of_template(action.revision.hash)
        case _:
            assert_never(action)


class Note(Value):
    """Something that a user should read: it becomes an Event on the DaemonSet."""

    warning: bool
    reason: str
    message: str
    once: bool = False
    """Not said again within some minutes, though it is no warning."""
    of_rollout: bool = False
    """It is about the rollout as a whole, and is not to be lost among those about its pods."""


class Step(Value):
    """What one stage wants."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    """Seconds since 1970: look again then, even if nothing happens."""
    more: bool = False
    """There is more to do once the caches show what these actions did, or once more pods are available."""
    again: bool = False
    """What these actions do brings no event: once they went well, the next pass goes on at once."""


class Plan(Value):
    """What one pass wants."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    more: bool = False
    again: bool = False
    withheld: bool = False
    """While writes fail: some are left out because they failed before, and will be tried later."""
    all_written: bool = False
    """Nothing is left to be written, so whatever failed before is over."""
    status: Status | None = None
    """The status as it should read; None: leave it alone."""
    rollout_events: tuple[Note, ...] = ()
    """To be said once that status is written, which is how each is said once."""
    summary: Summary | None = None
    """What was seen; None where the spec cannot be made sense of."""
