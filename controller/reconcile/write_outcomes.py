"""How the actions of a plan ended: one `Answer` for each action that was tried. Values only.

What follows from an error for the action that got it. Decided from values only; `execute` asks the server.

Remembers the places where writes failed, and until when each is left alone: a node, the uid of an object, or what
was about to be stored. All moments are by `runtime.clock.elapsed`. Why: docs/design/decisions.md#writes.

Writes that the server accepts and that have to be made again and again.

A webhook or another controller may take a write back, or two writes of ours may undo each other. Each would be made
again as soon as that is seen, without end. Whatever the cycle, each of its writes repeats: so the same write to one
object is counted, and beyond a few in ten minutes it counts as failed, and its place is left alone for ever longer
times. The status has a count of its own in `status_writer`.
Creates of pods have `node_backoff`, because each makes another object.

The failed write that the status reports: until such writes succeed, or are not needed any more.

Remembers the result of the last dry run, and when the next one is due.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from enum import Enum, auto
from typing import Generic, TypeVar, assert_never

import msgspec

from controller.api.objects import Value
from controller.kube.errors import ApiError, Conflict, UnknownFields, WriteVerdict, classify
from controller.kube.requests import PODS, REVISIONS
from controller.planner import actions
from controller.planner.actions import (
    Action,
    CancelDelete,
    CreatePod,
    DeletePod,
    DeleteRevision,
    DrainPod,
    InDoubt,
    OnPod,
    OnRevision,
    OpenGates,
    ProbeTemplate,
)
from controller.planner.plan import Plan
from controller.planner.pod_template import unknown_field_words
from controller.planner.world import POD_QUOTA, Accepted, BackoffKey, TemplateRefused, TemplateVerdict, Unasked


class Answer(Value, gc=True):
    """How one action ended."""

    action: Action
    error: ApiError | None = None
    """The error that the server returned; None: it is done."""
    left: ApiError | None = None
    """The error because of which the action has to be tried again; None: nothing is left to do."""
    counts: bool = False
    """Whether the error counts as a failure of the place, which is left alone after several of them."""
    taken: bool = False
    """Whether the name that we derived for a new object belongs to an object of somebody else."""

    @property
    def means(self) -> WriteVerdict | None:
        """The meaning of the error for a write; None: there is no error."""
        return None if self.error is None else classify(self.error).write

    @property
    def backoff_key(self) -> BackoffKey:
        """The place where the action would fail again. A full quota has a place of its own, because it stops all
        creates."""
        return POD_QUOTA if self.is_full_quota else self.action.backoff_key

    @property
    def is_full_quota(self) -> bool:
        return isinstance(self.action, CreatePod) and self.means is WriteVerdict.QUOTA_EXCEEDED


def verdict_on_template(error: ApiError | None) -> TemplateVerdict:
    """What the answer to a dry run says about the template. A server checks last whether the name is taken, so
    AlreadyExists means that it accepts the template. A full quota means the same, because deleting the old pod makes
    room."""
    if error is None:
        return Accepted()
    if isinstance(error, UnknownFields):
        return TemplateRefused(words=unknown_field_words(error.message), unknown_fields=True)
    match classify(error).write:
        case WriteVerdict.INVALID | WriteVerdict.FORBIDDEN | WriteVerdict.MUTATED:
            return TemplateRefused(words=error.message)
        case WriteVerdict.ALREADY_EXISTS | WriteVerdict.QUOTA_EXCEEDED:
            return Accepted()
        case WriteVerdict.NOT_FOUND | WriteVerdict.CONFLICT | WriteVerdict.NAMESPACE_TERMINATING:
            return Unasked()
        case WriteVerdict.FAILED | WriteVerdict.UNAVAILABLE | WriteVerdict.UNKNOWN_OUTCOME:
            return Unasked()


class CountsAsFailure(Enum):
    """Whether an error counts as a failure of its place. A place with several in a row is held back for a while, so
    that the rest goes on."""

    NO = auto()
    YES = auto()
    UNLESS_DONE = auto()
    """It counts unless an earlier attempt, whose answer was lost, may have succeeded after all."""


class Left(Enum):
    """What an error leaves to do. Derived names and guards make every write safe to try again."""

    NOTHING = auto()
    AGAIN = auto()
    TOLD = auto()
    """Tell users, and try again."""
    IF_THERE = auto()
    """Try again if the object exists; if not, somebody was quicker."""
    IN_DOUBT = auto()
    """Ask the server what became of the write, and try again."""


def counts_after(action: Action, means: WriteVerdict, *, suspect: bool) -> CountsAsFailure:
    """`suspect`: the next inconclusive error at this place counts as a failure of the place."""
    if not means.of_the_place and not suspect:
        return CountsAsFailure.NO
    certain = means in (WriteVerdict.MUTATED, WriteVerdict.NAMESPACE_TERMINATING) or (
        means is WriteVerdict.QUOTA_EXCEEDED and isinstance(action, CreatePod)
    )
    return CountsAsFailure.UNLESS_DONE if isinstance(action, InDoubt) and not certain else CountsAsFailure.YES


def left_after(action: Action, means: WriteVerdict, *, over: bool) -> Left:
    """`over`: the DaemonSet was found to be gone or replaced."""
    if over:
        return Left.AGAIN
    if means is WriteVerdict.NOT_FOUND and isinstance(action, OnPod | OnRevision):
        return Left.IF_THERE
    if isinstance(action, ProbeTemplate) and (means.refused or means is WriteVerdict.ALREADY_EXISTS):
        return Left.NOTHING  # the refusal is the result of the dry run
    if means is WriteVerdict.NAMESPACE_TERMINATING:
        return Left.NOTHING
    if not isinstance(action, InDoubt):
        return Left.AGAIN
    if means is WriteVerdict.UNKNOWN_OUTCOME:
        return Left.IN_DOUBT
    return Left.AGAIN if means.settles_itself else Left.TOLD


K = TypeVar("K", bound=Hashable)

FAILING_FIRST = 1.0
FAILING_AT_MOST = 300.0
"""Seconds for which a place is left alone after its second failure in a row, and at most. They double in between."""
MOST_INCONCLUSIVE = 3
"""This many inconclusive errors in a row (a conflict, a busy server, no answer) count as a failure of the place,
because a webhook or a proxy can cause any of them."""
FAILING_KEPT = 10_000
"""Places that are remembered; when there are more, those that may be tried again are forgotten."""


class Failing(Value):
    """Until when a place is left alone, and how many seconds its last wait was."""

    until: float
    delay: float


class Places(msgspec.Struct, Generic[K]):
    """The places of one DaemonSet, or of one ImagePullJob, in which writes failed."""

    failing: dict[K, Failing] = msgspec.field(default_factory=dict)
    inconclusive: dict[K, int] = msgspec.field(default_factory=dict)
    """How many writes in a row at each place were answered without telling whether the place is at fault."""

    def failed(self, place: K, moment: float, at_most: float = FAILING_AT_MOST) -> None:
        """Note a failed write. After the first one the place may be tried again at once."""
        known = self.failing.get(place)
        if len(self.failing) > FAILING_KEPT:
            self.failing = {place: one for place, one in self.failing.items() if one.until > moment}
        if known is None:
            self.failing[place] = Failing(until=moment, delay=0.0)
        else:
            delay = min(max(known.delay * 2, FAILING_FIRST), at_most)
            self.failing[place] = Failing(until=moment + delay, delay=delay)

    def learn_failure(self, place: K, means: WriteVerdict, moment: float) -> bool:
        """Note a failed write by its meaning; returns whether it counts as a failure of the place."""
        counts = means.of_the_place or self.is_suspect(place)
        if not means.of_the_place:
            self.note_inconclusive(place)
        if counts:
            self.failed(place, moment)
        return counts

    def note_inconclusive(self, place: K) -> None:
        """Note an answer that does not tell whether the place is at fault."""
        if len(self.inconclusive) > FAILING_KEPT:
            self.inconclusive.clear()
        self.inconclusive[place] = self.inconclusive.get(place, 0) + 1

    def is_suspect(self, place: K) -> bool:
        """Whether the next such answer counts as a failure of the place."""
        return self.inconclusive.get(place, 0) + 1 >= MOST_INCONCLUSIVE

    def server_back(self) -> None:
        """Forget the failures of places where writes may have failed only because the server was away."""
        for place in self.inconclusive:
            self.failing.pop(place, None)
        self.inconclusive.clear()

    def went_well(self, place: K) -> None:
        """Forget the failures of a place where a write succeeded."""
        self.failing.pop(place, None)
        self.inconclusive.pop(place, None)

    def leave_alone(self, place: K, seconds: float, moment: float) -> None:
        """Try nothing there for this time, however often writes failed before."""
        self.failing[place] = Failing(until=moment + seconds, delay=seconds)

    def held_back(self, moment: float) -> dict[K, float]:
        """Places that are left alone now, and until when."""
        return {place: one.until for place, one in self.failing.items() if one.until > moment}

    def due_again(self, moment: float) -> dict[K, float]:
        """Places where writes failed that may be tried again now, and since when."""
        return {place: one.until for place, one in self.failing.items() if one.until <= moment}

    def keep(self, is_there: Callable[[K], bool]) -> None:
        """Forget the places of what is gone."""
        self.failing = {place: one for place, one in self.failing.items() if is_there(place)}
        self.inconclusive = {place: number for place, number in self.inconclusive.items() if is_there(place)}

    def clear(self) -> None:
        """Forget all failures, because the spec was edited, which may have removed their cause."""
        self.failing.clear()
        self.inconclusive.clear()


MOST = 2
"""How often the same write to one object may be made before it counts as reverted."""
SECONDS = 600.0
"""Writes that are this many seconds apart do not count as repeated. If their place is held back for longer, four
times the hold time applies instead: in a cycle, each of its writes may be held back in turn."""
KEPT = 10_000
"""Number of writes of one DaemonSet beyond which those of more than `KEPT_SECONDS` ago are forgotten."""
KEPT_SECONDS = 4 * FAILING_AT_MOST


class Reverted(Conflict):
    """A write was accepted, and its effect is gone again."""


class _Repeated(msgspec.Struct):
    times: int
    at: float
    """When it was accepted last, by `elapsed`."""


class RevertedWrites(msgspec.Struct):
    """The recent writes of one DaemonSet, of one generation. All moments by `elapsed`."""

    done: dict[tuple[type[Action], BackoffKey, str], _Repeated] = msgspec.field(default_factory=dict)
    contested: set[BackoffKey] = msgspec.field(default_factory=set)
    """Places where the last write repeated one that was taken back."""

    room: int = KEPT
    """Number of writes at which old ones are forgotten."""

    def keep(self, wanted: Callable[[BackoffKey], bool]) -> None:
        """Forget the writes at all other places."""
        self.done = {which: one for which, one in self.done.items() if wanted(which[1])}
        self.contested = {place for place in self.contested if wanted(place)}

    def forget(self) -> None:
        self.done.clear()
        self.contested.clear()

    def reverted(self, action: Action, failing: Mapping[BackoffKey, Failing], moment: float) -> ApiError | None:
        """The error to report for an accepted action that was made too often; None: it was not."""
        known = self.done.get(_which(action))
        if known is None or known.times < MOST or not _is_recent(known, action, failing, moment):
            return None
        words = (
            "it is accepted each time, and taken back by a webhook or by another controller, "
            "or undone by another part of the spec"
        )
        match action:
            case OnPod():
                return Reverted(
                    "delete" if isinstance(action, DeletePod) else "patch", PODS.describe(action.pod), words
                )
            case OnRevision():
                verb = "delete" if isinstance(action, DeleteRevision) else "patch"
                return Reverted(verb, REVISIONS.describe(action.revision), words)
            case _:
                return Reverted("create", f"{REVISIONS.name} {action.name}", words)

    def learn(self, answer: Answer, failing: Mapping[BackoffKey, Failing], moment: float) -> None:
        """Count a write that was accepted. What only makes up for a failed write is not counted: the writes that fail
        have their own back-off. A gate that has to be opened again shows that closing it was not taken back."""
        action = answer.action
        if isinstance(action, CreatePod | ProbeTemplate) or not (
            answer.error is None or isinstance(answer.error, Reverted)
        ):
            return
        if (
            isinstance(action, CancelDelete | OpenGates)
            and (place := BackoffKey.of_object(action.pod.uid)) in failing
        ):
            if isinstance(action, OpenGates):
                self.done.pop((DrainPod, place, ""), None)
            return
        if len(self.done) >= self.room:
            self.done = {which: one for which, one in self.done.items() if moment - one.at <= KEPT_SECONDS}
            self.room = max(KEPT, 2 * len(self.done))
        known = self.done.get(which := _which(action))
        recent = known is not None and _is_recent(known, action, failing, moment)
        self.done[which] = _Repeated(times=known.times + 1 if known is not None and recent else 1, at=moment)
        (self.contested.discard if answer.error is None else self.contested.add)(answer.backoff_key)


def _which(action: Action) -> tuple[type[Action], BackoffKey, str]:
    return type(action), action.backoff_key, action.variant if isinstance(action, OnPod) else ""


def _is_recent(known: _Repeated, action: Action, failing: Mapping[BackoffKey, Failing], moment: float) -> bool:
    alone = failing[action.backoff_key].delay if action.backoff_key in failing else 0.0
    return moment - known.at <= max(SECONDS, 4 * alone)


class WriteFailure(Value):
    words: str
    """The server's message."""
    gist: str
    """`words` without the object's name. Failures are compared by it, because the message differs for each pod only
    in the name."""
    kind: type[actions.Action]


