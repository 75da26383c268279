"""What ImagePullJobs promise, asked at the API server: `/docs/image-pre-download.md`.

- No more pullers of a job pull at once than its parallelism; none is made on a node that has one, nor for a job that
  is over or deleted, nor on a node that had the image from this job already, by the hand of the same process.
- What fails is tried again as often as the job says, after a pause that doubles.
- When a job began and when it was over is written once.
- A node that waits for its image is not updated before the image is there, or cannot be had.
- In the end each job is over in time, its status is true, no puller outlives it, and it outlives neither its time nor
  its rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from controller.api.formats import scaled
from controller.api.names import PREDOWNLOAD_WAIT_ANNOTATION
from tests.beds.api import Object
from tests.beds.objects import controller_of, image_of, is_ready, node_of
from tests.beds.simulator.cluster import Cluster
from tests.beds.simulator.kinds import DAEMONSETS, IMAGE_PULL_JOBS, PODS
from tests.beds.simulator.store import HistoryEntry
from tests.simulation.chronicle import LATE, Chronicle
from tests.simulation.record import ON_TIME, WHO, Listener, Record
from tests.simulation.scene import State, moment

ENDLESS, NOWHERE = "registry.example/big:endless", "registry.example/none:nowhere"
"""An image that never arrives, and one that no registry has."""
TIMEOUT, RETRIES = 20, 1
UNDER_WAY = 5.0
"""Seconds that a create may come after what forbids it."""
GRAIN, AT_ONCE = 1.5, 0.05
LAG = 60.0
"""Seconds within which a job is over, or gone, once it should be."""


@dataclass
class Pulls:
    cluster: Cluster
    record: Record
    chronicles: Callable[[], list[Chronicle]]
    images_of: Callable[[str], frozenset[str]]
    _done: set[tuple[str, str, str]] = field(default_factory=set)
    """Job, process and node, where that process has deleted a puller that had succeeded."""
    _gone: dict[str, float] = field(default_factory=dict)
    """When jobs were deleted, by uid."""
    _parallel: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    _failed: dict[tuple[str, str, str], dict[str, float]] = field(default_factory=dict)
    """By job, process and node, when pullers that the process started there could not pull, by uid."""
    _starters: dict[str, str] = field(default_factory=dict)
    """Which process started a puller, by uid."""

    def __post_init__(self) -> None:
        for kind in (PODS, IMAGE_PULL_JOBS):
            self.cluster.store.watches[kind].append(Listener(kind, self._happened))

    def jobs(self) -> list[Object]:
        return [one.object for one in self.cluster.store.objects[IMAGE_PULL_JOBS].values()]

    def pullers(self, uid: str = "") -> list[Object]:
        pods = (one.object for one in self.cluster.store.objects[PODS].values())
        found = (pod for pod in pods if controller_of(pod).get("kind") == "ImagePullJob")
        return [pod for pod in found if uid in ("", controller_of(pod).get("uid"))]

    def node_gone(self, name: str) -> None:
        self._done = {one for one in self._done if one[2] != name}
        self._failed = {one: times for one, times in self._failed.items() if one[2] != name}

    def server_restored(self) -> None:
        self._done.clear()
        self._failed.clear()

    def _happened(self, change: HistoryEntry) -> None:
        new = change.after.object
        if change.after.kind is IMAGE_PULL_JOBS:
            if change.type == "DELETED":
                self._gone[new["metadata"]["uid"]] = self.cluster.clock()
            knows = WHO.get() in self.record.identities and not self._is_hindered()
            for charge in _rewritten(change) if knows else ():
                self.record.charge("pull", f"{WHO.get()} {charge}")
            known = self._parallel.setdefault(new["metadata"]["uid"], [])
            most = scaled(new["spec"].get("parallelism", 1), 100, round_up=True)
            if not known or known[-1][1] != most:
                known.append((self.cluster.clock(), most))
            return
        owner, who = controller_of(new), WHO.get()
        if owner.get("kind") == "ImagePullJob" and change.type != "DELETED" and cannot_pull(new):
            uid, starter = new["metadata"]["uid"], self._starters.get(new["metadata"]["uid"], "")
            self._failed.setdefault((owner["uid"], starter, node_of(new)), {}).setdefault(uid, self.cluster.clock())
        if owner.get("kind") != "ImagePullJob" or who not in self.record.identities:
            return
        if change.before is None:
            self._starters[new["metadata"]["uid"]] = who
            self.record.judged["the start of a puller"] += 1
            if ON_TIME.get() == []:
                return
            for charge in self._started(new, owner["uid"], who):
                self.record.charge("pull", f"{who} {charge}")
        elif change.type == "DELETED" and has_pulled(change.before.object):
            self._done.add((owner["uid"], who, node_of(new)))

    def _started(self, new: Object, uid: str, who: str) -> Iterator[str]:
        now, node = self.cluster.clock(), node_of(new)
        hindered = self._is_hindered()
        job = next((one for one in self.jobs() if one["metadata"]["uid"] == uid), None)
        if job is None:
            if not hindered and now > self._gone.get(uid, 0.0) + UNDER_WAY:
                yield f"starts {new['metadata']['name']} for a job that is not there"
            return
        name, over = job["metadata"]["name"], (job.get("status") or {}).get("completionTime")
        if over and now > moment(over) + UNDER_WAY + (LATE if hindered else 0.0):
            yield f"starts a puller of {name} on {node}, which is over since {over}"
        if image_of(new) != job["spec"]["image"]:
            yield f"starts a puller of {image_of(new)} for {name} of {job['spec']['image']}"
        if (uid, who, node) in self._done and not hindered:
            yield f"starts a puller of {name} on {node}, which has pulled it already"
        yield from self._again(job, who, node, now)
        others = [one for one in self.pullers(uid) if one["metadata"]["uid"] != new["metadata"]["uid"]]
        others = [one for one in others if not one["metadata"].get("deletionTimestamp")]
        if any(node_of(one) == node for one in others):
            yield f"starts a second puller of {name} on {node}"
        busy = [one for one in others if is_pulling(one, now) and self._is_there(node_of(one))]
        most = self._most(uid, now, hindered=hindered)
        if len(busy) >= most:
            where = sorted(map(node_of, busy))
            yield f"starts a puller of {name} on {node} beside {where}, its parallelism is {most}"

    def _again(self, job: Object, who: str, node: str, now: float) -> Iterator[str]:
        """Another attempt of a user's job, on a node where some have failed."""
        failed = self._failed.get((job["metadata"]["uid"], who, node), {})
        if not failed or controller_of(job):
            return
        if len(failed) > RETRIES:
            yield f"starts a puller of {job['metadata']['name']} on {node}, where {len(failed)} have failed already"
        last, pause = max(failed.values()), 2.0 ** (len(failed) - 1)
        if now < last + pause - AT_ONCE:
            yield f"starts a puller of {job['metadata']['name']} on {node} {now - last:.2f} s after one has failed"

    def _most(self, uid: str, now: float, *, hindered: bool) -> int:
        known = self._parallel[uid]
        since = now - (LATE if hindered else UNDER_WAY)
        before = [most for at, most in known if at <= since][-1:]
        return max([*before, *(most for at, most in known if at > since)])

    def _is_hindered(self) -> bool:
        return any(one.hindered_until > self.cluster.clock() for one in self.chronicles())

    def _is_there(self, node: str) -> bool:
        """Whether the node is known and not lost."""
        return all(node in one.nodes and not one.nodes[node].unreachable for one in self.chronicles())

    def broken(self, change: HistoryEntry, server: Chronicle) -> Iterator[str]:
        """Whether the old pod of a node that serves goes, or begins to change, before its image is there."""
        before, new = server.pods.get(change.after.uid), change.after.object
        if change.after.kind is not PODS or before is None or server.spec is None or server.predates_restore:
            return
        told, node = server.told(), before.node
        ends = change.type == "DELETED" or new["metadata"].get("deletionTimestamp")
        begins = ends or image_of(new) != before.image or not is_ready(new)
        if not (before.live and before.ready and begins) or told.is_current(before):
            return
        if told.spec.edited != server.spec.edited:
            return
        keeps = node in told.eligible and not told.leaves(node) and told.served(node) and len(told.live(node)) == 1
        if keeps and self._waits() and not told.max_surge:
            yield from self._updates(node, told.spec.image, server)

    def _waits(self) -> bool:
        found = next(one.object for one in self.cluster.store.objects[DAEMONSETS].values())
        asked = (found["metadata"].get("annotations") or {}).get(PREDOWNLOAD_WAIT_ANNOTATION)
        rolling = found["spec"]["updateStrategy"].get("rollingUpdate") or {}
        return asked == "true" or (asked is None and rolling.get("rollingUpdateType") == "InPlaceIfPossible")

    def _updates(self, node: str, image: str, server: Chronicle) -> Iterator[str]:
        now = self.cluster.clock()
        self.record.judged["an update where a node may wait for its image"] += 1
        if server.hindered_until > now or server.life_began > now - LATE or image in self.images_of(node):
            return
        for job in self.jobs():
            owner, status = controller_of(job), job.get("status") or {}
            is_of = owner.get("kind") == "DaemonSet" and job["spec"]["image"] == image
            made = moment(job["metadata"]["creationTimestamp"])
            if (
                is_of
                and not status.get("completionTime")
                and not status.get("failedNodes")
                and made + GRAIN < server.decision.at
            ):
                yield f"{node} goes before it has {image}, which {job['metadata']['name']} pulls"

    def missing(self, now: State) -> Iterator[str]:
        """What is not as it should be in the end."""
        old_pods = any(now.old(node) for node in now.nodes)
        known = {one["metadata"]["uid"]: one for one in self.jobs()}
        for puller in self.pullers():
            job = known.get(controller_of(puller)["uid"])
            if job is None or (job.get("status") or {}).get("completionTime"):
                yield f"the puller {puller['metadata']['name']} outlives its job"
        for job in known.values():
            name, policy = job["metadata"]["name"], job["spec"].get("completionPolicy") or {}
            status, is_of_rollout = job.get("status") or {}, controller_of(job).get("kind") == "DaemonSet"
            if is_of_rollout and (not old_pods or job["spec"]["image"] != now.spec.image):
                yield f"the job {name} of a rollout is there, and no node waits for its image"
            over, ttl = status.get("completionTime"), policy.get("ttlSecondsAfterFinished")
            if is_of_rollout and not over:
                continue
            if not over:
                yield f"the job {name} is not over: {status}"
            elif ttl is not None:
                yield f"the job {name} is still there, {now.at - moment(over):.0f} s after it was over"
            failed = status.get("failed", 0)
            counts = (
                status.get("active", 0),
                status.get("succeeded", 0) + failed,
                len(status.get("failedNodes") or ()),
            )
            if over and counts != (0, status.get("desired", 0), failed):
                yield f"the status of the job {name} does not add up: {status}"

    def late(self, healed: float) -> Iterator[str]:
        """Jobs that were over too late; `healed`: when the last fault was over."""
        for job in self.jobs():
            status, policy = job.get("status") or {}, job["spec"].get("completionPolicy") or {}
            deadline, over = policy.get("activeDeadlineSeconds"), status.get("completionTime")
            if deadline is None or not over or not status.get("startTime"):
                continue
            due = max(moment(status["startTime"]) + deadline, healed)
            if moment(over) > due + LAG:
                yield f"the job {job['metadata']['name']} was over {moment(over) - due:.0f} s after its deadline"


