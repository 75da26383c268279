"""What the planner may ask for. One action is one intention on one object, with what its precondition needs.

What is known of each kind of action is said here once, by its class: its object's name, its place and its `Traits`.
The type checker demands them of each member of `Action`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from controller.api.base import Value
from controller.api.gates import Gate
from controller.api.meta import Ref
from controller.api.revision import Revision
from controller.api.wellknown import InPlaceRefusal
from controller.planner.in_place.change import InPlaceChange
from controller.planner.place import Place
from controller.planner.traits import Traits


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


class OnPod(Value):
    """An action on a pod that there is."""

    pod: Ref

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def place(self) -> Place:
        """Where a failure of the action would come again."""
        return Place.of_object(self.pod.uid)

    @property
    def variant(self) -> str:
        """What tells it from other actions of its kind on the same pod: only the same one again is a repetition."""
        return ""


class OnRevision(Value):
    """An action on a stored revision."""

    traits = Traits()
    revision: Ref

    @property
    def name(self) -> str:
        return self.revision.name

    @property
    def place(self) -> Place:
        return Place.of_object(self.revision.uid)


class AdoptPod(OnPod):
    traits = Traits(operation="adopt", leaves="adopted")
    owners: int
    """Number of owner references that it has already."""


class ReleasePod(OnPod):
    traits = Traits(operation="orphan", ends="adopted")
    owner_index: int


class RelabelPod(OnPod):
    """Move a pod to the kept one of two revisions with the same content; nothing restarts."""

    traits = Traits(leaves="relabelled")
    hash: str
    taken_back: bool = False
    """Back to its former one instead: somebody has put back what its update changed."""

    @property
    def place(self) -> Place:
        return Place.of_label(self.pod.uid) if self.taken_back else super().place

    @property
    def variant(self) -> str:
        return self.hash


class AdoptRevision(OnRevision):
    owners: int


class CreateRevision(Value):
    traits = Traits()
    name: str
    hash: str
    number: int

    @property
    def place(self) -> Place:
        return Place.of_revision(self.hash)


class RenumberRevision(OnRevision):
    number: int


class DeleteRevision(OnRevision):
    """One that no pod needs: it is beyond revisionHistoryLimit, or its content is stored twice."""


class ProbeTemplate(Value):
    """Ask the server by a dry run whether it would accept a pod of this revision on this node."""

    traits = Traits()
    node: str
    name: str
    revision: Revision

    @property
    def place(self) -> Place:
        return Place.of_template(self.revision.hash)


class CreatePod(Value):
    traits = Traits(operation="create")
    node: str
    name: str
    """Derived from the world, so that a repeated create is refused rather than doubled."""
    revision: Revision

    @property
    def place(self) -> Place:
        return Place.of_node(self.node)


class DeletePod(OnPod):
    traits = Traits(operation="delete")
    node: str
    why: DeleteReason
    refusal: InPlaceRefusal | None = None
    """Where an update in place was asked for instead: what speaks against it."""
    as_seen: bool = False
    """Only on the very version that was decided about: something may hold it since."""


class PrepareDelete(OnPod):
    """The state PreparingDelete, and not ready where the preDelete hook asks for that: it is to let the pod go."""

    traits = Traits(leaves="prepared", ends="kept")
    node: str
    why: DeleteReason
    mark: bool
    """Whether the pod is to be not ready meanwhile."""
    held_by: str
    """The labels and finalizers that have to go first, in words."""
    tried: bool = False
    """It failed before: the server is asked by a dry run before the pod is made to leave its traffic again."""


class CancelDelete(OnPod):
    """Both of that taken back: the pod stays."""

    traits = Traits(leaves="kept", ends="prepared")
    labels: Mapping[str, str] = {}
    """What let it go already, where the selector asks for it."""

    @property
    def place(self) -> Place:
        return Place.of_keeping(self.pod.uid)


class DrainPod(OnPod):
    """Close the pod's readiness gate some time before it is updated in place."""

    traits = Traits(leaves="drained", may_end="opened")
    node: str


class UpdateInPlace(OnPod):
    """Change a running pod to the revision, without a new pod. Where that restarts a container, its readiness gate is
    closed before."""

    traits = Traits(operation="update", leaves="updated", ends="relabelled", may_end="opened")
    node: str
    before: str
    """Revision hash that the pod has; one that has another one by now is left alone."""
    revision: Revision
    change: InPlaceChange
    tried: bool = False
    """It failed before: the server is asked by a dry run before the pod is made to leave its traffic again."""

    @property
    def variant(self) -> str:
        return self.revision.hash


class ContinueInPlace(OnPod):
    """The containers of the next launch priority."""

    traits = Traits(leaves="continued")
    node: str
    revision: Revision
    """Of the pod; where that is not stored any more the current one. It tells the order."""
    waiting: tuple[str, ...] = ()
    """These and all that come after them."""

    @property
    def variant(self) -> str:
        return " ".join(self.waiting)


class ResizePod(OnPod):
    """What the pod's state annotation says that its containers are to have of cpu and memory."""

    traits = Traits(operation="resize", leaves="resized")
    node: str


class OpenGates(OnPod):
    """Set the conditions of the pod's readiness gates True, all that are closed and ours."""

    traits = Traits(leaves="opened", ends="drained")
    gates: tuple[Gate, ...]

    @property
    def place(self) -> Place:
        return Place.of_gates(self.pod.uid)

    @property
    def variant(self) -> str:
        return " ".join(gate.type for gate in self.gates)


InPlaceAction: TypeAlias = DrainPod | UpdateInPlace | ContinueInPlace | ResizePod | OpenGates
RevisionAction: TypeAlias = AdoptRevision | CreateRevision | RenumberRevision | DeleteRevision

Unready: TypeAlias = DrainPod | PrepareDelete | UpdateInPlace
"""What makes a pod unavailable that runs on."""
InDoubt: TypeAlias = CreatePod | DeletePod | Unready
"""What makes a node unavailable or gives it a pod. While it is unanswered, and after its answer was lost, it counts
as done."""
Harmless: TypeAlias = (
    AdoptPod
    | ReleasePod
    | RelabelPod
    | ProbeTemplate
    | CancelDelete
    | ContinueInPlace
    | ResizePod
    | OpenGates
    | RevisionAction
)
"""What makes no node unavailable and gives none a pod: it counts as done once it is."""
Action: TypeAlias = InDoubt | Harmless
