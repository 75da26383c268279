"""The actions that the planner may ask for: one action is one write to one object, with what its precondition needs.

What is known of a kind of action is said once, by its class: the name of its object, its place, and the `operation`
under which the metrics count it (empty: it is a part of another operation, or about no pod). The type checker demands
them of each member of `Action`.

The result of one stage of the planner: what is to be done, and what users are to be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from controller.api.names import TEMPLATE_REFUSED, InPlaceRefusal
from controller.api.objects import Ref, Value
from controller.api.readiness_gates import ReadinessGate
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange
from controller.planner.world import BackoffKey, TemplateRefused


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
    STRAY = "a webhook changed its labels, so that the selector does not match it"
    NOT_RESIZED = "its resize is refused"


class OnPod(Value):
    """An action on an existing pod."""

    pod: Ref

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def backoff_key(self) -> BackoffKey:
        """The place where the action would fail again if it fails."""
        return BackoffKey.of_object(self.pod.uid)

    @property
    def variant(self) -> str:
        """The written value, if actions of its kind can write different things to one pod. A later action with the
        same variant repeats this one."""
        return ""


class OnRevision(Value):
    """An action on a stored revision."""

    operation = ""
    revision: Ref

    @property
    def name(self) -> str:
        return self.revision.name

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_object(self.revision.uid)


class AdoptPod(OnPod):
    """Make the DaemonSet the owner of a pod that has none."""

    operation = "adopt"
    owners: int
    """Number of owner references that the pod has already."""


class ReleasePod(OnPod):
    """Remove the DaemonSet's owner reference from a pod that its selector does not match any more."""

    operation = "orphan"
    owner_index: int
    """Position of that reference among the pod's."""


class RelabelPod(OnPod):
    """Give a pod the hash of another revision with the same content; no container restarts."""

    operation = ""
    hash: str
    reverted: bool = False
    """The hash is that of its former revision: somebody has taken back what its update in place had changed."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_label(self.pod.uid) if self.reverted else super().backoff_key

    @property
    def variant(self) -> str:
        return self.hash


class AdoptRevision(OnRevision):
    """Make the DaemonSet the owner of a revision that has none."""

    owners: int
    """Number of owner references that the revision has already."""
    annotated: bool = False
    """Whether the revision has annotations already."""
    never_ran: bool = False
    """Record that no pod has this revision."""


class CreateRevision(Value):
    """Store the template as a ControllerRevision."""

    operation = ""
    name: str
    hash: str
    number: int

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_revision()


class RenumberRevision(OnRevision):
    """Give an earlier revision the highest number, as it is the current one again."""

    number: int


class RecordRun(OnRevision):
    """Remove the record that no pod has had a revision."""


class DeleteRevision(OnRevision):
    """Delete a revision that no pod needs: it is beyond revisionHistoryLimit, or its content is stored twice."""


class ProbeTemplate(Value):
    """Ask the server, by a dry run, whether it would accept a pod of this revision on this node."""

    operation = ""
    node: str
    name: str
    revision: Revision
    strict: bool = False
    """As for `CreatePod`. The pod then keeps what the template says of its node, so that the server sees it all."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_template(self.revision.hash)


class CreatePod(Value):
    """Create a pod of this revision on this node."""

    operation = "create"
    node: str
    name: str
    """Derived from the world: a create that is repeated is refused, and makes no second pod."""
    revision: Revision
    strict: bool = False
    """Whether the server refuses it if it does not know some fields of the revision; otherwise it drops these."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_node(self.node)


class DeletePod(OnPod):
    operation = "delete"
    node: str
    why: DeleteReason
    refusal: InPlaceRefusal | None = None
    """Why the pod is not updated in place; None where that was not asked for."""
    as_seen: bool = False
    """Whether the pod must have the resourceVersion that was decided about: a preDelete hook may hold it since."""


class PrepareDelete(OnPod):
    """Put a pod into the lifecycle state PreparingDelete: those whom the preDelete hook names are to let it go."""

    operation = ""
    node: str
    why: DeleteReason
    mark: bool
    """Whether the hook wants the pod to be not ready meanwhile."""
    held_by: str
    """The labels and finalizers that have to be removed first, in words."""
    tried: bool = False
    """Whether an earlier attempt failed: then a dry run asks the server before the pod loses its traffic again."""


class CancelDelete(OnPod):
    """Undo what `PrepareDelete` did: the pod stays."""

    operation = ""
    labels: Mapping[str, str] = {}
    """Labels to be set again: they were changed to let the pod go, and the selector asks for them."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_keeping(self.pod.uid)


