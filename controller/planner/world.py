"""The BackoffKey of an action: where the same write would fail again. A failed write is held back only there.

The World: everything that one decision may look at, frozen at one moment.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Literal, TypeAlias, assert_never

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.node_fit import Rules


class BackoffKey(Value):
    """One place. Make it by its kind, so that a name is never taken for a uid."""

    kind: Literal["node", "object", "gates", "label", "kept", "revision", "template", "room"]
    name: str

    @classmethod
    def of_node(cls, name: str) -> BackoffKey:
        """The place where a pod is created on this node."""
        return cls(kind="node", name=name)

    @classmethod
    def of_object(cls, uid: str) -> BackoffKey:
        """The place of any write to this object that has no place of its own."""
        return cls(kind="object", name=uid)

    @classmethod
    def of_gates(cls, uid: str) -> BackoffKey:
        """The place where the readiness gates of this pod are opened."""
        return cls(kind="gates", name=uid)

    @classmethod
    def of_label(cls, uid: str) -> BackoffKey:
        """The place where this pod gets the label of its former revision back."""
        return cls(kind="label", name=uid)

    @classmethod
    def of_keeping(cls, uid: str) -> BackoffKey:
        """The place where the preparation for the deletion of this pod is taken back."""
        return cls(kind="kept", name=uid)

    @classmethod
    def of_revision(cls) -> BackoffKey:
        """The place where the current revision is stored, whatever hash it gets after collisions."""
        return cls(kind="revision", name="")

    @classmethod
    def of_template(cls, revision_hash: str) -> BackoffKey:
        """The place where a dry run asks the server about this revision."""
        return cls(kind="template", name=revision_hash)

    def is_among(self, nodes: Container[str], uids: Container[str]) -> bool:
        """Whether its node or object is one of these; True for a place that has neither."""
        match self.kind:
            case "node":
                return self.name in nodes
            case "object" | "gates" | "label" | "kept":
                return self.name in uids
            case "revision" | "template" | "room":
                return True
            case _:
                assert_never(self.kind)


POD_QUOTA = BackoffKey(kind="room", name="pods")
"""The place of all creates of pods while a ResourceQuota is full: if one is refused, all are."""


class FormerPod(Value):
    """A pod of ours that is gone."""

    hash: str
    """The hash of its revision; "" for a pod without one."""
    created: float = 0.0
    """Its creation time (seconds since 1970)."""


class Predecessor(Value, gc=True):
    """The pod that was last seen on a node and is gone."""

    uid: str
    pod: FormerPod | None = None
    """The pod; None: it was no pod of ours, only its name was taken."""


def predecessor(gone: Pod) -> Predecessor:
    return Predecessor(uid=gone.uid, pod=FormerPod(hash=gone.hash, created=gone.created))


class Unasked(Value):
    """The server has not said yet whether it accepts pods of a template."""


class Accepted(Value):
    """The server accepts pods of a template."""


class TemplateRefused(Value):
    """The server refuses pods of a template."""

    words: str
    """The message of the server."""
    unknown_fields: bool = False
    """Whether the reason is that the server does not know some fields. That is so on every node."""


TemplateVerdict: TypeAlias = Unasked | Accepted | TemplateRefused


class BeingPulled(Value):
    """A node does not have an image yet."""


class Unpullable(Value):
    """A node cannot get an image, for the reason `why`."""

    why: str


Unpulled: TypeAlias = BeingPulled | Unpullable


def unpulled(why: str) -> Unpulled:
    """Whether an image is still being pulled or cannot be: `why` says what is wrong, empty if nothing is."""
    return Unpullable(why=why) if why else BeingPulled()


class World(Value):
    """One DaemonSet and everything around it. Objects may come in any order, except `nodes`."""

    daemonset: DaemonSet
    rules: Rules
    """The rules compiled from exactly this generation, with its problems if the spec cannot be used."""
    nodes: tuple[Node, ...]
    """All nodes, sorted by name, which is the order of creation."""
    pods: tuple[Pod, ...]
    """The pods that this DaemonSet controls."""
    now: float
    """The time of this pass (seconds since 1970), read once."""
    orphans: tuple[Pod, ...] = ()
    """The pods of the namespace that have no controller."""
    revisions: tuple[Revision, ...] = ()
    """The revisions that this DaemonSet controls."""
    placements: Mapping[str, Rules | None] = {}
    """Placement rules by uid of the revision. None or missing: it cannot be compiled, and runs nowhere."""
    changes: Mapping[str, InPlaceChange | NotPossible] = {}
    """Changes of an update in place to the current revision, by hash of the older one. Missing: that is not stored.
    Empty if updates in place are not asked for."""
    reads_env: bool = False
    """Whether containers that read a changed label into their environment may be left to a node agent to restart."""
    resizable: bool = True
    """Whether cpu and memory may change in place: it is enabled, and the cluster supports it."""
    no_resize: str = ""
    """Why the cluster cannot do that; empty: it can, as far as we know."""
    refused_resizes: Mapping[str, str] = {}
    """Messages with which the server refused to resize a pod, by its uid."""
    unmapped: Mapping[str, str] = {}
    """Why an update in place would undo what admission did to a pod at its creation, by its uid."""
    unpulled: Mapping[str, Unpulled] = {}
    """The state of the new images on nodes that lack them, by node, if the update waits for them."""
    moved: frozenset[str] = frozenset()
    """New images that nodes have under another name, because admission changes pods that are created now."""
    orphan_revisions: tuple[Revision, ...] = ()
    """The revisions of the namespace that have no controller."""
    fresh: bool = True
    """Whether the caches have seen all of our own writes. If not, only look and do not act."""
    strays: frozenset[str] = frozenset()
    """uids of pods of ours that the selector has not matched since a write: a webhook changed their labels."""
    not_before: Mapping[str, float] = {}
    """When nodes whose pods do not last may have their next one (seconds since 1970), by node."""
    restored: frozenset[str] = frozenset()
    """Nodes where another controller creates pods that do not last, though not many at once. No pod is deleted there
    before `not_before`."""
    short_lived: Mapping[str, float] = {}
    """Nodes whose pods have not lasted several times in a row, and until when the next one has to (seconds since
    1970)."""
    unanswered_names: Mapping[str, str] = {}
    """Names of pods whose create got no answer and may yet be done, by node."""
    predecessors: Mapping[str, Predecessor] = {}
    """The last pod of each node, by node. It goes into the name of the next pod."""
    awaited: frozenset[BackoffKey] = frozenset()
    """The places of writes that the server has not answered yet. All are in `in_backoff` too."""
    coming: Mapping[str, str] = {}
    """Revision hashes of pods that may have been created but were not seen yet, by node."""
    leaving: frozenset[str] = frozenset()
    """Nodes where we may have deleted a pod, not shown by the caches yet. The pod counts as terminating, although it
    may still be live."""
    ready_seen: Mapping[str, float] = {}
    """When pods were first seen ready (seconds since 1970), by uid, if their Ready condition names a later time
    because the clock of the node is ahead of ours."""
    restarts_seen: Mapping[str, float] = {}
    """When the last restart of a container was first seen (seconds since 1970), by uid of the pod. Missing if it was
    before this process started."""
    verdicts: Mapping[str, Accepted | TemplateRefused] = {}
    """The results of dry runs by revision hash."""
    asked: int = 0
    """How many dry runs in a row failed. Each next one tries the pod of another node."""
    ask_at: float = 0.0
    """When a refused dry run is tried again (seconds since 1970)."""
    in_backoff: Mapping[BackoffKey, float] = {}
    """Until when places are left alone (seconds since 1970). Writes there have failed more than once, or one is not
    answered yet (then it is infinite), and they must not keep others waiting."""
    due_again: Mapping[BackoffKey, float] = {}
    """Since when writes may be tried again at places where they failed (seconds since 1970)."""
    write_failure: str = ""
    """The error of a write that is still needed; empty: none fails."""
    reverted_externally: bool = False
    """Whether somebody takes back what we write to a pod, which is therefore left alone for a while."""
    unreadable: str = ""
    """Why one of our pods cannot be decoded; empty: all can be."""
    collisions: int = 0
    """How often the name of a new revision was taken by other content (`status.collisionCount`)."""


def hashes_of_pods(world: World) -> set[str]:
    """The hashes of the revisions that our pods have, or that the last pod of some node had."""
    gone = (one.pod.hash for one in world.predecessors.values() if one.pod is not None)
    return {*(pod.hash for pod in world.pods if pod.uid not in world.strays), *gone}


def split_unmatched(world: World) -> tuple[Sequence[Pod], tuple[Pod, ...]]:
    """Our pods that the selector matches, and those that it does not."""
    matches = world.rules.owns
    known: dict[int, bool] = {}  # label sets are shared between pods: ask once per set
    unmatched = []
    for pod in world.pods:
        labels = pod.labels
        ours = known.get(id(labels))
        if ours is None:
            ours = known[id(labels)] = matches(labels) or matches({**labels, **taken_away(world, pod)})
        if not ours:
            unmatched.append(pod)
    if not unmatched:
        return world.pods, ()
    uids = {pod.uid for pod in unmatched}
    return [pod for pod in world.pods if pod.uid not in uids], tuple(unmatched)


def adoptable(world: World) -> list[Pod]:
    """The orphans that this DaemonSet may adopt."""
    matches = world.rules.owns
    return [pod for pod in world.orphans if pod.adoptable and matches(pod.labels)]


def taken_away(world: World, pod: Pod) -> Mapping[str, str]:
    """Labels whose removal has released this pod from the hook, and that the selector requires too. A prepared pod
    counts as ours without them: otherwise it would go on with no controller, beside its successor."""
    hook, selector = world.daemonset.pre_delete, world.daemonset.spec.selector
    if hook is None or not pod.held_by_hook or world.rules.owns(pod.labels):
        return {}
    asked = {*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())}
    return {key: value for key, value in (hook.labels_handler or {}).items() if key in asked}
