"""What follows from the answer to a write (`WRITE_OUTCOMES`): whether and when it is tried again, and what the status
and later passes know of it. A retried action is decided anew by the next pass, after the queue key's growing delay.
From its second counted failure on, its backoff key is in back-off (`reconcile.backoff`)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias, TypeGuard, assert_never, get_args

import msgspec

from controller.api.objects import Value
from controller.kube.errors import ApiError, Conflict, UnknownFields, WriteVerdict, classify
from controller.kube.requests import PODS, REVISIONS
from controller.planner import actions
from controller.planner.plan import Plan
from controller.planner.pod_template import unknown_field_words
from controller.planner.world import POD_QUOTA, Accepted, BackoffKey, TemplateRefused, TemplateVerdict, Unasked
from controller.reconcile.backoff import MOST_REPEATS, Delay, RepeatedWrites


class RetryDecision(Enum):
    """What happens to an action after an error. Derived names and guards make every write safe to repeat."""

    NONE = auto()
    RETRY = auto()
    REPORT = auto()
    """Record an event, and retry."""
    IF_PRESENT = auto()
    """Retry if the server still has the object; otherwise the action is done."""
    CHECK = auto()
    """Look up the outcome on the server, and retry."""


LONGEST_QUOTA_DELAY = 30.0
"""The most seconds until creates are retried after a full quota; no event reports that it was raised."""
TERMINATING_SECONDS = 30.0
"""Seconds of back-off while the namespace is terminating: the DaemonSet will be deleted too."""
PENDING_SECONDS = 30.0
"""Seconds for which a write with a lost answer may still be done: no server or proxy holds a request for longer."""


class WriteOutcome(Value):
    retry: RetryDecision
    """For an action that may make a node unavailable or give it a pod (`actions.InDoubt`)."""
    template: Accepted | Unasked | None
    """What the answer to a dry run says about the template; None if it is refused."""
    counts: bool = False
    """Whether a single error counts as a failure of the backoff key, because its node or object is the cause. Other
    errors count from the third in a row on."""
    hold: float = 0.0
    """Seconds of back-off instead of the growing delay; 0 for the growing delay."""
    never_done: tuple[type[actions.InDoubt], ...] = ()
    """The actions of which no earlier attempt with a lost answer can have succeeded."""
    pending: float = 0.0
    """Seconds for which the write may still be done; 0 if that is decided."""
    reuse_name: bool | None = None
    """Whether the next pod on the node gets the name of this create; None: as before."""
    report_create: bool = True
    """Whether an event reports that an ImagePullJob or its puller was not created."""
    pauses_creates: bool = True
    """Whether an ImagePullJob pauses all creates after one that was not refused."""


_REPORT, _RETRY = RetryDecision.REPORT, RetryDecision.RETRY
_ALL = get_args(actions.InDoubt)
WRITE_OUTCOMES: Final[Mapping[WriteVerdict | None, WriteOutcome]] = {
    None: WriteOutcome(retry=RetryDecision.NONE, template=Accepted(), reuse_name=False),
    WriteVerdict.NOT_FOUND: WriteOutcome(retry=_REPORT, template=Unasked()),
    # our own pod that the cache does not show yet, or another object: then the next name is tried. To a dry run it
    # says that all else was accepted, because the name is checked last
    WriteVerdict.ALREADY_EXISTS: WriteOutcome(
        retry=_RETRY, template=Accepted(), reuse_name=False, pauses_creates=False
    ),
    # the object has changed, or another one has its name: the next pass decides from what is there
    WriteVerdict.CONFLICT: WriteOutcome(retry=_RETRY, template=Unasked()),
    WriteVerdict.INVALID: WriteOutcome(retry=_REPORT, template=None, counts=True),
    WriteVerdict.UNKNOWN_FIELDS: WriteOutcome(retry=_REPORT, template=None),
    WriteVerdict.FORBIDDEN: WriteOutcome(retry=_REPORT, template=None, counts=True),
    WriteVerdict.MUTATED: WriteOutcome(retry=_REPORT, template=None, counts=True, never_done=_ALL, reuse_name=False),
    WriteVerdict.NAMESPACE_TERMINATING: WriteOutcome(
        retry=RetryDecision.NONE,
        template=Unasked(),
        counts=True,
        hold=TERMINATING_SECONDS,
        never_done=_ALL,
        report_create=False,
    ),
    # to a dry run it says that the template is accepted, because deleting the old pod makes room
    WriteVerdict.QUOTA_EXCEEDED: WriteOutcome(
        retry=_REPORT, template=Accepted(), counts=True, never_done=(actions.CreatePod,)
    ),
    WriteVerdict.FAILED: WriteOutcome(retry=_REPORT, template=Unasked(), counts=True),
    WriteVerdict.UNAVAILABLE: WriteOutcome(retry=_REPORT, template=Unasked()),
    WriteVerdict.UNKNOWN_OUTCOME: WriteOutcome(
        retry=RetryDecision.CHECK, template=Unasked(), pending=PENDING_SECONDS, reuse_name=True
    ),
}
"""By verdict; None for a write that was done. Exceptions are in `retry_decision` and `ActionResult.is_full_quota`."""


def retry_decision(action: actions.Action, verdict: WriteVerdict, *, owner_gone: bool) -> RetryDecision:
    """What happens to the action. `owner_gone`: the DaemonSet was found to be gone or replaced."""
    if owner_gone:
        return RetryDecision.RETRY
    if verdict is WriteVerdict.NOT_FOUND and isinstance(action, actions.OnPod | actions.OnRevision):
        return RetryDecision.IF_PRESENT
    outcome = WRITE_OUTCOMES[verdict]
    if isinstance(action, actions.ProbeTemplate) and not isinstance(outcome.template, Unasked):
        return RetryDecision.NONE  # the dry run has its result
    is_final = isinstance(action, actions.InDoubt) or outcome.retry is RetryDecision.NONE
    return outcome.retry if is_final else RetryDecision.RETRY


def may_be_done(action: actions.Action, verdict: WriteVerdict) -> TypeGuard[actions.InDoubt]:
    """Whether an earlier attempt with a lost answer may have succeeded, in spite of this error."""
    return isinstance(action, actions.InDoubt) and not isinstance(action, WRITE_OUTCOMES[verdict].never_done)


def message_of(error: ApiError) -> str:
    """The server's message for users."""
    return unknown_field_words(error.message) if isinstance(error, UnknownFields) else error.message


