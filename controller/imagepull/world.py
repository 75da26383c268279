"""What is decided from, and what comes out."""

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
"""How a node did that has the image now; where pulling failed, these are words."""


class Try(Value):
    """A node on which it failed and is to be tried again."""

    failures: int
    due: float
    why: str
    puller: str
    """uid of the one that failed last."""


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
    """The newest that is known."""
    left: Mapping[str, None]
    """Nodes that shall have the image and are not done with, in the order of their turn."""
    pulled: Collection[str]
    """Those that have it."""
    failed: Mapping[str, str]
    """Those that have had their attempts, and why they do not have it."""
    again: Mapping[str, float]
    """When those of them are tried once more, in a job that goes on; where nothing is known of it, now."""
    silent: Collection[str]
    """Nodes on which nothing would start now."""
    tries: Mapping[str, Try]
    pullers: Sequence[Puller]
    since: Mapping[str, float]
    """When each puller was first seen, by uid."""
    lost: Mapping[str, str]
    """Nodes whose puller is gone, and was not deleted by us, or is for another node now; and its uid."""
    awaited: Collection[str]
    """Where a write is not answered: nodes, and uids of pullers."""
    failing: Collection[str]
    """Where the last write failed: nodes, and uids of pullers."""
    held_back: Collection[str]
    """Members of `failing` that are not to be tried again yet."""
    silent_since: float
    """Since when only silent nodes have been left; `inf`: others are."""
    room: int
    """How many pullers may be made at most in this pass."""
    refusal: str
    """What keeps pullers from being made, in the server's words; empty: nothing."""
    now: float
    """Seconds since 1970."""
    moment: float
    """By `elapsed`, as everything that lasts."""

    @property
    def desired(self) -> int:
        return len(self.left) + len(self.pulled) + len(self.failed)

    @property
    def retried(self) -> Mapping[str, float]:
        """When failed nodes have their turn again: all of a job that goes on, where no failure is the last word."""
        return {node: self.again.get(node, -inf) for node in self.failed} if self.job.spec.keeps_on else {}


class JobPlan(Value, gc=True):
    actions: tuple[JobAction, ...]
    settled: Mapping[str, str | None]
    """How nodes did that are done with: `PULLED`, or why not."""
    tries: Mapping[str, Try]
    """What was found out about nodes now."""
    status: ImagePullJobStatus
    only_silent: bool = False
    """Only silent nodes are left, and may yet come back."""
    wake_at: float = inf
    """When time alone changes what is to be done, by `elapsed`."""
    notes: tuple[Note, ...] = ()


def may_end(world: JobWorld, puller: Puller) -> bool:
    """Whether its deletion is to be asked for now."""
    return not puller.dying and puller.uid not in world.awaited and puller.uid not in world.held_back
