"""The planner's output: an action is one write to one object, a note is a message to users, and a `StageResult` has
those of a stage. A failed action backs off under its `backoff_key`. Metrics count it as its `operation`; empty: not
at all."""

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
    operation = ""
    pod: Ref

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("object", self.pod.uid)

    @property
    def variant(self) -> str:
        """An action repeats an earlier one of its kind on the same pod if it has the same variant."""
        return ""


class OnRevision(Value):
    operation = ""
    revision: Ref

    @property
    def name(self) -> str:
        return self.revision.name

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("object", self.revision.uid)


class AdoptPod(OnPod):
    operation = "adopt"
    owners: int
    """Number of owner references on the pod."""


class ReleasePod(OnPod):
    """Remove the DaemonSet's owner reference from a pod that the selector no longer matches."""

    operation = "orphan"
    owner_index: int


class RelabelPod(OnPod):
    """Give a pod the hash of another revision with the same content; no container restarts."""

    hash: str
    reverted: bool = False
    """Whether `hash` is that of its former revision, because its update in place was reverted externally."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("label", self.pod.uid) if self.reverted else super().backoff_key

    @property
    def variant(self) -> str:
        return self.hash


class AdoptRevision(OnRevision):
    owners: int
    annotated: bool = False
    never_ran: bool = False
    """Whether to record that no pod has had this revision."""


class CreateRevision(Value):
    """Store the template as a ControllerRevision."""

    operation = ""
    name: str
    hash: str
    number: int

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("revision")


class RenumberRevision(OnRevision):
    """Give an earlier revision the highest number, which makes it the current one again."""

    number: int


class RecordRun(OnRevision):
    """Remove the record that no pod has had the revision."""


class DeleteRevision(OnRevision):
    """Delete a revision beyond revisionHistoryLimit, or one whose content is stored twice."""


class ProbeTemplate(Value):
    """Check by a server-side dry run whether a pod of this revision is accepted on this node."""

    operation = ""
    node: str
    name: str
    revision: Revision
    strict: bool = False
    """As in `CreatePod`. The pod keeps the placement fields of the template, so that the server checks all fields."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("template", self.revision.hash)


class CreatePod(Value):
    operation = "create"
    node: str
    name: str
    """Derived from the world, so that the server refuses a repeated create."""
    revision: Revision
    strict: bool = False
    """Whether the server refuses unknown fields; otherwise it drops them."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("node", self.node)


class DeletePod(OnPod):
    operation = "delete"
    node: str
    why: DeleteReason
    refusal: InPlaceRefusal | None = None
    """Why the pod is not updated in place; None: an update in place was not asked for."""
    as_seen: bool = False
    """Whether the resourceVersion is a precondition, because a preDelete hook may match the pod by now."""


class PrepareDelete(OnPod):
    """Put a pod into the lifecycle state PreparingDelete, in which the handlers of the preDelete hook release it."""

    node: str
    why: DeleteReason
    mark: bool
    """Whether the pod is made not ready (`markPodNotReady`)."""
    held_by: str
    """The labels and finalizers that have to be removed first, as text."""
    tried: bool = False
    """Whether an earlier attempt failed; a dry run then comes before the pod loses its traffic again."""


class CancelDelete(OnPod):
    """Revert `PrepareDelete`; the pod stays."""

    labels: Mapping[str, str] = {}
    """Labels to restore: they were changed to release the pod, and the selector requires them."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("cancel", self.pod.uid)


class DrainPod(OnPod):
    """Close the readiness gate of a pod ahead of its update in place, so that its traffic goes elsewhere."""

    node: str


class UpdateInPlace(OnPod):
    """Change a running pod to the revision. If a container restarts, its readiness gate is closed first."""

    operation = "update"
    node: str
    before: str
    """Hash of the pod's revision, as a precondition."""
    revision: Revision
    change: InPlaceChange
    tried: bool = False
    """As in `PrepareDelete`."""
    mutated_images: frozenset[str] = frozenset()
    """As in `World`; a dry run checks whether the pod gets the image of that name."""

    @property
    def variant(self) -> str:
        return self.revision.hash


class ContinueInPlace(OnPod):
    """Continue an update in place with the containers of the next launch priority."""

    node: str
    revision: Revision
    """Gives the order of containers: the pod's revision, or the current one if that is no longer stored."""
    waiting: tuple[str, ...] = ()
    """Names of the containers that are left to update."""

    @property
    def variant(self) -> str:
        return " ".join(self.waiting)


class ResizePod(OnPod):
    """Give the containers the cpu and memory in the pod's state annotation."""

    operation = "resize"
    node: str


class OpenGates(OnPod):
    """Set the conditions of the readiness gates that the controller closed to True."""

    gates: tuple[ReadinessGate, ...]

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("gates", self.pod.uid)

    @property
    def variant(self) -> str:
        return " ".join(gate.type for gate in self.gates)


InPlaceAction: TypeAlias = DrainPod | UpdateInPlace | ContinueInPlace | ResizePod | OpenGates
RevisionAction: TypeAlias = AdoptRevision | CreateRevision | RenumberRevision | RecordRun | DeleteRevision

Unready: TypeAlias = DrainPod | PrepareDelete | UpdateInPlace
"""Actions that make a pod unavailable while it keeps running."""
InDoubt: TypeAlias = CreatePod | DeletePod | Unready
"""Actions that make a node unavailable or give it a pod: they count as done while unanswered."""
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
"""All other actions: they count as done once the server has answered."""
Action: TypeAlias = InDoubt | Harmless


class Note(Value):
    """A message to users, sent as an Event of the DaemonSet."""

    warning: bool
    reason: str
    message: str
    once: bool = False
    """Whether it is sent again only after some minutes, as warnings are."""
    of_rollout: bool = False
    """Whether it is about the whole rollout; notes about pods do not displace it."""


def refusal_note(verdict: TemplateRefused) -> Note:
    done = "no pod is created" if verdict.unknown_fields else "no old pod is replaced"
    text = f"The server refuses pods of the new template; {done}: {verdict.message}"
    return Note(warning=True, reason=TEMPLATE_REFUSED, message=text)


class StageResult(Value):
    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    """When to plan again even without an event (seconds since 1970)."""
    more: bool = False
    """Whether work is left for when the caches show these actions, or more pods are available."""
    again: bool = False
    """Whether the next pass follows at once if the actions succeed, because a dry run causes no watch event."""
