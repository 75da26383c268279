"""Everything that one decision may look at, frozen at one instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.planner.eligibility import Rules
from controller.planner.in_place.change import InPlaceChange, NotPossible
from controller.planner.place import Place


class FormerPod(Value):
    """A pod of ours that is gone."""

    hash: str
    """Of its revision; "" for a pod without one."""
    created: float = 0.0
    """Seconds since 1970."""


class Predecessor(Value, gc=True):
    """What was last seen on a node and is gone from it."""

    uid: str
    pod: FormerPod | None = None
    """None: it never was a pod of ours, only its name was in the way."""


def predecessor(gone: Pod) -> Predecessor:
    return Predecessor(uid=gone.uid, pod=FormerPod(hash=gone.hash, created=gone.created))


class Unasked(Value):
    """The server has not said what it thinks of a template."""


class Accepted(Value):
    """It takes pods of it."""


class TemplateRefused(Value):
    """It does not."""

    words: str
    """The server's."""


TemplateVerdict: TypeAlias = Unasked | Accepted | TemplateRefused


class BeingPulled(Value):
    """A node does not have an image yet."""


class Unpullable(Value):
    """It will not have it."""

    why: str


Unpulled: TypeAlias = BeingPulled | Unpullable


def unpulled(why: str) -> Unpulled:
    """`why`: what keeps the image from the node; empty where nothing does."""
    return Unpullable(why=why) if why else BeingPulled()


class World(Value):
    """One DaemonSet and what surrounds it. Collections of objects may come in any order, except `nodes`."""

    daemonset: DaemonSet
    rules: Rules
    """Compiled from this very generation of the DaemonSet, and its problems where nothing can be done with it."""
    nodes: tuple[Node, ...]
    """All nodes, sorted by name: the order of creation."""
    pods: tuple[Pod, ...]
    """Pods that this DaemonSet controls."""
    now: float
    """Seconds since 1970: the one clock reading of this pass."""
    orphans: tuple[Pod, ...] = ()
    """Pods of the namespace that nobody controls."""
    revisions: tuple[Revision, ...] = ()
    """Revisions that this DaemonSet controls."""
    placements: Mapping[str, Rules | None] = {}
    """Revision uid to where its own template lets pods run; None, or absent: nowhere, it cannot be compiled."""
    changes: Mapping[str, InPlaceChange | NotPossible] = {}
    """Hash of an older revision to what an update in place of its pods to the current one changes; absent: it is not
    stored. Empty where nobody asked for updates in place."""
    reads_env: bool = False
    """Whether a node agent may be left to restart containers that read a changed label into their environment."""
    resizable: bool = True
    """Whether cpu and memory may change in place: somebody wants it, and the cluster can."""
    no_resize: str = ""
    """Why the cluster cannot; empty: it can, as far as is known."""
    refused_resizes: Mapping[str, str] = {}
    """Uid of a pod to what the server said when it refused to resize it."""
    unpulled: Mapping[str, Unpulled] = {}
    """Nodes that do not have the current revision's images, where that is waited for."""
    orphan_revisions: tuple[Revision, ...] = ()
    """Revisions of the namespace that nobody controls."""
    fresh: bool = True
    """Whether the caches have seen all of our own writes. If not: look, do not touch."""
    not_before: Mapping[str, float] = {}
    """Node name to the moment (seconds since 1970) before which its failed pod is not replaced."""
    doubtful: Mapping[str, str] = {}
    """Node to the name of a pod whose create got no answer: it may yet come through."""
    predecessors: Mapping[str, Predecessor] = {}
    """Node name to the pod that was there last; it goes into the next pod's name."""
    awaited: frozenset[Place] = frozenset()
    """Places of writes that the server has not answered yet. All are in `held_back` too."""
    coming: Mapping[str, str] = {}
    """Node to the revision hash of a pod that may have been created there: nobody has seen it yet."""
    leaving: frozenset[str] = frozenset()
    """Nodes where a pod may have been deleted, likewise. It counts as dying, and may live on all the same."""
    ready_seen: Mapping[str, float] = {}
    """Uid to the moment (seconds since 1970) at which a pod was first seen ready that by its own account became so
    later than that: its node's clock is ahead of ours."""
    restarts_seen: Mapping[str, float] = {}
    """Uid to the moment (seconds since 1970) at which the last restart of a container was first seen, where that was
    seen: not of those that were older than this process."""
    verdicts: Mapping[str, Accepted | TemplateRefused] = {}
    """Revision hash to what the server's dry run said of it."""
    asked: int = 0
    """How often in a row it did not go well for one of them: each time another node's pod is tried."""
    ask_at: float = 0.0
    """Seconds since 1970: when a refused dry run is tried again."""
    held_back: Mapping[Place, float] = {}
    """Place to the moment (seconds since 1970) until which it is left alone:
    what was tried there failed more than once, or is not answered yet (for ever, then), and must not keep the others
    waiting."""
    due_again: Mapping[Place, float] = {}
    """Places where a write failed and may be tried again: since when (seconds since 1970)."""
    write_failure: str = ""
    """What writes that are still needed were told by the server; empty when none fails."""
    fought: bool = False
    """Somebody takes back what is written to a pod, which is left alone for a while therefore."""
    unreadable: str = ""
    """About one of our pods that cannot be decoded; empty when all can."""
    collisions: int = 0
    """How often a new revision's name was found taken by other content (`status.collisionCount`)."""


def split_unmatched(world: World) -> tuple[Sequence[Pod], tuple[Pod, ...]]:
    """Our pods, and those of them that the selector does not match."""
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


def taken_away(world: World, pod: Pod) -> Mapping[str, str]:
    """Labels that let this pod go, and that the selector asks for too: as long as it is prepared it is ours without
    them, or it would run on, nobody's, beside the one that comes in its place."""
    hook, selector = world.daemonset.pre_delete, world.daemonset.spec.selector
    if hook is None or not pod.held_by_hook or world.rules.owns(pod.labels):
        return {}
    asked = {*(selector.match_labels or ()), *(one.key for one in selector.match_expressions or ())}
    return {key: value for key, value in (hook.labels_handler or {}).items() if key in asked}
