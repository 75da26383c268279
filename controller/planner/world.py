"""The World: everything that a plan may depend on, frozen at one moment."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Literal, TypeAlias, assert_never

from controller.api.daemonset import DaemonSet
from controller.api.node import Node
from controller.api.objects import Value
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.inplace.change import InPlaceChange, NotPossible
from controller.planner.checks import CheckResult
from controller.planner.node_fit import Rules


class BackoffKey(Value, kw_only=False):
    """The key under which a failed write backs off, alone. node: creating a pod there. object: any other write to the
    object with this uid. gates: opening a pod's readiness gates. label: restoring the label of its former revision.
    cancel: cancelling its preparation for deletion. revision: storing the current one, whatever its hash. template:
    the dry run of the revision with this hash. quota: creating any pod."""

    kind: Literal["node", "object", "gates", "label", "cancel", "revision", "template", "quota"]
    name: str = ""

    def is_among(self, nodes: Container[str], uids: Container[str]) -> bool:
        """Whether its node or object is one of these; True for a kind without either."""
        match self.kind:
            case "node":
                return self.name in nodes
            case "object" | "gates" | "label" | "cancel":
                return self.name in uids
            case "revision" | "template" | "quota":
                return True
            case _:
                assert_never(self.kind)


CLOCK_GRAIN = 0.05
"""Seconds added to wake-up times, because a pod is available only *after* its minReadySeconds."""
RESIZE_DISABLED = "the controller may not change cpu and memory in place any more"
POD_QUOTA = BackoffKey("quota")
"""While a ResourceQuota is full, all creates of pods are refused."""


class FormerPod(Value):
    hash: str
    """The hash of its revision; empty if it has none."""
    created: float = 0.0
    """Seconds since 1970."""


class Predecessor(Value, gc=True):
    """The pod that was last seen on a node and is gone."""

    uid: str
    pod: FormerPod | None = None
    """None if the DaemonSet did not control it, and only its name was taken."""


def predecessor(gone: Pod) -> Predecessor:
    return Predecessor(uid=gone.uid, pod=FormerPod(hash=gone.hash, created=gone.created))


class Unasked(Value):
    """It is not known yet whether the server accepts pods of the template."""


class Accepted(Value):
    """The server accepts pods of the template."""


class TemplateRefused(Value):
    message: str
    """Of the server."""
    unknown_fields: bool = False
    """Whether the reason is unknown fields, which is the same on every node."""


TemplateVerdict: TypeAlias = Unasked | Accepted | TemplateRefused


class BeingPulled(Value):
    """A node does not have an image yet."""


class Unpullable(Value):
    why: str


Unpulled: TypeAlias = BeingPulled | Unpullable


def unpulled(why: str) -> Unpulled:
    """An empty `why` means that the image is being pulled."""
    return Unpullable(why=why) if why else BeingPulled()


class ClockOffset(Value):
    """How the clock of the server differs from the controller's. Moments are by the latter, in seconds since 1970."""

    ahead: float = 0.0
    """Seconds by which it is at least ahead, at most one fewer than it is; negative if it is behind."""

    @property
    def behind(self) -> float:
        """Seconds by which it is at least behind, at most two fewer than it is. The clocks of nodes are taken to be
        as the server's."""
        return max(-self.ahead - 1.0, 0.0)

    def later(self, moment: float) -> float:
        """The time that the later of the two clocks shows at `moment`."""
        return moment + max(self.ahead, 0.0)

    def earlier(self, moment: float) -> float:
        return moment + min(self.ahead, 0.0)

    def earliest_date(self, moment: float) -> float:
        """The earliest timestamp that the server, which writes whole seconds, may give to an object created at
        `moment`."""
        return moment - self.behind - 2.0