def outcome_of(error: ApiError | None) -> WriteOutcome:
    return WRITE_OUTCOMES[None if error is None else classify(error).write]


def verdict_on_template(error: ApiError | None) -> TemplateVerdict:
    verdict = outcome_of(error).template
    if verdict is not None:
        return verdict
    assert error is not None
    return TemplateRefused(message=message_of(error), unknown_fields=isinstance(error, UnknownFields))


class ActionResult(Value, gc=True):
    action: actions.Action
    error: ApiError | None = None
    """The server's error; None if the action is done."""
    retry_error: ApiError | None = None
    """The error because of which the action is retried, if it is."""
    counts: bool = False
    """Whether the error counts as a failure of the backoff key."""
    name_taken: bool = False
    """Whether the derived name belongs to a foreign object."""

    @property
    def verdict(self) -> WriteVerdict | None:
        return None if self.error is None else classify(self.error).write

    @property
    def outcome(self) -> WriteOutcome:
        return outcome_of(self.error)

    @property
    def backoff_key(self) -> BackoffKey:
        """The action's key, or `POD_QUOTA` for a full quota, which stops all creates."""
        return POD_QUOTA if self.is_full_quota else self.action.backoff_key

    @property
    def is_full_quota(self) -> bool:
        return isinstance(self.action, actions.CreatePod) and self.verdict is WriteVerdict.QUOTA_EXCEEDED


class Reverted(Conflict):
    """A write was accepted, and its effect is gone again."""


RepeatedAction: TypeAlias = tuple[type[actions.Action], BackoffKey, str]


class RevertedWrites(RepeatedWrites[RepeatedAction]):
    """Accepted writes by kind, object and content; not creates of pods, each of which makes another object."""

    reverted_externally: set[BackoffKey] = msgspec.field(default_factory=set)
    """Backoff keys whose last write repeated a reverted one."""

    def keep_keys(self, wanted: Callable[[BackoffKey], bool]) -> None:
        self.keep(lambda write: wanted(write[1]))
        self.reverted_externally = {key for key in self.reverted_externally if wanted(key)}

    def forget(self) -> None:
        self.accepted.clear()
        self.reverted_externally.clear()

    def reverted(self, action: actions.Action, failing: Mapping[BackoffKey, Delay], moment: float) -> ApiError | None:
        """The error for an accepted action that was made too often, or None."""
        if self.times(_write(action), moment, _delay(failing, action)) < MOST_REPEATS:
            return None
        words = (
            "it is accepted each time, and taken back by a webhook or by another controller, "
            "or undone by another part of the spec"
        )
        match action:
            case actions.OnPod():
                verb = "delete" if isinstance(action, actions.DeletePod) else "patch"
                return Reverted(verb, PODS.describe(action.pod), words)
            case actions.OnRevision():
                verb = "delete" if isinstance(action, actions.DeleteRevision) else "patch"
                return Reverted(verb, REVISIONS.describe(action.revision), words)
            case _:
                return Reverted("create", f"{REVISIONS.name} {action.name}", words)

    def learn(self, result: ActionResult, failing: Mapping[BackoffKey, Delay], moment: float) -> None:
        """Counts an accepted write, unless it reverts a failed one. If a gate has to be opened, its closing was not
        reverted, and is no longer counted."""
        action = result.action
        accepted = result.error is None or isinstance(result.error, Reverted)
        if not accepted or isinstance(action, actions.CreatePod | actions.ProbeTemplate):
            return
        if (
            isinstance(action, actions.CancelDelete | actions.OpenGates)
            and (key := BackoffKey("object", action.pod.uid)) in failing
        ):
            if isinstance(action, actions.OpenGates):
                self.accepted.pop((actions.DrainPod, key, ""), None)
            return
        self.record(_write(action), moment, _delay(failing, action))
        change = self.reverted_externally.discard if result.error is None else self.reverted_externally.add
        change(result.backoff_key)


