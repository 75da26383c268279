"""What the controller remembers about one DaemonSet between passes.

Nothing here is needed to keep the limits, only to be quick or polite: after a restart it starts empty, and the
cluster's own state says the rest. One thing is lost then: which revision a missing pod was of (`predecessors`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controller.api.base import Value
from controller.api.daemonset import DaemonSet, DaemonSetStatus
from controller.api.pod import Pod
from controller.api.revision import Revision
from controller.daemonset.rivalry import Rivalry, rivalry_after, rivalry_found
from controller.daemonset.trouble import Trouble
from controller.planner.eligibility import Rules
from controller.planner.fallback import placements_of
from controller.planner.manifest import Mold
from controller.planner.sight import Sight
from controller.planner.world import Predecessor
from controller.runtime.freshness import Reach

ASK_AGAIN_SECONDS = 60.0
ASK_AGAIN_AT_MOST = 900.0
"""A refused template is tried again after a minute, then ever later: policies change without a word to us."""
FAILING_FIRST = 1.0
FAILING_AT_MOST = 300.0
"""Seconds for which a node or an orphan is left alone after its second failure in a row, and at most."""
DOUBTS = 3
"""Answers in a row, to a write in one place, that say nothing of that place (a conflict, a busy server, none at all):
from this one on it is a failure of the place nevertheless, since a webhook or a proxy can give any answer."""
ROOM_AT_MOST = 30.0
"""Seconds at most until it is seen that a quota was raised: nobody tells."""
FAILING_KEPT = 10_000
"""Places that are remembered; beyond that those that may be tried again are forgotten."""


class Failing(Value):
    """Something that failed: until when it is left alone (`elapsed`), and for how many seconds that was."""

    until: float
    delay: float


class FutureReady(Value):
    """A pod that said it would become ready later than it was seen so; both in seconds since 1970."""

    said: float
    seen: float


class Memory(msgspec.Struct):
    """Of one DaemonSet uid."""

    generation: int = -1
    rules: Rules | None = None
    placements: dict[str, Rules | None] = msgspec.field(default_factory=dict)
    """Revision uid to its own compiled placement; None where it cannot be compiled."""
    molds: dict[str, Mold] = msgspec.field(default_factory=dict)
    """Revision hash to the mold of its pods, for this generation."""
    predecessors: dict[str, Predecessor] = msgspec.field(default_factory=dict)
    """Node to the pod that was seen there last and is gone."""
    future_ready: dict[str, FutureReady] | None = None
    """By uid: pods on nodes whose clock is ahead of ours. None: nobody has looked yet."""
    verdicts: dict[str, str] = msgspec.field(default_factory=dict)
    """Revision hash to what the server's dry run said; "" is yes. After a while a "no" is asked again."""
    ask_at: float = 0.0
    """By `elapsed`: when a "no" is asked again."""
    refusals: int = 0
    """How often in a row the dry run was refused: each time the next question waits twice as long, and is about the
    pod of another node."""
    failing: dict[str, Failing] = msgspec.field(default_factory=dict)
    """Node, or uid of a pod or revision, to how a write there failed."""
    doubts: dict[str, int] = msgspec.field(default_factory=dict)
    """The same places to how many writes in a row were answered by something that says nothing of the place."""
    proven: str = ""
    """Hash of the revision of which the server has accepted a whole batch: no slow start for it any more."""
    collisions: int = 0
    eager: bool = False
    """The last pass left more to do, now or once pods are available: what it waits for is looked at soon."""
    trouble: Trouble | None = None
    """What a failed write was told by the server, until it is over; another generation begins without any."""
    rivalry: Rivalry | None = None
    """Another controller wrote the status after us."""
    sight: Sight | None = None
    """What the last pass saw."""
    paused_since: float = 0.0
    """Seconds since 1970: the first pass that found it paused, as all since did; 0 = the last one did not."""
    status: DaemonSetStatus | None = None
    """The status as we wrote it last, as long as the cache may not show it …"""
    status_version: int = 0
    """… the version at which the server stored it; 0 = not written yet …"""
    status_at: float = 0.0
    """… and when it answered (`elapsed`)."""

    def shown(self, reach: Reach) -> None:
        """The cache of DaemonSets has come so far: it knows better what became of our last status."""
        if self.status is not None and reach.covers(self.status_version, self.status_at):
            self.status = None

    def latest_status(self, daemonset: DaemonSet) -> tuple[str, DaemonSetStatus | None]:
        """The newest status that is known, and the version of the object that carries it: our own last one, until the
        cache shows it or a later one."""
        version = daemonset.version
        if self.status is not None and version.isdigit() and int(version) < self.status_version:
            return str(self.status_version), self.status
        return version, daemonset.status

    def rules_of(self, daemonset: DaemonSet) -> Rules:
        """The compiled placement rules of this generation. Raises ValueError for what cannot be compiled."""
        if self.rules is None or self.generation != daemonset.generation:
            rolling = daemonset.rolling_update
            self.rules = Rules(daemonset.spec.template, rolling.selector if rolling else None)
            self.generation = daemonset.generation
            self.molds.clear()
            self.ask_at, self.refusals = 0.0, 0
            self.failing.clear()
            self.doubts.clear()
            self.trouble = None
        return self.rules

    def placements_of(self, revisions: Iterable[Revision]) -> dict[str, Rules | None]:
        """The compiled placement of each stored revision: done once, and forgotten with it."""
        self.placements = placements_of(revisions, self.placements)
        return self.placements

    def ready_seen(self, pods: Iterable[Pod], now: float) -> dict[str, float]:
        """Uid to the moment at which a pod was first seen ready, where it says that this lies in the future.

        Without it such a pod would be available only when our clock has caught up with its node's. Ask in every pass:
        at the first one nobody knows since when, so its age is taken; old pods must not all count as unavailable
        because the controller has restarted.
        """
        known, ahead = self.future_ready, {}
        for pod in pods:
            said = pod.ready_since
            if said is None or (said <= now and not known):
                continue
            before = known.get(pod.uid) if known else None
            if before is not None and before.said == said:
                ahead[pod.uid] = before
            elif said > now:
                ahead[pod.uid] = FutureReady(said=said, seen=min(pod.created, now) if known is None else now)
        self.future_ready = ahead
        return {uid: one.seen for uid, one in ahead.items()}

    def saw(self, daemonset: DaemonSet, sight: Sight | None, now: float) -> None:
        """A pass has looked at it; `sight` None: it could make no sense of the spec."""
        rolling = daemonset.rolling_update
        self.sight = sight
        self.paused_since = (self.paused_since or now) if rolling is not None and rolling.paused else 0.0

    def stand_back(self, moment: float) -> None:
        """Another controller has written the status."""
        self.rivalry = rivalry_after(self.rivalry, moment)

    def stands_back(self, daemonset: DaemonSet, now: float, moment: float) -> float:
        """The seconds for which the DaemonSet is still left to another controller; 0: it is ours.

        Its last write may be older than this process, which has not written anything yet then: only that is told by
        the API, in seconds since 1970 as `now` is. `moment` is `elapsed` now.
        """
        if self.rivalry is None and not self.status_version:
            self.rivalry = rivalry_found(now - daemonset.status_writers.rival_wrote, moment)
        return 0.0 if self.rivalry is None else max(self.rivalry.until - moment, 0.0)

    def accepted(self, revision_hash: str) -> None:
        """The dry run went well, or would have but for what says nothing of the template."""
        self.verdicts[revision_hash] = ""
        self.refusals = 0

    def refused(self, revision_hash: str, words: str, moment: float, *, perhaps_of_node: bool) -> None:
        """The dry run was refused. Where that may have been for the pod's node, another one is asked about first."""
        self.refusals += 1
        told = self.refusals - (1 if perhaps_of_node else 0)
        if told > 0:
            self.verdicts[revision_hash] = words
            self.ask_at = moment + min(ASK_AGAIN_SECONDS * 2 ** min(told - 1, 9), ASK_AGAIN_AT_MOST)

    def failed(self, what: str, moment: float, at_most: float = FAILING_AT_MOST) -> None:
        """A create on this node, or a write to this uid, failed. After the first time it may be tried at once."""
        known = self.failing.get(what)
        if len(self.failing) > FAILING_KEPT:
            self.failing = {place: one for place, one in self.failing.items() if one.until > moment}
        if known is None:
            self.failing[what] = Failing(until=moment, delay=0.0)
        else:
            delay = min(max(known.delay * 2, FAILING_FIRST), at_most)
            self.failing[what] = Failing(until=moment + delay, delay=delay)

    def doubted(self, what: str) -> bool:
        """A write there was answered by something that says nothing of the place. Returns whether that has gone on
        for so long that it counts as a failure of the place."""
        if len(self.doubts) > FAILING_KEPT:
            self.doubts.clear()
        self.doubts[what] = self.doubts.get(what, 0) + 1
        return self.doubts[what] >= DOUBTS

    def went_well(self, what: str) -> None:
        """A write there went through: it did not fail there, whatever was before."""
        self.failing.pop(what, None)
        self.doubts.pop(what, None)

    def leave_alone(self, what: str, seconds: float, moment: float) -> None:
        """Nothing is tried there for so long, however often it failed before."""
        self.failing[what] = Failing(until=moment + seconds, delay=seconds)

    def held_back(self, moment: float) -> dict[str, float]:
        """What is to be left alone now, and until when (`elapsed`)."""
        return {what: one.until for what, one in self.failing.items() if one.until > moment}

    def due_again(self, moment: float) -> dict[str, float]:
        """Where writes failed and may be tried again now, and since when (`elapsed`)."""
        return {what: one.until for what, one in self.failing.items() if one.until <= moment}

    def mold_of(self, daemonset: DaemonSet, revision: Revision) -> Mold:
        mold = self.molds.get(revision.hash)
        if mold is None:
            mold = self.molds[revision.hash] = Mold(daemonset, revision)
        return mold


class Memories:
    """The memory of every DaemonSet, by uid: a successor of the same name starts with a clean one."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Memory] = {}

    def of(self, uid: str) -> Memory:
        memory = self._by_uid.get(uid)
        if memory is None:
            memory = self._by_uid[uid] = Memory()
        return memory

    def forget_node(self, name: str) -> None:
        """The node is gone, and names of pods on a successor need not differ from those of long ago."""
        for memory in self._by_uid.values():
            memory.predecessors.pop(name, None)
            memory.went_well(name)

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