def failure_after(
    before: WriteFailure | None, decided: Plan, answers: Sequence[Answer], failing: Container[BackoffKey]
) -> WriteFailure | None:
    """The failure to report after a pass: the first one of this pass, or else the previous one unless that is over.
    `failing` are the places where writes have failed.

    A pass that tried nothing of the kind proves nothing: a back-off may have kept it from trying. The words stay
    while only the name in them would change; each change would be written.
    """
    failures = [(one.action, one.left) for one in answers if one.left is not None]
    lasting = [
        (action, error)
        for action, error in failures
        if not classify(error).write.settles_itself or action.backoff_key in failing
    ]
    if lasting:
        action, error = lasting[0]
        words = str(error)
        told = WriteFailure(words=words, gist=words.replace(action.name, ""), kind=type(action))
        same = before is not None and (before.kind, before.gist) == (told.kind, told.gist)
        return before if same else told
    if before is None or decided.all_written:
        return None
    went_through = {type(one.action) for one in answers} - {type(action) for action, _ in failures}
    return None if before.kind in went_through and not decided.withheld else before


ASK_AGAIN_SECONDS = 60.0
ASK_AGAIN_AT_MOST = 900.0
"""Seconds until a refused template is tried again, at first and at most. They double in between: policies change
without any event for us."""
TRUSTED_SECONDS = 60.0
"""Seconds for which the server's acceptance of a template is trusted, for the same reason."""


