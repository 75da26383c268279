"""What is remembered of a job between passes, until the process ends; see the package docstring."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf

import msgspec

from controller.api.containers import same_image
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, Targets
from controller.api.selector import LabelSelector
from controller.imagepull.job_plan import PULLED, STATUS, JobMemory, JobPlan
from controller.kube.sender import CEILING
from controller.planner.world import BeingPulled, Unpulled, unpulled
from controller.reconcile.backoff import WriteBackoff
from controller.reconcile.events import ServerWarnings
from controller.reconcile.status_writer import OwnStatus
from controller.runtime.pacing import Backoff, StatusPacer

FAILED_BEFORE = "it failed before this controller began"
RETRY_SECONDS = 600.0
"""Seconds after which a failed node of a job that never completes gets another attempt."""
NO_CREATES_SECONDS = 1.0
"""Seconds without another create after one that was neither accepted nor refused."""


class JobState(JobMemory, kw_only=True):
    uid: str
    node_of: dict[str, str] = msgspec.field(default_factory=dict)
    """Nodes by uid of their puller, seen in the last pass or created since."""
    deleted: set[str] = msgspec.field(default_factory=set)
    """Uids of pullers whose deletion we have requested."""
    targets_key: tuple[object, ...] = ()
    pods_listed: float = -inf
    pod_nodes: frozenset[str] | None = None
    pod_selector: LabelSelector | None = None
    """The podSelector of `pod_nodes`."""
    write_backoff: WriteBackoff[str] = msgspec.field(default_factory=WriteBackoff)
    server_warnings: ServerWarnings = msgspec.field(default_factory=ServerWarnings)
    refused_since: float = inf
    mutates_image: bool = False
    """Whether admission gave a puller another image."""
    stuck: str = ""
    """Why no node gets the image until a person acts; empty if nothing is wrong."""
    no_creates_before: float = -inf
    create_backoff: Backoff = msgspec.field(default_factory=lambda: Backoff(1.0, 300.0))
    own_status: OwnStatus[ImagePullJobStatus] = msgspec.field(default_factory=OwnStatus)
    pacer: StatusPacer = msgspec.field(default_factory=StatusPacer)

    def set_targets(self, targets: Targets, key: tuple[object, ...], updated: Collection[str] = ()) -> None:
        """Sets the job's nodes. Nodes in `updated` keep the image: they left because their pod was updated."""
        self.not_ready, self.targets_key = targets.not_ready, key
        kept = set(targets.nodes)
        self.pulled = (self.pulled & kept.union(updated)) | targets.with_image
        self.failed = {node: why for node, why in self.failed.items() if node in kept - self.pulled}
        self.pending = {node: None for node in targets.nodes if node not in self.pulled and node not in self.failed}
        self.retry_at = {node: due for node, due in self.retry_at.items() if node in self.failed}
        self.attempts = {node: tried for node, tried in self.attempts.items() if node in self.pending}

    def forget_result(self, node: str) -> None:
        """For example when the node is gone: a new node of that name has none of its images."""
        self.pulled.discard(node)
        self.failed.pop(node, None)
        self.retry_at.pop(node, None)
        self.attempts.pop(node, None)

    def clear(self) -> None:
        """Forgets what a finished job does not need; keeps why nodes failed."""
        self.failed = {node: why for node, why in self.failed.items() if why != FAILED_BEFORE}
        self.pending, self.pulled, self.retry_at, self.attempts = {}, set(), {}, {}
        self.not_ready, self.targets_key = (), ()

    def latest_status(self, job: ImagePullJob) -> ImagePullJobStatus | None:
        return self.own_status.latest(job.version, job.status)[1]

    def observe_pullers(self, image: str, pullers: tuple[Puller, ...], moment: float) -> None:
        self.first_seen = {puller.uid: self.first_seen.get(puller.uid, moment) for puller in pullers}
        here = {puller.uid: puller.node for puller in pullers if puller.job_uid == self.uid}
        gone = (
            (uid, node) for uid, node in self.node_of.items() if here.get(uid) != node and uid not in self.deleted
        )
        self.lost_pullers = {node: uid for uid, node in gone}
        ours = (puller.image for puller in pullers if puller.job_uid == self.uid)
        self.mutates_image = self.mutates_image or any(name and not same_image(name, image) for name in ours)
        self.node_of = here
        seen = set(here.values())
        self.pending_creates = {
            node: end for node, end in self.pending_creates.items() if end > moment and node not in seen
        }
        self.deleted &= here.keys()
        if self.write_backoff.failing or self.write_backoff.inconclusive:
            known = {STATUS, self.uid, *self.first_seen, *self.in_flight, *self.pending, *self.failed}
            self.write_backoff.keep(known.__contains__)

    def apply_plan(self, plan: JobPlan, moment: float) -> None:
        self.attempts |= plan.attempts
        for node, why in plan.results.items():
            self.forget_result(node)
            self.pending.pop(node, None)
            if why is PULLED:
                self.pulled.add(node)
            else:
                self.failed[node], self.retry_at[node] = why, moment + RETRY_SECONDS
        self.only_not_ready_since = min(self.only_not_ready_since, moment) if plan.only_not_ready else inf

    def max_creates(self, moment: float) -> int:
        """How many pullers may be created now: after a refusal only one, to see whether it is refused too."""
        if self.no_creates_before > moment:
            return 0
        return 1 if self.refusal else CEILING

    def create_refused(self, why: str, moment: float) -> None:
        self.refusal, self.refused_since = why, min(self.refused_since, moment)
        self.no_creates_before = moment + self.create_backoff.next()

    def pause_creates(self, moment: float) -> None:
        """The server is unavailable or busy, or something was in the way."""
        self.no_creates_before = max(self.no_creates_before, moment + NO_CREATES_SECONDS)

    def create_accepted(self) -> None:
        self.refusal, self.refused_since = "", inf
        self.create_backoff.reset()

    def update_stuck(self, job: ImagePullJob, moment: float) -> bool:
        """Returns whether `stuck` has changed. An attempt fails if pullers are refused until its timeout."""
        before, self.stuck = self.stuck, ""
        if not job.spec.at_once(1):
            self.stuck = f"the parallelism of ImagePullJob {job.name} is 0"
        elif moment >= self.refused_since + job.spec.timeout:
            self.stuck = self.refusal
        return self.stuck != before


def new_state(job: ImagePullJob) -> JobState:
    known = job.status.failed_nodes if job.status is not None else None
    return JobState(uid=job.uid, failed=dict.fromkeys(known or (), FAILED_BEFORE))


def nodes_without_image(
    job: ImagePullJob, state: JobState | None, nodes: Collection[str], keeps_images: Callable[[str], bool]
) -> Mapping[str, Unpulled]:
    """Those of `nodes` that lack the image. A node counts as being pulled until a pass has included it.
    `keeps_images` is called only for nodes unknown to the job."""
    status = state.latest_status(job) if state is not None else job.status
    if status is not None and status.completion_time:
        reasons = state.failed if state is not None else {}
        return {
            node: unpulled(reasons.get(node, f"see ImagePullJob {job.name}")) for node in status.failed_nodes or ()
        }
    if state is None or not state.targets_key:
        return dict.fromkeys(nodes, BeingPulled())
    pending, failed = state.pending, state.failed
    return {
        node: unpulled(failed.get(node, state.stuck))
        for node in nodes
        if node not in state.pulled and (node in pending or node in failed or keeps_images(node))
    }