class DrainPod(OnPod):
    """Close the readiness gate of a pod some seconds before it is updated in place, so that it loses its traffic."""

    operation = ""
    node: str


class UpdateInPlace(OnPod):
    """Change a running pod to the revision. If that restarts a container, its readiness gate is closed before."""

    operation = "update"
    node: str
    before: str
    """Hash of the revision that the pod has. A pod that has another one by now is left alone."""
    revision: Revision
    change: InPlaceChange
    tried: bool = False
    """Whether an earlier attempt failed: then a dry run asks the server before the pod loses its traffic again."""
    moved: frozenset[str] = frozenset()
    """New images that nodes have under another name, as in `World`: a dry run asks whether the pod gets that one."""

    @property
    def variant(self) -> str:
        return self.revision.hash


class ContinueInPlace(OnPod):
    """Go on with an update in place, at the containers of the next launch priority."""

    operation = ""
    node: str
    revision: Revision
    """The pod's revision, or the current one where that is not stored any more: it tells the order of containers."""
    waiting: tuple[str, ...] = ()
    """Names of these containers and of all that come after them."""

    @property
    def variant(self) -> str:
        return " ".join(self.waiting)


class ResizePod(OnPod):
    """Give the containers the cpu and memory that the pod's state annotation asks for."""

    operation = "resize"
    node: str


class OpenGates(OnPod):
    """Set the conditions of readiness gates to True: of those that are closed and ours."""

    operation = ""
    gates: tuple[ReadinessGate, ...]

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey.of_gates(self.pod.uid)

    @property
    def variant(self) -> str:
        return " ".join(gate.type for gate in self.gates)


InPlaceAction: TypeAlias = DrainPod | UpdateInPlace | ContinueInPlace | ResizePod | OpenGates
RevisionAction: TypeAlias = AdoptRevision | CreateRevision | RenumberRevision | RecordRun | DeleteRevision

Unready: TypeAlias = DrainPod | PrepareDelete | UpdateInPlace
"""Actions that make a pod unavailable while it keeps running."""
InDoubt: TypeAlias = CreatePod | DeletePod | Unready
"""Actions that make a node unavailable or give it a pod. While the server has not answered one, and after its answer
was lost, it counts as done."""
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
"""Actions that neither make a node unavailable nor give it a pod. They count as done only once the server has
answered."""
Action: TypeAlias = InDoubt | Harmless


class Note(Value):
    """A message that a user should read. It becomes an Event on the DaemonSet."""

    warning: bool
    reason: str
    message: str
    once: bool = False
    """Whether it is not repeated for some minutes, although it is no warning."""
    of_rollout: bool = False
    """Whether it is about the rollout as a whole, and must not be lost among notes about single pods."""


def refusal_note(verdict: TemplateRefused) -> Note:
    done = "no pod is created" if verdict.unknown_fields else "no old pod is replaced"
    text = f"The server refuses pods of the new template; {done}: {verdict.words}"
    return Note(warning=True, reason=TEMPLATE_REFUSED, message=text)


class Step(Value):
    """The actions that one stage wants, and when to look again."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    """When to look again even if nothing happens (seconds since 1970); None: no such time."""
    more: bool = False
    """Whether something is left for later: for when the caches show these actions, or more pods are available."""
    again: bool = False
    """Whether the server sends no event for these actions (a dry run), so that the next pass follows at once if they
    succeed."""
