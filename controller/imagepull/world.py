"""The world from which a job is decided, and the plan that comes out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias

from controller.api.base import Value
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus
from controller.api.meta import Ref
from controller.api.puller import Puller
from controller.planner.step import Note

PULLED: Final = None
"""The result of a node that has the image; if pulling failed, the result is a text."""


class Try(Value):
    """A node where pulling has failed and will be tried again at `due` (`elapsed`)."""

    failures: int
    due: float
    why: str
    puller: str
    """The uid of the puller that failed last."""


class StartPuller(Value):
    node: str


class EndPuller(Value):
    pod: Ref


class DeleteJob(Value):
    job: Ref


JobAction: TypeAlias = StartPuller | EndPuller | DeleteJob


class JobWorld(Value, gc=True):
    job: ImagePullJob
    status: ImagePullJobStatus
    """The newest known status."""
    left: Mapping[str, None]
    """Nodes that should have the image and have no result yet, in order of update."""
    pulled: Collection[str]
    """Nodes that have the image."""
    failed: Mapping[str, str]
    """Nodes that have used up their attempts, with the reason."""
    again: Mapping[str, float]
    """When each failed node of a job that never completes is tried again (`elapsed`). A failed node that is missing
    here may be tried now."""
    silent: Collection[str]
    """Nodes on which no pod would start now."""
    tries: Mapping[str, Try]
    pullers: Sequence[Puller]
    since: Mapping[str, float]
    """When each puller was first seen (`elapsed`), by uid."""
    lost: Mapping[str, str]
    """Nodes whose puller is gone without our deleting it, or is on another node now; with the uid of the puller."""
    awaited: Collection[str]
    """Places where a write is not answered: nodes, and uids of pullers."""
    failing: Collection[str]
    """Places where the last write failed: nodes, and uids of pullers."""
    held_back: Collection[str]
    """Places in `failing` that may not be tried again yet."""
    silent_since: float
    """Since when only silent nodes are left (`elapsed`); `inf`: others are left too."""
    room: int
    """How many pullers may be created in this pass."""
    refusal: str
    """Why the server refuses pullers; empty: it does not."""
    now: float
    """The time of this pass (seconds since 1970)."""
    moment: float
    """The same time by `elapsed`, the clock of all durations."""

    @property
    def desired(self) -> int:
        return len(self.left) + len(self.pulled) + len(self.failed)

    @property
    def retried(self) -> Mapping[str, float]:
        """When each failed node is tried again; empty unless the job never completes."""
        return {node: self.again.get(node, -inf) for node in self.failed} if self.job.spec.keeps_on else {}


class JobPlan(Value, gc=True):
    actions: tuple[JobAction, ...]
    settled: Mapping[str, str | None]
    """The results of nodes that are done in this pass: `PULLED`, or why not."""
    tries: Mapping[str, Try]
    """Failed nodes that will be tried again."""
    status: ImagePullJobStatus
    only_silent: bool = False
    """Whether only silent nodes are left, which may come back."""
    wake_at: float = inf
    """When the next pass is needed even without an event (`elapsed`)."""
    notes: tuple[Note, ...] = ()


def may_end(world: JobWorld, puller: Puller) -> bool:
    """Whether the deletion of the puller should be requested now."""
    return not puller.dying and puller.uid not in world.awaited and puller.uid not in world.held_back
