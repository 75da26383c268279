"""What the controller remembers about one DaemonSet between passes. Passes and triggers write it.

Nothing here is needed to keep the limits, only to be quick or polite: after a restart it starts empty, and the
cluster's own state says the rest. One thing is lost then: which revision a missing pod was of (`predecessors`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf

import msgspec

from controller.api.base import Value
from controller.api.daemonset import DaemonSet
from controller.api.pod import Pod
from controller.daemonset.answers import Answer
from controller.daemonset.clock_skew import ReadySeen, RestartsSeen
from controller.daemonset.compiled import Compiled
from controller.daemonset.places import Places
from controller.daemonset.redaction import KnownSecrets
from controller.daemonset.status_conflict import StatusConflict, conflict_after, conflict_found
from controller.daemonset.status_writer import StatusWriter
from controller.daemonset.taken_back import TakenBack
from controller.daemonset.unanswered import Unanswered
from controller.daemonset.verdicts import Verdicts
from controller.daemonset.write_failure import WriteFailure, failure_after
from controller.kube.meaning import ForWrite, meaning_of
from controller.planner.actions import CreatePod, CreateRevision, InDoubt, ProbeTemplate, ResizePod
from controller.planner.place import ROOM, Place
from controller.planner.plan import Plan
from controller.planner.summary import Summary
from controller.planner.world import Predecessor, predecessor
from controller.runtime.freshness import Reach
from controller.settings import DEFAULT_GATES, Gates

ROOM_AT_MOST = 30.0
"""Seconds after which creates are tried again where a quota was full: no event tells that it was raised."""
ENDING_SECONDS = 30.0
"""Seconds for which a node is left alone when the namespace is being deleted: the DaemonSet goes with it."""
PROOF = 2
"""Accepted creates of a revision after which the next ones are made all at once."""
UNSURE_SECONDS = 30.0
"""For which a write whose answer was lost may yet be done: no server or proxy keeps a request for longer."""
NO_RESIZE = "this server has no pods/resize, which takes Kubernetes 1.33, so new pods are made instead"


class Unsure(Value):
    """A write whose answer was lost: until `until` (by `elapsed`) it may yet be done."""

    action: InDoubt
    until: float


class DaemonSetState(msgspec.Struct):
    """The state of one DaemonSet, of one uid."""

    gates: Gates = DEFAULT_GATES
    generation: int = -1
    compiled: Compiled | None = None
    """What was computed for the newest generation that was seen."""
    secrets: KnownSecrets = msgspec.field(default_factory=KnownSecrets)
    unanswered: Unanswered = msgspec.field(default_factory=Unanswered)
    status_writer: StatusWriter = msgspec.field(default_factory=StatusWriter)
    predecessors: dict[str, Predecessor] = msgspec.field(default_factory=dict)
    """Node to the pod that was seen there last and is gone."""
    doubtful: dict[str, str] = msgspec.field(default_factory=dict)
    """Node to the name of a pod whose create got no answer. The next creates there use that name until one is
    answered: with another name there would be two pods if the first request were carried out late."""
    ready_seen: ReadySeen = msgspec.field(default_factory=ReadySeen)
    restarts_seen: RestartsSeen = msgspec.field(default_factory=RestartsSeen)
    verdicts: Verdicts = msgspec.field(default_factory=Verdicts)
    """What the server's dry runs said."""
    places: Places[Place] = msgspec.field(default_factory=Places)
    """Where writes failed."""
    taken_back: TakenBack = msgspec.field(default_factory=TakenBack)
    """Writes to pods that somebody may take back."""
    accepted: int = 0
    """How many creates of the revision `accepted_of` the server has accepted since it last refused all that a pass
    tried."""
    accepted_of: str = ""
    """Hash of the revision that `accepted` counts."""
    unsure: dict[Place, Unsure] = msgspec.field(default_factory=dict)
    """Place to a create or deletion of a pod whose answer was lost."""
    refused_resizes: dict[str, str] = msgspec.field(default_factory=dict)
    """Uid of a pod to what the server said when it refused to resize it; kept until it accepts, or the pod is
    gone."""
    no_resize: str = ""
    """Words for users if the server does not know `pods/resize`; empty if it does. Asked again for each generation,
    because the server may have been upgraded."""
    collisions: int = 0
    eager: bool = False
    """Whether the last pass left something to do, now or once pods are available: then changes of our pods are looked
    at soon."""
    write_failure: WriteFailure | None = None
    """The failed write that the status reports, if any; another generation starts without one."""
    status_conflict: StatusConflict | None = None
    """Set while another controller writes the status too."""
    summary: Summary | None = None
    """What the last pass saw."""
    paused_since: float = 0.0
    """Seconds since 1970: the first pass of the present pause; 0 = the last pass did not find it paused."""

    def compiled_for(self, daemonset: DaemonSet) -> Compiled:
        """What is computed for the generation of `daemonset`, computed now if it was not before."""
        known = self.compiled
        self.compiled = Compiled(daemonset, {}, self.gates) if known is None else known.of(daemonset)
        return self.compiled

    def begin(self, generation: int, reach: Reach) -> None:
        """A pass begins over this generation; `reach`: how far the cache of DaemonSets has come.

        With a new generation all failures are forgotten: the edit may have removed their cause.
        """
        self.status_writer.own.look(reach)
        if generation != self.generation:
            self.generation = generation
            self.verdicts.ask_anew()
            self.places.clear()
            self.taken_back.forget()
            self.refused_resizes.clear()
            self.no_resize = ""
            self.write_failure = None

    def decided(self, daemonset: DaemonSet, decided: Plan, now: float) -> None:
        """`now` in seconds since 1970."""
        rolling = daemonset.rolling_update
        self.summary, self.eager = decided.summary, decided.more
        self.paused_since = (self.paused_since or now) if rolling is not None and rolling.paused else 0.0

    @property
    def proven(self) -> str:
        """Hash of the revision of which the server has accepted several pods: no slow start for it any more."""
        return self.accepted_of if self.accepted >= PROOF else ""

    def held_back(self, moment: float) -> dict[Place, float]:
        """Places to be left alone now, and until when: also as long as a lost write may yet be done there, and where
        the server has not answered, for ever."""
        held = self.places.held_back(moment)
        for place, one in self.unsure.items():
            if place in self.places.failing and one.until > moment:
                held[place] = max(held.get(place, 0.0), one.until)
        return held | dict.fromkeys(self.unanswered.places, inf)

    def possible(self, moment: float) -> list[InDoubt]:
        """Writes that are not answered, and those whose answer was lost in places that are passed over: what they
        may yet do counts as done."""
        failing = self.places.failing
        lost = (one.action for place, one in self.unsure.items() if place in failing and one.until > moment)
        return [*self.unanswered.in_doubt, *lost]

    def learn(self, answers: Sequence[Answer], daemonset: DaemonSet, moment: float, *, late: bool = False) -> None:
        """Learn from answers of the server, some or all of a plan's; `moment` is `elapsed`. `late`: they came after
        the pass had ended."""
        creates = [one for one in answers if isinstance(one.action, CreatePod)]
        first = [one for one in creates if one.is_full_quota or one.place not in self.places.failing]
        for one in first:
            if isinstance(one.action, CreatePod) and one.error is None:
                same = one.action.revision.hash == self.accepted_of
                self.accepted, self.accepted_of = (self.accepted + 1 if same else 1), one.action.revision.hash
        refused = len(first) > 1 and not late and all(one.error is not None for one in first)
        if refused or any(one.is_full_quota for one in first):
            self.accepted = 0
        if any(one.is_full_quota for one in answers):  # once, however many creates it refused
            self.places.failed(ROOM, moment, ROOM_AT_MOST)
        if self.unsure:
            self.unsure = {place: one for place, one in self.unsure.items() if one.until > moment}
        for answer in answers:
            self.taken_back.learn(answer, self.places.failing, moment)
            if not answer.is_full_quota:
                self._learn_of_place(answer, moment)
            self._learn_of_names(answer, daemonset)
            if isinstance(answer.action, ProbeTemplate):
                self.verdicts.learn(answer.action.revision.hash, answer.error, moment)
            if isinstance(answer.action, ResizePod):
                self._learn_of_resize(answer.action.pod.uid, answer)

    def concluded(self, decided: Plan, answers: Sequence[Answer]) -> None:
        """What there is to tell, once these were learnt."""
        self.write_failure = failure_after(self.write_failure, decided, answers, self.places.failing)

    def lost(self, pod: Pod) -> None:
        """A pod is gone from its node: a quota that was full has room for one now."""
        self.predecessors[pod.node] = predecessor(pod)
        self.places.went_well(ROOM)
        self.refused_resizes.pop(pod.uid, None)

    def forget_node(self, name: str) -> None:
        """The node is gone, and with it the need that a new pod's name differs from the last one's there."""
        self.predecessors.pop(name, None)
        self.doubtful.pop(name, None)
        self.places.went_well(Place.of_node(name))

    def stand_back(self, moment: float) -> None:
        """Another controller has written the status."""
        self.status_conflict = conflict_after(self.status_conflict, moment)

    def stands_back(self, daemonset: DaemonSet, now: float, moment: float) -> float:
        """The seconds for which the DaemonSet is still left to another controller; 0: it is ours.

        Its last write may be older than this process, which has not written anything yet then: only that is told by
        the API, in seconds since 1970 as `now` is. `moment` is `elapsed` now.
        """
        if self.status_conflict is None and not self.status_writer.own.version:
            self.status_conflict = conflict_found(now - daemonset.status_writers.rival_wrote, moment)
        return 0.0 if self.status_conflict is None else max(self.status_conflict.until - moment, 0.0)

    def _learn_of_place(self, answer: Answer, moment: float) -> None:
        place, error = answer.place, answer.error
        self.unsure.pop(place, None)
        if answer.means is ForWrite.UNKNOWN and isinstance(answer.action, InDoubt):
            self.unsure[place] = Unsure(action=answer.action, until=moment + UNSURE_SECONDS)
        if error is None:
            self.places.went_well(place)
            if isinstance(answer.action, CreatePod):
                self.places.went_well(ROOM)
            return
        if not meaning_of(error).write.of_the_place:
            self.places.doubted(place)
        if answer.counts and error.is_terminating_namespace:
            self.places.leave_alone(place, ENDING_SECONDS, moment)
        elif answer.counts:
            self.places.failed(place, moment)

    def _learn_of_names(self, answer: Answer, daemonset: DaemonSet) -> None:
        """A name that an object of somebody else has is not tried again; one whose create may be carried out late
        is."""
        if isinstance(answer.action, CreatePod):
            if answer.means is ForWrite.UNKNOWN:
                self.doubtful[answer.action.node] = answer.action.name
            elif answer.means in (None, ForWrite.EXISTS):
                self.doubtful.pop(answer.action.node, None)
        if not answer.taken:
            return
        if isinstance(answer.action, CreatePod):
            before = self.predecessors.get(answer.action.node, Predecessor(uid=""))
            self.predecessors[answer.action.node] = msgspec.structs.replace(before, uid=f"not {answer.action.name}")
        elif isinstance(answer.action, CreateRevision):
            known = (daemonset.status.collision_count or 0) if daemonset.status is not None else 0
            self.collisions = max(self.collisions, known) + 1

    def _learn_of_resize(self, uid: str, answer: Answer) -> None:
        if answer.error is None:
            self.refused_resizes.pop(uid, None)
        if answer.left is None:
            return
        means = meaning_of(answer.left).write
        if means is ForWrite.ABSENT:
            self.no_resize = self.refused_resizes[uid] = f"{NO_RESIZE}: {answer.left.message}"
        elif means is ForWrite.REFUSED:
            self.refused_resizes[uid] = answer.left.message


class DaemonSetStates:
    """The state of every DaemonSet, by uid: one that was deleted and made again starts with an empty state."""

    def __init__(self, gates: Gates = DEFAULT_GATES) -> None:
        self._by_uid: defaultdict[str, DaemonSetState] = defaultdict(lambda: DaemonSetState(gates=gates))

    def of(self, uid: str) -> DaemonSetState:
        return self._by_uid[uid]

    def forget_node(self, name: str) -> None:
        """The node is gone."""
        for state in self._by_uid.values():
            state.forget_node(name)

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