def is_pulling(puller: Object, now: float) -> bool:
    """Whether its attempt is under way, as far as the server can say."""
    status = puller.get("status") or {}
    young = now < moment(puller["metadata"]["creationTimestamp"]) + TIMEOUT - GRAIN
    return (
        young
        and not cannot_pull(puller)
        and not has_pulled(puller)
        and status.get("phase") not in ("Failed", "Succeeded")
    )


def has_pulled(puller: Object) -> bool:
    states = (puller.get("status") or {}).get("containerStatuses") or []
    return any(one.get("imageID") for one in states)


def cannot_pull(puller: Object) -> bool:
    states = (puller.get("status") or {}).get("containerStatuses") or []
    waiting = ((one.get("state") or {}).get("waiting") or {} for one in states)
    return any(one.get("reason") in ("ErrImagePull", "ImagePullBackOff") for one in waiting)


def _rewritten(change: HistoryEntry) -> Iterator[str]:
    """What is written into the status of a job once, and stays."""
    before = (change.before.object.get("status") or {}) if change.before is not None else {}
    after = change.after.object.get("status") or {}
    for name in ("startTime", "completionTime"):
        if before.get(name) and after.get(name) != before[name]:
            yield f"changes {name} of {change.after.name[1]} from {before[name]} to {after.get(name)}"
