"""What is known of a job between two passes and written down nowhere. Lost with the process; see the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf

import msgspec

from controller.api.image_pull_job import ImagePullJob, ImagePullJobStatus, Targets
from controller.api.puller import Puller
from controller.api.selector import LabelSelector
from controller.daemonset.places import Places
from controller.imagepull.world import PULLED, JobPlan, Try
from controller.kube.errors import ApiError
from controller.kube.throttle import CEILING
from controller.planner.world import BeingPulled, Unpulled, unpulled
from controller.runtime.backoff import Backoff
from controller.runtime.pacing import StatusPacer

FAILED_BEFORE = "it failed before this controller began"
AGAIN_SECONDS = 600.0
"""After its last attempt has failed a node gets one more, and so on, in a job that never ends."""
STATUS = "status"
"""The place of the job's own writes."""


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
    """The nodes of its pullers that there were when it was last looked, or were made since, by uid."""
    ended: set[str] = msgspec.field(default_factory=set)
    """Uids of pullers whose deletion we have asked for."""
    silent: Collection[str] = ()
    chosen_at: tuple[object, ...] = ()
    """What the nodes were worked out from."""
    pods_listed: float = -inf
    with_pods: frozenset[str] | None = None
    pod_selector: LabelSelector | None = None
    """Which they are for."""
    silent_since: float = inf
    awaited: set[str] = msgspec.field(default_factory=set)
    places: Places[str] = msgspec.field(default_factory=Places)
    errors: list[ApiError] = msgspec.field(default_factory=list)
    """Of the pass that goes on."""
    crash: Exception | None = None
    refusal: str = ""
    """As in `JobWorld`."""
    refused_since: float = inf
    stuck: str = ""
    """Why no node will have the image until somebody does something; empty: they will."""
    rests_until: float = -inf
    rest: Backoff = msgspec.field(default_factory=lambda: Backoff(1.0, 300.0))
    wrote: tuple[str, ImagePullJobStatus] | None = None
    """The status that the server has stored last, and the version of the job with it."""
    pacer: StatusPacer = msgspec.field(default_factory=StatusPacer)

    def means(self, pod_selector: LabelSelector | None) -> None:
        """These pods are meant now: nothing is known of the nodes of others."""
        if pod_selector != self.pod_selector:
            self.with_pods, self.pod_selector = None, pod_selector

    def choose(self, targets: Targets, chosen_at: tuple[object, ...], served: Collection[str] = ()) -> None:
        """These are the nodes now: nothing is remembered of others, but that some are `served`: they have the image,
        and their pod is an old one no longer."""
        self.silent, self.chosen_at = targets.silent, chosen_at
        kept = set(targets.nodes)
        self.pulled = (self.pulled & kept.union(served)) | targets.having
        self.failed = {node: why for node, why in self.failed.items() if node in kept - self.pulled}
        self.left = {node: None for node in targets.nodes if node not in self.pulled and node not in self.failed}
        self.again = {node: due for node, due in self.again.items() if node in self.failed}
        self.tries = {node: tried for node, tried in self.tries.items() if node in self.left}

    def forget_node(self, name: str) -> None:
        """Another one of that name has none of its images."""
        self.pulled.discard(name)
        self.failed.pop(name, None)
        self.again.pop(name, None)
        self.tries.pop(name, None)

    def clear(self) -> None:
        """The job is over: nobody asks any more, but for why it failed."""
        self.failed = {node: why for node, why in self.failed.items() if why != FAILED_BEFORE}
        self.left, self.pulled, self.again, self.tries = {}, set(), {}, {}
        self.silent, self.chosen_at = (), ()

    def latest_status(self, job: ImagePullJob) -> ImagePullJobStatus | None:
        """The cache may not show our last one yet."""
        if self.wrote is not None and self.wrote[0].isdigit() and int(self.wrote[0]) > int(job.version or 0):
            return self.wrote[1]
        return job.status

    def see(self, pullers: tuple[Puller, ...], moment: float) -> None:
        self.since = {one.uid: self.since.get(one.uid, moment) for one in pullers}
        here = {one.uid: one.node for one in pullers if one.job_uid == self.uid}
        gone = ((uid, node) for uid, node in self.here.items() if here.get(uid) != node and uid not in self.ended)
        self.lost = {node: uid for uid, node in gone}
        self.here = here
        self.ended &= here.keys()

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
        """How many pullers may be made now: where the last one was refused, one to find out whether it still is."""
        if self.rests_until > moment:
            return 0
        return 1 if self.refusal else CEILING

    def refused(self, why: str, moment: float) -> None:
        self.refusal, self.refused_since = why, min(self.refused_since, moment)
        self.rests_until = moment + self.rest.next()

    def accepted(self) -> None:
        self.refusal, self.refused_since = "", inf
        self.rest.reset()

    def look_whether_stuck(self, job: ImagePullJob, moment: float) -> bool:
        """Whether that is other news than before. Pullers that are refused for as long as one attempt may take are an
        attempt that has failed."""
        before, self.stuck = self.stuck, ""
        if not job.spec.at_once(1):
            self.stuck = f"the parallelism of ImagePullJob {job.name} is 0"
        elif moment >= self.refused_since + job.spec.timeout:
            self.stuck = self.refusal
        return self.stuck != before


def begin(job: ImagePullJob) -> JobState:
    """For a job that this process has not looked at before."""
    known = job.status.failed_nodes if job.status is not None else None
    return JobState(uid=job.uid, failed=dict.fromkeys(known or (), FAILED_BEFORE))


def lacking(
    job: ImagePullJob, state: JobState | None, nodes: Collection[str], keeps_images: Callable[[str], bool]
) -> Mapping[str, Unpulled]:
    """Of these nodes those without the image. It is to come too where no pass has looked yet, or not since the node
    is one of them. `keeps_images` is asked of such nodes only."""
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
