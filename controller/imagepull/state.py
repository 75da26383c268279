"""Remembers a job between passes. It is lost with the process; see the docstring of the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf

import msgspec

from controller.api.containers import same_image
from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Puller, Targets
from controller.api.selector import LabelSelector
from controller.imagepull.jobs import PULLED, JobPlan, Try
from controller.kube.errors import ApiError
from controller.kube.sender import CEILING
from controller.planner.world import BeingPulled, Unpulled, unpulled
from controller.reconcile.events import ServerWarnings
from controller.reconcile.write_outcomes import Places
from controller.runtime.pacing import StatusPacer
from controller.runtime.workqueue import Backoff

FAILED_BEFORE = "it failed before this controller began"
AGAIN_SECONDS = 600.0
"""Seconds after which a failed node gets one more attempt, again and again, in a job that never completes."""
AWAY_SECONDS = 1.0
"""Seconds without another create after one to which the server said neither yes nor no."""
STATUS = "/status"
"""The place of writes to the job itself; no node can have this name, and no object this uid."""


class JobState(msgspec.Struct):
    uid: str
    left: dict[str, None] = msgspec.field(default_factory=dict)
    pulled: set[str] = msgspec.field(default_factory=set)
    failed: dict[str, str] = msgspec.field(default_factory=dict)
    again: dict[str, float] = msgspec.field(default_factory=dict)
    """As in `JobWorld`."""
    tries: dict[str, Try] = msgspec.field(default_factory=dict)
    since: dict[str, float] = msgspec.field(default_factory=dict)
    lost: dict[str, str] = msgspec.field(default_factory=dict)
    here: dict[str, str] = msgspec.field(default_factory=dict)
    """The nodes of its pullers by uid: those seen in the last pass, and those created since."""
    ended: set[str] = msgspec.field(default_factory=set)
    """Uids of pullers whose deletion we have requested."""
    silent: Collection[str] = ()
    chosen_at: tuple[object, ...] = ()
    """The inputs from which its nodes were worked out."""
    pods_listed: float = -inf
    with_pods: frozenset[str] | None = None
    pod_selector: LabelSelector | None = None
    """The podSelector that `with_pods` belongs to."""
    silent_since: float = inf
    awaited: set[str] = msgspec.field(default_factory=set)
    places: Places[str] = msgspec.field(default_factory=Places)
    server_warnings: ServerWarnings = msgspec.field(default_factory=ServerWarnings)
    errors: list[ApiError] = msgspec.field(default_factory=list)
    """Errors of the pass in progress."""
    refusal: str = ""
    """As in `JobWorld`."""
    refused_since: float = inf
    moved: bool = False
    """Whether admission gave a puller another image than the job asks for."""
    stuck: str = ""
    """Why no node gets the image until somebody acts; empty: nothing is wrong."""
    rests_until: float = -inf
    rest: Backoff = msgspec.field(default_factory=lambda: Backoff(1.0, 300.0))
    wrote: tuple[str, ImagePullJobStatus] | None = None
    """The resourceVersion and the status of our last write; None: there was none."""
    pacer: StatusPacer = msgspec.field(default_factory=StatusPacer)

    def forget_other_selector(self, pod_selector: LabelSelector | None) -> None:
        """Forget the nodes of the pods if the podSelector has changed."""
        if pod_selector != self.pod_selector:
            self.with_pods, self.pod_selector = None, pod_selector

    def choose(self, targets: Targets, chosen_at: tuple[object, ...], served: Collection[str] = ()) -> None:
        """Set the nodes of the job, and forget all others. Nodes in `served` keep the result that they have the
        image: they left the job because their pod was updated."""
        self.silent, self.chosen_at = targets.silent, chosen_at
        kept = set(targets.nodes)
        self.pulled = (self.pulled & kept.union(served)) | targets.having
        self.failed = {node: why for node, why in self.failed.items() if node in kept - self.pulled}
        self.left = {node: None for node in targets.nodes if node not in self.pulled and node not in self.failed}
        self.again = {node: due for node, due in self.again.items() if node in self.failed}
        self.tries = {node: tried for node, tried in self.tries.items() if node in self.left}

    def forget_node(self, name: str) -> None:
        """Forget a node that is gone: a new node of that name has none of its images."""
        self.pulled.discard(name)
        self.failed.pop(name, None)
        self.again.pop(name, None)
        self.tries.pop(name, None)

    def clear(self) -> None:
        """Forget what a finished job does not need, except why nodes failed."""
        self.failed = {node: why for node, why in self.failed.items() if why != FAILED_BEFORE}
        self.left, self.pulled, self.again, self.tries = {}, set(), {}, {}
        self.silent, self.chosen_at = (), ()

    def latest_status(self, job: ImagePullJob) -> ImagePullJobStatus | None:
        """The newest known status: the cache may not show our last one yet."""
        if self.wrote is not None and self.wrote[0].isdigit() and int(self.wrote[0]) > int(job.version or 0):
            return self.wrote[1]
        return job.status

    def see(self, image: str, pullers: tuple[Puller, ...], moment: float) -> None:
        """Take in the pullers that there are now, of a job for `image`."""
        self.since = {one.uid: self.since.get(one.uid, moment) for one in pullers}
        here = {one.uid: one.node for one in pullers if one.job_uid == self.uid}
        gone = ((uid, node) for uid, node in self.here.items() if here.get(uid) != node and uid not in self.ended)
        self.lost = {node: uid for uid, node in gone}
        ours = (one.image for one in pullers if one.job_uid == self.uid)
        self.moved = self.moved or any(one and not same_image(one, image) for one in ours)
        self.here = here
        self.ended &= here.keys()
        if self.places.failing or self.places.inconclusive:
            self.places.keep({STATUS, self.uid, *self.since, *self.awaited, *self.left, *self.failed}.__contains__)

    def learn(self, decided: JobPlan, moment: float) -> None:
        self.tries |= decided.tries
        for node, why in decided.settled.items():
            self.left.pop(node, None)
            self.tries.pop(node, None)
            self.failed.pop(node, None)
            self.again.pop(node, None)
            if why is not PULLED:
                self.failed[node], self.again[node] = why, moment + AGAIN_SECONDS
            else:
                self.pulled.add(node)
        self.silent_since = min(self.silent_since, moment) if decided.only_silent else inf

    def room(self, moment: float) -> int:
        """How many pullers may be created now: after a refusal only one, to find out whether it is refused too."""
        if self.rests_until > moment:
            return 0
        return 1 if self.refusal else CEILING

    def refused(self, why: str, moment: float) -> None:
        self.refusal, self.refused_since = why, min(self.refused_since, moment)
        self.rests_until = moment + self.rest.next()

    def unanswered(self, moment: float) -> None:
        """The server has not said whether it accepts a puller: it is away or busy, or something was in the way."""
        self.rests_until = max(self.rests_until, moment + AWAY_SECONDS)

    def accepted(self) -> None:
        self.refusal, self.refused_since = "", inf
        self.rest.reset()

    def look_whether_stuck(self, job: ImagePullJob, moment: float) -> bool:
        """Update `stuck`; returns whether it has changed. If pullers are refused for as long as one attempt may take,
        the attempt counts as failed."""
        before, self.stuck = self.stuck, ""
        if not job.spec.at_once(1):
            self.stuck = f"the parallelism of ImagePullJob {job.name} is 0"
        elif moment >= self.refused_since + job.spec.timeout:
            self.stuck = self.refusal
        return self.stuck != before


def begin(job: ImagePullJob) -> JobState:
    """The state of a job that this process sees for the first time."""
    known = job.status.failed_nodes if job.status is not None else None
    return JobState(uid=job.uid, failed=dict.fromkeys(known or (), FAILED_BEFORE))


def lacking(
    job: ImagePullJob, state: JobState | None, nodes: Collection[str], keeps_images: Callable[[str], bool]
) -> Mapping[str, Unpulled]:
    """Those of `nodes` that lack the image. A node counts as being pulled until a pass has looked at the job with
    this node in it. `keeps_images` is only called for such nodes."""
    if state is not None and state.uid != job.uid:
        state = None
    status = state.latest_status(job) if state is not None else job.status
    if status is not None and status.completion_time:
        heard = state.failed if state is not None else {}
        return {node: unpulled(heard.get(node, f"see ImagePullJob {job.name}")) for node in status.failed_nodes or ()}
    if state is None or not state.chosen_at:
        return dict.fromkeys(nodes, BeingPulled())
    pulled, left, failed = state.pulled, state.left, state.failed
    lacking = (node for node in nodes if node not in pulled)
    return {
        node: unpulled(failed.get(node, state.stuck))
        for node in lacking
        if node in left or node in failed or keeps_images(node)
    }