def _write(action: actions.Action) -> RepeatedAction:
    return type(action), action.backoff_key, action.variant if isinstance(action, actions.OnPod) else ""


def _delay(failing: Mapping[BackoffKey, Delay], action: actions.Action) -> float:
    return failing[action.backoff_key].delay if action.backoff_key in failing else 0.0


class WriteFailure(Value):
    message: str
    without_name: str
    """`message` without the object's name, for comparing failures of different pods."""
    kind: type[actions.Action]


def failure_after(
    before: WriteFailure | None, decided: Plan, results: Sequence[ActionResult], failing: Container[BackoffKey]
) -> WriteFailure | None:
    """The failure to report after a pass: the first of the pass, else the previous one unless it is over. The
    previous one stays if the pass did not try this kind of write, or if only the object's name would change."""
    failures = [(result.action, result.retry_error) for result in results if result.retry_error is not None]
    lasting = [
        (action, error)
        for action, error in failures
        if not classify(error).write.is_transient or action.backoff_key in failing
    ]
    if lasting:
        action, error = lasting[0]
        message = str(error)
        failure = WriteFailure(message=message, without_name=message.replace(action.name, ""), kind=type(action))
        same = before is not None and (before.kind, before.without_name) == (failure.kind, failure.without_name)
        return before if same else failure
    if before is None or decided.all_written:
        return None
    went_through = {type(result.action) for result in results} - {type(action) for action, _ in failures}
    return None if before.kind in went_through and not decided.withheld else before


DRY_RUN_RETRY_SECONDS = 60.0
LONGEST_DRY_RUN_DELAY = 900.0
"""First and longest seconds until a refused template is tried again: policies change without an event."""
TRUSTED_SECONDS = 60.0
"""Seconds for which an accepted template is trusted, for the same reason."""


class TemplateVerdicts(msgspec.Struct):
    """The verdict on the newest revision of one DaemonSet."""

    hash: str = ""
    """The hash of the revision last asked about."""
    verdict: Accepted | TemplateRefused | None = None
    accepted_at: float = 0.0
    """When the server last accepted a pod of it (`elapsed`)."""
    retry_dry_run_at: float = 0.0
    """When a refused revision is tried again (`elapsed`)."""
    refusals: int = 0
    """Refused dry runs in a row. Each doubles the time until the next."""
    failed_dry_runs: int = 0
    """Failed dry runs in a row, for any reason. The next one tries the pod of another node."""

    def known(self, moment: float) -> Mapping[str, Accepted | TemplateRefused]:
        """The verdict at `moment` by revision hash; empty without one that is still trusted."""
        if self.verdict is None:
            return {}
        expired = isinstance(self.verdict, Accepted) and moment >= self.accepted_at + TRUSTED_SECONDS
        return {} if expired else {self.hash: self.verdict}

    def reset(self) -> None:
        """Makes the next pass ask again, because an edit of the spec may have removed the cause of a refusal."""
        self.retry_dry_run_at, self.refusals, self.failed_dry_runs = 0.0, 0, 0
        if isinstance(self.verdict, Accepted):
            self.verdict = None

    def created(self, revision_hash: str, moment: float) -> None:
        """Records a created pod, which confirms an accepted revision like a dry run."""
        if revision_hash == self.hash and isinstance(self.verdict, Accepted):
            self.accepted_at = moment

    def learn(self, revision_hash: str, error: ApiError | None, moment: float) -> None:
        """Records the answer to a dry run. The first denial is not yet a verdict: its node may be the cause."""
        verdict = verdict_on_template(error)
        if revision_hash != self.hash:
            self.hash, self.verdict = revision_hash, None
        self.failed_dry_runs += 1
        match verdict:
            case Accepted():
                self.verdict, self.accepted_at = verdict, moment
                self.refusals = self.failed_dry_runs = 0
            case TemplateRefused():
                # before that, another create of the same pass was refused
                if moment > self.retry_dry_run_at - DRY_RUN_RETRY_SECONDS / 2:
                    self.refusals += 1
                count = self.refusals - (error is not None and classify(error).write is WriteVerdict.FORBIDDEN)
                if count > 0:
                    self.verdict = verdict
                    delay = min(DRY_RUN_RETRY_SECONDS * 2 ** min(count - 1, 9), LONGEST_DRY_RUN_DELAY)
                    self.retry_dry_run_at = moment + delay
            case Unasked():
                pass
            case _:
                assert_never(verdict)
