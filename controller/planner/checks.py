"""The checks of a step (`rollingUpdate.checks`): expressions for Prometheus that return no series while all is well.

Only a recent answer counts. A check without one holds the rollout, and never aborts it. A step ends once each check
has passed by an answer to a query that was sent after the soak.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from controller.api.daemonset import Check, CheckRecord, CheckState, Rollout
from controller.api.formats import LONGEST_ITEM, truncated
from controller.api.objects import Value, epoch, rfc3339

INTERVAL: Final = 30.0
"""Seconds between two evaluations."""
ANSWER_SECONDS: Final = 10.0
"""Seconds that an answer may take. The checks of one DaemonSet are evaluated one after the other."""
VARIABLES: Final = ("namespace", "name", "revision", "pods")
NO_POD: Final = "-"
"""The value of `$pods` while there are none. No pod has this name; an empty value would match series without the
label."""
_VARIABLE: Final = re.compile(r"\$(?:\$|\{|[A-Za-z_][A-Za-z0-9_]*)")


def fresh_seconds(checks: int) -> float:
    """Seconds for which an answer counts: two intervals, and the longest time that the next answers may take."""
    return 2 * INTERVAL + ANSWER_SECONDS * checks


class CheckResult(Value):
    """The last answers to one check. Times are in seconds since 1970, by a clock that does not jump."""

    sent_at: float = -inf
    """When the last answered query was sent; `-inf` if none was."""
    series: str = ""
    """The series that it returned, shortened; empty if none, so that the check passes."""
    since: float = inf
    """Since when all answers have had series; `inf` if the last had none."""
    problem: str = ""
    """Why a later query has no answer; empty if all are answered."""


class CheckNow(Value):
    """The state of a check in this pass."""

    name: str
    state: CheckState | None = None
    """None if it passes."""
    since: float = inf
    """Since when it fails; `inf` if it does not."""
    message: str = ""
    sent_at: float = inf
    """When the query of the last answer was sent; `inf` if this process does not evaluate checks."""
    stamp: str | None = None
    """The time for the status; None if the first answer is awaited, and nothing is written."""
    is_answered: bool = False
    """Whether this is by a recent answer."""

    def passes_from(self, moment: float | None) -> bool:
        """Whether it passes, by a query sent at `moment` or later if that is not None."""
        return self.state is None and (moment is None or self.sent_at >= moment)


def checks_now(
    checks: Sequence[Check], results: Mapping[str, CheckResult] | None, record: Rollout, now: float
) -> tuple[CheckNow, ...]:
    """The states of `checks`. A check without a first answer has the state in `record`, and holds the rollout in any
    case. `results`: None if this process does not evaluate checks."""
    before = {check.name: check for check in record.checks or ()}
    known = {check.name: None if results is None else results.get(check.name, CheckResult()) for check in checks}
    oldest = now - fresh_seconds(len(checks))
    return tuple([_now(name, answer, before.get(name), oldest, now) for name, answer in known.items()])


def _now(name: str, answer: CheckResult | None, before: CheckRecord | None, oldest: float, now: float) -> CheckNow:
    if answer is not None and answer.sent_at >= oldest:
        if not answer.series:
            return CheckNow(name=name, sent_at=answer.sent_at, is_answered=True)
        same = before if before is not None and before.state == CheckState.FAILING else None
        return CheckNow(
            name=name,
            state=CheckState.FAILING,
            since=answer.since,
            message=answer.series if same is None else same.message,
            sent_at=answer.sent_at,
            stamp=rfc3339(answer.since) if same is None else same.since,
            is_answered=True,
        )
    if answer is not None and (answer.problem or answer.sent_at > -inf):
        same = before if before is not None and before.state == CheckState.UNANSWERED else None
        return CheckNow(
            name=name,
            state=CheckState.UNANSWERED,
            message=answer.problem or "the last answer is too old",
            stamp=rfc3339(now) if same is None else same.since,
        )
    if before is not None:
        state = CheckState.FAILING if before.state == CheckState.FAILING else CheckState.UNANSWERED
        since = epoch(before.since) or now
        return CheckNow(name=name, state=state, since=since, message=before.message, stamp=before.since)
    return CheckNow(name=name, state=None if answer is None else CheckState.UNANSWERED)


def recorded(checks: Iterable[CheckNow]) -> tuple[CheckRecord, ...]:
    """The checks for the status: those that do not pass, except those without a first answer."""
    return tuple(
        CheckRecord(
            name=check.name, state=check.state, since=check.stamp, message=truncated(check.message, LONGEST_ITEM)
        )
        for check in checks
        if check.state is not None and check.stamp is not None
    )


def is_unanswered(records: Iterable[CheckRecord]) -> bool:
    return any(record.state == CheckState.UNANSWERED for record in records)


def words_of(record: CheckRecord) -> str:
    """Such as `check errors fails: {pod="agent-x"} 12`."""
    return f"check {record.name} {words_of_state(record.state)}: {record.message}"


def words_of_state(state: str) -> str:
    return "fails" if state == CheckState.FAILING else "has no answer"


class CheckRequest(Value):
    """What the checks of the open step are evaluated for."""

    checks: tuple[Check, ...]
    revision: str
    pods: tuple[str, ...]
    """The names of the pods of that revision."""
    checked_from: float | None
    """The end of the soak, after which one more answer is needed (seconds since 1970); None if the step is not
    reached."""

    def query(self, check: Check, namespace: str, name: str) -> str:
        """The query with its variables replaced. `$pods` needs no escaping in a PromQL string."""
        pods = f"(?:{'|'.join(pod.replace('.', '[.]') for pod in self.pods)})" if self.pods else NO_POD
        values = {"$$": "$", "$namespace": namespace, "$name": name, "$revision": self.revision, "$pods": pods}
        return _VARIABLE.sub(lambda found: values.get(found[0], found[0]), check.query)


def query_problem(query: str) -> str:
    """What is wrong with the variables of a query; empty if nothing is."""
    unknown = next(
        (variable for variable in _VARIABLE.findall(query) if variable != "$$" and variable[1:] not in VARIABLES),
        None,
    )
    if unknown is None:
        return ""
    known = ", ".join(f"${variable}" for variable in VARIABLES)
    return f"{unknown} is not one of {known}; write $$ for a dollar sign"
