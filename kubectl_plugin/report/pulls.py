"""The progress of an ImagePullJob on each node.

The job's status has counts, and the names of nodes on which it has failed. The rest is worked out from its pullers,
the images that kubelets report, and the order in which nodes take their turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, PullState
from controller.api.objects import Value
from controller.planner.conditions import some


class PullStage(StrEnum):
    """How far the pull of an image is on a node; from the worst stage to the best."""

    FAILED = "failed"
    PULLING = "pulling"
    WAITING = "waiting"
    THERE = "image there"


class NodePull(Value):
    stage: PullStage
    why: str = ""
    """What the registry answered last, in the kubelet's words."""

    def __str__(self) -> str:
        return f"{self.stage}: {self.why}" if self.why else str(self.stage)


THERE: Final = NodePull(stage=PullStage.THERE)


class PullProgress(Value, gc=True):
    """The progress of one ImagePullJob."""

    job: ImagePullJob
    nodes: Sequence[str]
    """The nodes that should have the image, in the order in which they get it."""
    pullers: tuple[Puller, ...] = ()
    having: Collection[str] = ()
    """The nodes that are known to have the image."""
    joined: Collection[str] = ()
    """Those of `nodes` that are younger than the job: its status may not count them yet."""
    words: Mapping[str, str] = {}
    """The newest error message of each node on which an attempt has failed."""

    @property
    def status(self) -> ImagePullJobStatus:
        return self.job.status or ImagePullJobStatus()

    @property
    def over(self) -> bool:
        return self.status.completion_time is not None

    @property
    def refusal(self) -> str:
        """Why no puller can be created, in the server's words; empty if one can."""
        status = self.status
        words = status.message.partition("; ")[2]
        of_a_node = words.partition(": ")[0] in (status.failed_nodes or ())
        return "" if self.over or of_a_node else words

    def by_node(self) -> Mapping[str, NodePull]:
        status = self.status
        failed = set(status.failed_nodes or ())
        if self.over:
            return {node: self._failed(node) if node in failed else THERE for node in self.nodes or failed}
        mine = {one.node: one for one in self.pullers if one.job_uid == self.job.uid}
        there = {*self.having, *(node for node, one in mine.items() if one.state is PullState.SUCCEEDED)}
        told = {node: self._now(node, failed, mine, there) for node in self.nodes}
        # a node that has left the job, such as one updated meanwhile, had its turn; in doubt one more has left
        left = max(status.desired - sum(node not in self.joined for node in self.nodes), 0)
        unseen = status.succeeded - left - sum(one.stage is PullStage.THERE for one in told.values())
        waiting = [node for node, one in told.items() if one.stage is PullStage.WAITING and node not in self.joined]
        for node in waiting[: max(unseen, 0)]:
            told[node] = THERE
        return told

    def _now(
        self, node: str, failed: Collection[str], pullers: Mapping[str, Puller], there: Collection[str]
    ) -> NodePull:
        if node in there:
            return THERE
        if node in failed:
            return self._failed(node)
        if (puller := pullers.get(node)) is not None:
            return NodePull(stage=PullStage.PULLING, why=puller.why or self.words.get(node, ""))
        return NodePull(stage=PullStage.WAITING, why=self.words.get(node, ""))

    def _failed(self, node: str) -> NodePull:
        heard = self.words.get(node, "")
        told = self.status.message.partition(f"; {node}: ")[2]
        return NodePull(stage=PullStage.FAILED, why=heard or told or f"see ImagePullJob {self.job.name}")


def worst_pulls(pulls: Iterable[PullProgress]) -> Mapping[str, NodePull]:
    """The pulls of several images as one: a node needs all of them, so the worst stage counts."""
    worst: dict[str, NodePull] = {}
    order = list(PullStage)
    for pull in pulls:
        for node, found in pull.by_node().items():
            known = worst.get(node)
            if known is None or order.index(found.stage) < order.index(known.stage):
                worst[node] = found
    return worst


class PullCounts(Value, rename="camel"):
    nodes: int
    there: int
    pulling: int
    failed: int

    def words(self, what: str = "nodes") -> str:
        """`image there on 3 of 8 nodes, pulling on 2, failed on 1`."""
        counts = ((PullStage.PULLING, self.pulling), (PullStage.FAILED, self.failed))
        others = (f"{stage} on {count}" for stage, count in counts if count)
        return ", ".join((f"{PullStage.THERE} on {self.there} of {self.nodes} {what}", *others))


def counts_of(found: Iterable[NodePull]) -> PullCounts:
    stages = Counter(one.stage for one in found)
    there, pulling, failed = (stages[one] for one in (PullStage.THERE, PullStage.PULLING, PullStage.FAILED))
    return PullCounts(nodes=stages.total(), there=there, pulling=pulling, failed=failed)


def stated_counts(status: ImagePullJobStatus) -> PullCounts:
    """The number of nodes in each stage by the job's own status, for users who may not list nodes."""
    return PullCounts(nodes=status.desired, there=status.succeeded, pulling=status.active, failed=status.failed)


def failure_lines(found: Mapping[str, NodePull]) -> list[str]:
    """Such as `failed on a-01, a-02: ErrImagePull: …`; nodes with the same error share a line."""
    nodes: dict[str, list[str]] = {}
    for node, one in sorted(found.items()):
        if one.stage is PullStage.FAILED:
            nodes.setdefault(one.why, []).append(node)
    return [f"{PullStage.FAILED} on {some(names)}: {why}" for why, names in nodes.items()]
