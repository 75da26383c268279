"""Why a node is not acted on, what ends that, and the texts for conditions, metrics, events and the plugin."""

from __future__ import annotations

from enum import StrEnum

from controller.api.names import (
    AWAITING_APPROVAL,
    CHECK_FAILING,
    FAILED_IN_PLACE,
    RESIZE_DEFERRED,
    RESIZE_REFUSED,
    ROLLOUT_ABORTED,
    TEMPLATE_REFUSED,
)
from controller.api.objects import Value


class WaitReason(StrEnum):
    """Why nodes wait: the reason in conditions, `kubectl kruise-ds status` and the metric `rollout_blocked`."""

    PAUSED = "Paused"
    PARTITION = "PartitionReached"
    SELECTOR = "SelectorReached"
    STEP = "StepReached"
    SOAKING = "Soaking"
    APPROVAL = AWAITING_APPROVAL
    ABORTED = ROLLOUT_ABORTED
    CHECK_FAILING = CHECK_FAILING
    CHECK_UNANSWERED = "CheckUnanswered"
    ON_DELETE = "OnDelete"
    MAX_UNAVAILABLE = "MaxUnavailableInUse"
    MAX_SURGE = "MaxSurgeInUse"
    TOPOLOGY = "TopologyInUse"
    HOOK = "HeldByLifecycleHook"
    UNREACHABLE = "NodesUnreachable"
    TOO_MANY_UNREACHABLE = "TooManyUnreachableNodes"
    TEMPLATE_REFUSED = TEMPLATE_REFUSED
    SERVER_SILENT = "ServerSilent"
    """The server has not answered a write, or the caches have not shown one for a second."""
    PULLING = "PullingImages"
    UNPULLED = "ImagesNotPulled"
    RESIZE_REFUSED = RESIZE_REFUSED
    RESIZE_DEFERRED = RESIZE_DEFERRED
    NOT_STARTING = FAILED_IN_PLACE
    UPDATING = "Updating"
    """None of the others: pods are starting or terminating."""


class BlockerText(Value):
    """The texts of a blocker, with `{partition}`, the `{older}` revision that a node would get, and `{limit}`."""

    name: str
    why: str
    ends: str
    reason: WaitReason | None = None
    """None: not reported."""
    all_wait: str = ""
    """The condition's message while only such nodes are left; their names are appended."""
    planned: str = ""
    """For a forecast that leaves out several nodes, `{who}`; `{are}` is "is" or "are". Defaults to `why`."""
    edited: str = ""
    """For an edit that does not move several nodes, `{who}`. Defaults to `planned`."""
    rollback: str = ""
    """For a rollback that does not move several nodes. Defaults to `why` and `ends`."""
    shows_trouble: bool = False
    """Whether a problem of the old pod is also shown."""

    @property
    def of_planned(self) -> str:
        return self.planned or f"{self.why}: {{who}}"

    @property
    def of_edited(self) -> str:
        return self.edited or self.of_planned

    @property
    def of_rollback(self) -> str:
        return self.rollback or f"{self.why}; what ends it: {self.ends}"


