"""What the planner may ask for. An action is one write to one object, with what its precondition needs; a note is a
message to users; a step is what one stage wants.

Each kind of action has the name of its object, the key under which it backs off if it fails, and the `operation` that
metrics count it as (empty: a part of another one, or about no pod).
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
    """Why a pod is deleted; the conditions are listed in `rolling_update`."""

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
        """What is written, if actions of this kind can write different things to one pod: an action with the same
        variant repeats this one."""
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
        return BackoffKey("object", self.revision.uid)


class AdoptPod(OnPod):
    """Make the DaemonSet the owner of a pod that has none."""

    operation = "adopt"
    owners: int
    """Number of owner references of the pod."""


class ReleasePod(OnPod):
    """Remove the DaemonSet's owner reference from a pod that the selector does not match any more."""

    operation = "orphan"
    owner_index: int


class RelabelPod(OnPod):
    """Give a pod the hash of another revision with the same content; no container restarts."""

    hash: str
    reverted: bool = False
    """The hash is that of its former revision: its update in place was reverted externally."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("label", self.pod.uid) if self.reverted else super().backoff_key

    @property
    def variant(self) -> str:
        return self.hash


class AdoptRevision(OnRevision):
    """Make the DaemonSet the owner of a revision that has none."""

    owners: int
    """Number of owner references of the revision."""
    annotated: bool = False
    """Whether the revision has annotations."""
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
        return BackoffKey("revision")


class RenumberRevision(OnRevision):
    """Give an earlier revision the highest number: it is the current one again."""

    number: int


class RecordRun(OnRevision):
    """Remove the record that no pod has had a revision."""


class DeleteRevision(OnRevision):
    """Delete a revision beyond revisionHistoryLimit, or one whose content is stored twice."""


class ProbeTemplate(Value):
    """Ask the server by a dry run whether it accepts a pod of this revision on this node."""

    operation = ""
    node: str
    name: str
    revision: Revision
    strict: bool = False
    """As for `CreatePod`. The pod keeps what the template says of its node, so that the server sees all fields."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("template", self.revision.hash)


class CreatePod(Value):
    """Create a pod of this revision on this node."""

    operation = "create"
    node: str
    name: str
    """Derived from the world, so that a repeated create is refused."""
    revision: Revision
    strict: bool = False
    """Whether the server refuses fields that it does not know; otherwise it drops them."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("node", self.node)


class DeletePod(OnPod):
    operation = "delete"
    node: str
    why: DeleteReason
    refusal: InPlaceRefusal | None = None
    """Why the pod is not updated in place; None: that was not asked for."""
    as_seen: bool = False
    """Whether the resourceVersion is a precondition, because a preDelete hook may hold the pod by now."""


class PrepareDelete(OnPod):
    """Put a pod into the lifecycle state PreparingDelete, for the handlers of the preDelete hook to release it."""

    node: str
    why: DeleteReason
    mark: bool
    """Whether the pod is made not ready (`markPodNotReady`)."""
    held_by: str
    """The labels and finalizers that have to be removed first, in words."""
    tried: bool = False
    """Whether an earlier attempt failed: a dry run comes before the pod loses its traffic again."""


class CancelDelete(OnPod):
    """Revert `PrepareDelete`: the pod stays."""

    labels: Mapping[str, str] = {}
    """Labels that were changed to release the pod and that the selector requires."""

    @property
    def backoff_key(self) -> BackoffKey:
        return BackoffKey("kept", self.pod.uid)


class DrainPod(OnPod):
    """Close the readiness gate of a pod before its update in place, so that its traffic goes elsewhere."""

    node: str


class UpdateInPlace(OnPod):
    """Change a running pod to the revision. If a container restarts, its readiness gate is closed before."""

    operation = "update"
    node: str
    before: str
    """Hash of the pod's revision, a precondition."""
    revision: Revision
    change: InPlaceChange
    tried: bool = False
    """As for `PrepareDelete`."""
    moved: frozenset[str] = frozenset()
    """As in `World`: a dry run asks whether the pod gets the image of that name."""

    @property
    def variant(self) -> str:
        return self.revision.hash


class ContinueInPlace(OnPod):
    """Continue an update in place with the containers of the next launch priority."""

    node: str
    revision: Revision
    """It has the order of containers: the pod's revision, or the current one if that is not stored any more."""
    waiting: tuple[str, ...] = ()
    """Names of the containers that are left."""

    @property
    def variant(self) -> str:
        return " ".join(self.waiting)


class ResizePod(OnPod):
    """Give the containers the cpu and memory of the pod's state annotation."""

    operation = "resize"
    node: str


class OpenGates(OnPod):
    """Set the conditions of the controller's closed readiness gates to True."""

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
"""Actions that make a node unavailable or give it a pod: counted as done while unanswered."""
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
"""All other actions: counted as done once the server has answered."""
Action: TypeAlias = InDoubt | Harmless


class Note(Value):
    """A message to users, sent as an Event of the DaemonSet."""

    warning: bool
    reason: str
    message: str
    once: bool = False
    """Whether it is not repeated for some minutes, as warnings are not."""
    of_rollout: bool = False
    """Whether it is about the rollout as a whole, and not dropped for notes about pods."""


def refusal_note(verdict: TemplateRefused) -> Note:
    done = "no pod is created" if verdict.unknown_fields else "no old pod is replaced"
    text = f"The server refuses pods of the new template; {done}: {verdict.words}"
    return Note(warning=True, reason=TEMPLATE_REFUSED, message=text)


class Step(Value):
    """What one stage wants, and when to plan again."""

    actions: tuple[Action, ...] = ()
    notes: tuple[Note, ...] = ()
    wake_at: float | None = None
    """When to plan again even if nothing happens (seconds since 1970); None: no such time."""
    more: bool = False
    """Whether something is left for when the caches show these actions, or more pods are available."""
    again: bool = False
    """Whether the next pass follows at once if the actions succeed: a dry run sends no watch event."""