class Verdicts(msgspec.Struct):
    """The verdict on the newest revision of one DaemonSet."""

    hash: str = ""
    """The hash of the revision that was asked about last."""
    verdict: Accepted | TemplateRefused | None = None
    accepted_at: float = 0.0
    """When the server accepted a pod of it last (`elapsed`)."""
    ask_at: float = 0.0
    """When a refused revision is tried again (`elapsed`)."""
    refusals: int = 0
    """How many dry runs in a row were refused. Each doubles the time until the next one."""
    asked: int = 0
    """How many dry runs in a row failed for any reason. Each next one tries the pod of another node."""

    def known(self, moment: float) -> Mapping[str, Accepted | TemplateRefused]:
        """The verdict at `moment` by hash of the revision; empty without one, or when it is trusted no longer."""
        if self.verdict is None:
            return {}
        expired = isinstance(self.verdict, Accepted) and moment >= self.accepted_at + TRUSTED_SECONDS
        return {} if expired else {self.hash: self.verdict}

    def ask_anew(self) -> None:
        """Have the server asked again, because the spec was edited: that may have removed the cause of a refusal."""
        self.ask_at, self.refusals, self.asked = 0.0, 0, 0
        if isinstance(self.verdict, Accepted):
            self.verdict = None

    def created(self, revision_hash: str, moment: float) -> None:
        """Note that a pod was created, which says the same as another dry run of an accepted revision."""
        if revision_hash == self.hash and isinstance(self.verdict, Accepted):
            self.accepted_at = moment

    def learn(self, revision_hash: str, error: ApiError | None, moment: float) -> None:
        """Note the answer to a dry run: `error`, or None if it was accepted. The first denial is no verdict yet,
        because the cause may be the node of that pod."""
        verdict = verdict_on_template(error)
        if revision_hash != self.hash:
            self.hash, self.verdict = revision_hash, None
        self.asked += 1
        match verdict:
            case Accepted():
                self.verdict, self.accepted_at = verdict, moment
                self.refusals = self.asked = 0
            case TemplateRefused():
                if moment > self.ask_at - ASK_AGAIN_SECONDS / 2:  # else several creates were refused at once
                    self.refusals += 1
                told = self.refusals - (error is not None and classify(error).write is WriteVerdict.FORBIDDEN)
                if told > 0:
                    self.verdict = verdict
                    self.ask_at = moment + min(ASK_AGAIN_SECONDS * 2 ** min(told - 1, 9), ASK_AGAIN_AT_MOST)
            case Unasked():
                pass
            case _:
                assert_never(verdict)