class World(Value):
    """One DaemonSet and everything around it. Objects may come in any order, except `nodes`."""

    daemonset: DaemonSet
    rules: Rules
    """The rules of exactly this generation, or the problems of an unusable spec."""
    nodes: tuple[Node, ...]
    """All nodes, sorted by name, which is the order of creation."""
    pods: tuple[Pod, ...]
    now: float
    """Seconds since 1970."""
    orphans: tuple[Pod, ...] = ()
    """The pods and, in `orphan_revisions`, the revisions of the namespace without a controller."""
    revisions: tuple[Revision, ...] = ()
    orphan_revisions: tuple[Revision, ...] = ()
    placements: Mapping[str, Rules | None] = {}
    """Placement rules by revision uid. None or missing: the revision runs nowhere."""
    collisions: int = 0
    """`status.collisionCount`"""
    predecessors: Mapping[str, Predecessor] = {}
    """The last pod of each node, which goes into the name of the next one."""
    strays: frozenset[str] = frozenset()
    """Uids of pods whose labels a webhook changed, so that the selector does not match them."""
    unreadable: str = ""
    """Why a pod cannot be decoded; empty if all can be."""

    changes: Mapping[str, InPlaceChange | NotPossible] = {}
    """Updates in place to the current revision, by hash of the stored older one. Empty if not asked for."""
    reads_env: bool = False
    """Whether a node agent may restart containers that read a changed label into their environment."""
    no_resize: str = ""
    """Why cpu and memory may not change in place; empty if they may."""
    refused_resizes: Mapping[str, str] = {}
    """The server's message by uid of a pod whose resize it refused."""
    unmapped: Mapping[str, str] = {}
    """By pod uid, why an update in place would undo what admission did to the pod at its creation."""
    unpulled: Mapping[str, Unpulled] = {}
    """Nodes that lack the new images, if the update waits for them."""
    mutated_images: frozenset[str] = frozenset()
    """New images that nodes have under another name, because admission changes pods that are created now."""

    not_before: Mapping[str, float] = {}
    """When nodes whose pods do not last may have their next one (seconds since 1970)."""
    recreated_externally: frozenset[str] = frozenset()
    """Nodes where another controller creates pods that do not last. No pod is deleted there before `not_before`."""
    short_lived: Mapping[str, float] = {}
    """Until when the next pod has to last (seconds since 1970), by node where several in a row did not."""
    ready_seen: Mapping[str, float] = {}
    """When pods were first seen ready (seconds since 1970), by uid, if their Ready condition names a later time."""
    step_reached: float | None = None
    """`Rollout.step_reached_time` by the monotonic clock, in seconds since 1970; None for as recorded."""
    server_offset: ClockOffset = ClockOffset()
    unavailable_before: frozenset[str] = frozenset()
    """Those of `Rollout.unavailable_before` that the last pass found; the status may not have them yet."""
    unavailable_since: Mapping[str, float] | None = None
    """`Failure.unavailable_since` of the last pass, by the monotonic clock; None in the first pass."""
    check_results: Mapping[str, CheckResult] | None = None
    """Answers of Prometheus by name of the check; None if this process does not evaluate checks: the status then
    counts."""
    restarts_seen: Mapping[str, float] = {}
    """When this process first saw the last restart of a container (seconds since 1970), by uid of the pod."""

    fresh: bool = True
    """Whether the caches have seen all of this process's own writes. If not, nothing is written but the status."""
    in_flight: frozenset[BackoffKey] = frozenset()
    """Keys of writes that the server has not answered. All are in `in_backoff` too."""
    pending_names: Mapping[str, str] = {}
    """Names of pods whose create got no answer and may yet be done, by node."""
    pending_creates: Mapping[str, str] = {}
    """Revision hashes of pods that may have been created and were not seen yet, by node."""
    pending_deletes: frozenset[str] = frozenset()
    """Nodes where a pod may have been deleted that the caches still show. It counts as terminating."""
    in_backoff: Mapping[BackoffKey, float] = {}
    """Until when writes that failed repeatedly are not tried (seconds since 1970); infinite while unanswered."""
    due_again: Mapping[BackoffKey, float] = {}
    """Since when writes that failed may be tried again (seconds since 1970)."""
    write_failure: str = ""
    """The error of a write that is still needed; empty if none fails."""
    reverted_externally: bool = False
    """Whether a write to some pod was reverted externally, so that the pod is left alone for a while."""

    verdicts: Mapping[str, Accepted | TemplateRefused] = {}
    """The results of dry runs, by revision hash."""
    failed_dry_runs: int = 0
    """How many dry runs in a row failed. Each next one tries another node."""
    retry_dry_run_at: float = 0.0
    """When a refused dry run is tried again (seconds since 1970)."""


def hashes_of_pods(world: World) -> set[str]:
    """The hashes of the revisions that pods have, or that the last pod of some node had."""
    gone = (predecessor.pod.hash for predecessor in world.predecessors.values() if predecessor.pod is not None)
    return {*(pod.hash for pod in world.pods if pod.uid not in world.strays), *gone}


def split_unmatched(world: World) -> tuple[Sequence[Pod], tuple[Pod, ...]]:
    """The DaemonSet's pods that its selector matches, and those that it does not match."""
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
    """Labels of the hook that the selector requires too and that a prepared pod has lost. They do not release it:
    without a controller it would run on beside its successor."""
    hook, selector = world.daemonset.pre_delete, world.daemonset.spec.selector
    if hook is None or not pod.held_by_hook or world.rules.owns(pod.labels):
        return {}
    asked = {*(selector.match_labels or ()), *(expression.key for expression in selector.match_expressions or ())}
    return {key: value for key, value in (hook.labels_handler or {}).items() if key in asked}
