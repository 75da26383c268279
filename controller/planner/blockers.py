"""Every blocker, that is, every reason why the planner does not act on a node, with its texts and what ends it.

All texts about waiting nodes come from here; `explanation` finds which blocker a node has.
"""

from __future__ import annotations

from enum import StrEnum

from controller.api.objects import Value


class BlockReason(StrEnum):
    """The reasons, by the names of metrics, why nodes that should run the current revision do not."""

    PAUSED = "Paused"
    PARTITION = "Partition"
    SELECTOR = "Selector"
    BUDGET = "Budget"
    """maxUnavailable or maxSurge is used up."""
    PRE_DELETE_HOOK = "PreDeleteHook"
    EXPECTATIONS = "Expectations"
    """The caches have not shown our own writes for a second, or the server has not answered one."""
    TEMPLATE_REFUSED = "TemplateRefused"
    ON_DELETE = "OnDelete"
    """Somebody has to delete the old pods."""


class Row(Value):
    """The texts of one blocker, with `{partition}`, the `{older}` revision that a node would get, and `{limit}`."""

    name: str
    why: str
    """The reason why one node waits."""
    ends: str
    """The event that ends the wait."""
    block: BlockReason | None = None
    """The block reason of the metrics; None: they do not count it."""
    planned: str = ""
    """Text of a forecast: several nodes, `{who}`, are left out in the end. `{are}`: "is" or "are". If empty,
    `why`."""
    edited: str = ""
    """Text for an edit that does not move several nodes, `{who}`. If empty, `planned`."""
    rollback: str = ""
    """Text for a rollback that does not move several nodes. If empty, `why` and `ends`."""
    tells_more: bool = False
    """Whether a problem of the old pod is shown as well."""

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
    """All blockers, in order of precedence: of several, the first one is shown."""

    row: Row
    __hash__ = str.__hash__  # the hash of Enum is slow, and `explanation` groups many nodes by blocker

    def __new__(cls, row: Row) -> Blocker:
        one = str.__new__(cls, row.name)
        one._value_, one.row = row.name, row
        return one

    PARTITION = Row(
        name="partition",
        why="kept by partition {partition}",
        ends="a smaller partition",
        block=BlockReason.PARTITION,
        planned="partition {partition} keeps the old revision on {who}",
        edited="partition {partition} keeps {who} old",
        tells_more=True,
    )
    SELECTOR = Row(
        name="selector",
        why="rollingUpdate.selector leaves it out",
        ends="a selector that matches",
        block=BlockReason.SELECTOR,
        planned="rollingUpdate.selector leaves out {who}",
        tells_more=True,
    )
    PAUSED = Row(
        name="paused",
        why="paused",
        ends="resume",
        block=BlockReason.PAUSED,
        planned="paused: resume updates {who}",
        tells_more=True,
    )
    ON_DELETE = Row(
        name="on_delete",
        why="OnDelete: when its pod is deleted",
        ends="whoever deletes the pod",
        block=BlockReason.ON_DELETE,
        planned="OnDelete: each gets it when its pod is deleted, {who}",
        rollback="OnDelete: each goes back when you delete its pod",
        tells_more=True,
    )
    SCALING = Row(
        name="scaling",
        why="partitionedScaling: not before its turn",
        ends="a smaller partition",
        block=BlockReason.PARTITION,
        planned="partitionedScaling keeps without a pod {who}",
    )
    PLACEMENT = Row(
        name="placement",
        why="stays empty: revision {older} does not run there",
        ends="its turn to get the current revision",
        planned="the older revision does not run on {who}, which get no pod yet",
    )
    TAINTED = Row(
        name="tainted",
        why="tainted: only the old pod may stay",
        ends="a toleration",
        edited="taints keep new pods from {who}",
        rollback="tainted NoSchedule: no pod is started there, the one that is there stays",
    )
    HOOK = Row(
        name="hook",
        why="the preDelete hook holds its pod",
        ends="removing its label or finalizer",
        block=BlockReason.PRE_DELETE_HOOK,
        planned="the preDelete hook holds {who}",
        edited="the preDelete hook holds the pods of {who}",
        rollback="the preDelete hook holds the pod; remove its label or finalizer",
    )
    UNREACHABLE = Row(
        name="unreachable",
        why="the node is unreachable",
        ends="contact with the node",
        planned="not before it can be reached, {who}",
        edited="not before it can be reached: {who}",
        rollback="unreachable: they go back once they are reachable",
    )
    REFUSED = Row(
        name="refused",
        why="the server refuses pods of the new template",
        ends="a template that the server accepts",
        block=BlockReason.TEMPLATE_REFUSED,
        planned="the server refuses its pods: nothing moves on {who}",
    )
    ADOPTABLE = Row(
        name="adoptable",
        why="a pod without a controller is there, which has to be adopted first",
        ends="its adoption, or its deletion",
        planned="pods without a controller have to be adopted first on {who}",
    )
    STRAY = Row(
        name="stray",
        why="a webhook changed the labels of its pod, which does not match spec.selector and has to go first",
        ends="its deletion",
    )
    IN_BACKOFF = Row(name="in_backoff", why="a write failed there, and is tried again later", ends="the next attempt")
    UNANSWERED = Row(
        name="unanswered",
        why="the server has not answered a write there yet",
        ends="its answer",
        block=BlockReason.EXPECTATIONS,
    )
    RESOURCE_QUOTA = Row(name="quota", why="a ResourceQuota is used up", ends="room in the quota")
    UNSTORED = Row(name="unstored", why="the new revision is not stored yet", ends="storing it")
    BACK_OFF = Row(
        name="back_off", why="its pods do not last, so it waits for its back-off", ends="the end of the back-off"
    )
    TERMINATING = Row(name="terminating", why="old pod is terminating", ends="the end of that pod")
    STARTING = Row(name="starting", why="its new pod is not available yet", ends="that pod becoming available")
    STALE = Row(
        name="stale", why="the caches are behind", ends="seeing our own writes", block=BlockReason.EXPECTATIONS
    )
    PULLING = Row(
        name="pulling",
        why="its image is pulled ahead of the update",
        ends="the image on the node",
        planned="the new image is being pulled on {who}",
    )
    UNPULLED = Row(
        name="unpulled",
        why="its new image cannot be pulled",
        ends="another image, or deleting the ImagePullJob",
        planned="the new image cannot be pulled on {who}",
    )
    DRAINING = Row(
        name="draining",
        why="not ready, so that its traffic goes elsewhere before its container restarts",
        ends="the end of its grace period",
    )
    RESTARTING = Row(
        name="restarting", why="its container does not run the new image yet", ends="the start of that container"
    )
    RESIZING = Row(name="resizing", why="the kubelet has not resized its pod yet", ends="the kubelet resizing it")
    UNRESIZED = Row(name="unresized", why="its pod cannot be resized", ends="other resources, or room on the node")
    BUDGET = Row(
        name="budget",
        why="waits for budget",
        ends="room in {limit}",
        block=BlockReason.BUDGET,
        planned="{limit} is used up, still to be updated {are} {who}",
    )