class Blocker(StrEnum):
    """All blockers, in order of precedence: a node with several shows the first."""

    text: BlockerText
    __hash__ = str.__hash__  # the hash of Enum is slow, and `explanation` groups many nodes by blocker

    def __new__(cls, text: BlockerText) -> Blocker:
        blocker = str.__new__(cls, text.name)
        blocker._value_, blocker.text = text.name, text
        return blocker

    PARTITION = BlockerText(
        name="partition",
        why="kept by partition {partition}",
        ends="a smaller partition",
        reason=WaitReason.PARTITION,
        planned="partition {partition} keeps the old revision on {who}",
        edited="partition {partition} keeps {who} old",
        shows_trouble=True,
    )
    SELECTOR = BlockerText(
        name="selector",
        why="rollingUpdate.selector leaves it out",
        ends="a selector that matches",
        reason=WaitReason.SELECTOR,
        planned="rollingUpdate.selector leaves out {who}",
        shows_trouble=True,
    )
    STEP = BlockerText(
        name="step",
        why="not before a later step",
        ends="a step that allows more nodes",
        reason=WaitReason.STEP,
        planned="the step keeps the old revision on {who}",
        edited="the step keeps {who} old",
        shows_trouble=True,
    )
    ABORTED = BlockerText(
        name="aborted",
        why="the rollout was aborted because updated pods fail",
        ends="another template, or the annotation kruise-ds/retry",
        reason=WaitReason.ABORTED,
        planned="the rollout was aborted because updated pods fail: nothing moves on {who}",
        shows_trouble=True,
    )
    PAUSED = BlockerText(
        name="paused",
        why="paused",
        ends="resume",
        reason=WaitReason.PAUSED,
        planned="paused: resume updates {who}",
        shows_trouble=True,
    )
    CHECK_FAILING = BlockerText(
        name="check_failing",
        why="a check of the step fails",
        ends="the check returning nothing",
        reason=WaitReason.CHECK_FAILING,
        planned="a check of the step fails: nothing moves on {who}",
        shows_trouble=True,
    )
    CHECK_UNANSWERED = BlockerText(
        name="check_unanswered",
        why="a check of the step has no answer",
        ends="an answer of Prometheus",
        reason=WaitReason.CHECK_UNANSWERED,
        planned="a check of the step has no answer: nothing moves on {who}",
        shows_trouble=True,
    )
    ON_DELETE = BlockerText(
        name="on_delete",
        why="OnDelete: when its pod is deleted",
        ends="a deletion of its pod",
        reason=WaitReason.ON_DELETE,
        planned="OnDelete: each gets it when its pod is deleted, {who}",
        rollback="OnDelete: each goes back when you delete its pod",
        shows_trouble=True,
    )
    SCALING = BlockerText(
        name="scaling",
        why="partitionedScaling: not before its turn",
        ends="a smaller partition",
        reason=WaitReason.PARTITION,
        planned="partitionedScaling keeps without a pod {who}",
    )
    PLACEMENT = BlockerText(
        name="placement",
        why="stays empty: revision {older} does not run there",
        ends="its turn to get the current revision",
        planned="the older revision does not run on {who}, which get no pod yet",
    )
    TAINTED = BlockerText(
        name="tainted",
        why="tainted: only the old pod may stay",
        ends="a toleration",
        edited="taints keep new pods from {who}",
        rollback="tainted NoSchedule: no pod is started there, the one that is there stays",
    )
    HOOK = BlockerText(
        name="hook",
        why="the preDelete hook holds its pod",
        ends="removing its label or finalizer",
        reason=WaitReason.HOOK,
        planned="the preDelete hook holds {who}",
        edited="the preDelete hook holds the pods of {who}",
        rollback="the preDelete hook holds the pod; remove its label or finalizer",
    )
    UNREACHABLE = BlockerText(
        name="unreachable",
        why="the node is unreachable",
        ends="contact with the node",
        reason=WaitReason.UNREACHABLE,
        all_wait="it is the turn of unreachable nodes:",
        planned="not before it can be reached, {who}",
        edited="not before it can be reached: {who}",
        rollback="unreachable: they go back once they are reachable",
    )
    TOO_MANY_UNREACHABLE = BlockerText(
        name="too_many_unreachable",
        why="more nodes are unreachable than unreachableNodes.leaveOut allows",
        ends="contact with enough of them",
        reason=WaitReason.TOO_MANY_UNREACHABLE,
        planned="more nodes are unreachable than unreachableNodes.leaveOut allows, so nothing moves on {who}",
    )
    REFUSED = BlockerText(
        name="refused",
        why="the server refuses pods of the new template",
        ends="a template that the server accepts",
        reason=WaitReason.TEMPLATE_REFUSED,
        planned="the server refuses its pods: nothing moves on {who}",
    )
    ADOPTABLE = BlockerText(
        name="adoptable",
        why="a pod without a controller is there, which has to be adopted first",
        ends="its adoption, or its deletion",
        planned="pods without a controller have to be adopted first on {who}",
    )
    STRAY = BlockerText(
        name="stray",
        why="a webhook changed the labels of its pod, which does not match spec.selector and has to go first",
        ends="its deletion",
    )
    WRITE_FAILED = BlockerText(
        name="write_failed", why="a write failed there, and is tried again later", ends="the next attempt"
    )
    UNANSWERED = BlockerText(
        name="unanswered",
        why="the server has not answered a write there yet",
        ends="its answer",
        all_wait="the server has not answered what was asked for",
        reason=WaitReason.SERVER_SILENT,
    )
    RESOURCE_QUOTA = BlockerText(name="quota", why="a ResourceQuota is used up", ends="room in the quota")
    UNSTORED = BlockerText(name="unstored", why="the new revision is not stored yet", ends="storing it")
    PODS_DO_NOT_LAST = BlockerText(
        name="pods_do_not_last",
        why="its pods do not last, so it waits for its back-off",
        ends="the end of the back-off",
    )
    TERMINATING = BlockerText(name="terminating", why="old pod is terminating", ends="the end of that pod")
    STARTING = BlockerText(
        name="starting", why="its new pod is not available yet", ends="that pod becoming available"
    )
    STALE = BlockerText(
        name="stale", why="the caches are behind", ends="seeing our own writes", reason=WaitReason.SERVER_SILENT
    )
    PULLING = BlockerText(
        name="pulling",
        why="its image is pulled ahead of the update",
        ends="the image on the node",
        reason=WaitReason.PULLING,
        all_wait="the new image is being pulled on",
        planned="the new image is being pulled on {who}",
    )
    UNPULLED = BlockerText(
        name="unpulled",
        why="its new image cannot be pulled",
        ends="another image, or deleting the ImagePullJob",
        reason=WaitReason.UNPULLED,
        all_wait="the new image cannot be pulled on",
        planned="the new image cannot be pulled on {who}",
    )
    DRAINING = BlockerText(
        name="draining",
        why="not ready, so that its traffic goes elsewhere before its container restarts",
        ends="the end of its grace period",
    )
    RESTARTING = BlockerText(
        name="restarting", why="its container does not run the new image yet", ends="the start of that container"
    )
    RESIZING = BlockerText(
        name="resizing", why="the kubelet has not resized its pod yet", ends="the kubelet resizing it"
    )
    UNRESIZED = BlockerText(
        name="unresized", why="its pod cannot be resized", ends="other resources, or room on the node"
    )
    BUDGET = BlockerText(
        name="budget",
        why="waits for budget",
        ends="room in {limit}",
        reason=WaitReason.MAX_UNAVAILABLE,
        planned="{limit} is used up, still to be updated {are} {who}",
    )
    DOMAIN = BlockerText(
        name="domain",
        why="waits for room in the limits of topology",
        ends="room in its failure domain, or the end of the update in another one",
        reason=WaitReason.TOPOLOGY,
        all_wait="the limits of topology are used up:",
        planned="the limits of topology are used up, still to be updated {are} {who}",
    )
