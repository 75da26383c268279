"""What goes wrong, as data: which requests a rule means, and what happens to them.

    FaultPlan(
        Rule(verb="create", resource="pods", percentage=10, effect=Answer(429, retry_after=1)),
        Rule(verb="delete", resource="pods", nth=(2,), effect=LoseAnswer()),
        Rule(verb="watch", resource="pods", effect=LateWatch(seconds=3)),
    )

The first rule that fits decides. `plan.check()` at the end of a test fails when a rule was never needed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from tests.beds.simulator.route import Route


@dataclass(frozen=True)
class Answer:
    """Nothing is done, and this is the answer. `retry_after` in seconds."""

    status: int
    reason: str = ""
    message: str = "injected fault"
    retry_after: float | None = None


@dataclass(frozen=True)
class Warn:
    """It is done, and the answer has this `Warning` header; `{name}` in it is the name of the object."""

    header: str


@dataclass(frozen=True)
class NoConnection:
    """The connection is refused: the client knows that nothing was done."""


@dataclass(frozen=True)
class LoseRequest:
    """The connection breaks and nothing is done."""


@dataclass(frozen=True)
class LateRequest:
    """The connection breaks, and what was asked for is done `seconds` later."""

    seconds: float


@dataclass(frozen=True)
class LoseAnswer:
    """It is done, then the connection breaks. `status` instead answers with that code, as a proxy would."""

    status: int = 0


@dataclass(frozen=True)
class Hang:
    """No answer for `seconds` (None: ever), then an ordinary one. `done`: it is done at the start of the wait."""

    seconds: float | None = None
    done: bool = False


@dataclass(frozen=True)
class StaleList:
    """The list is as it was `seconds` ago, as from a server whose cache lags."""

    seconds: float


@dataclass(frozen=True)
class LateWatch:
    """Every event of the watch arrives that much later."""

    seconds: float


@dataclass(frozen=True)
class LateBookmark:
    """Every bunch of events with a bookmark arrives that much later, and whatever comes after it waits behind it."""

    seconds: float


@dataclass(frozen=True)
class CutLine:
    """After `events` events the next one is cut in the middle and the connection breaks."""

    events: int = 0


@dataclass(frozen=True)
class CloseWatch:
    """After `events` events the server ends the watch, properly or, with `reset`, by breaking the connection."""

    events: int = 0
    reset: bool = False


@dataclass(frozen=True)
class CutIdle:
    """The connection breaks after `seconds` without a byte, as behind a load balancer."""

    seconds: float


@dataclass(frozen=True)
class ErrorEvent:
    """After `events` events comes an ERROR event, 410 unless told otherwise."""

    events: int = 0
    status: int = 410
    reason: str = "Expired"
    message: str = "injected fault"


Effect: TypeAlias = (
    Answer
    | Warn
    | NoConnection
    | LoseRequest
    | LateRequest
    | LoseAnswer
    | Hang
    | StaleList
    | LateWatch
    | LateBookmark
    | CutLine
    | CloseWatch
    | CutIdle
    | ErrorEvent
)


@dataclass(frozen=True)
class Rule:
    """Which requests, by patterns as in file names, and which of those, and what happens to them."""

    effect: Effect
    verb: str = "*"
    """get, list, watch, create, update, patch, delete, deletecollection, or several with commas."""
    resource: str = "*"
    """`pods`, `pods/status`, `daemonsets.apps.kruise.io`; `pods*` means both of the first two."""
    namespace: str = "*"
    name: str = "*"
    """Name in the path; creates have none."""
    nth: tuple[int, ...] = ()
    """Only the first, third … of the requests that fit, counted from 1."""
    percentage: float = 100.0
    times: int | None = None
    """At most that often."""

    def fits(self, route: Route) -> bool:
        return (
            any(fnmatchcase(route.verb, verb) for verb in self.verb.split(","))
            and fnmatchcase(route.resource, self.resource)
            and fnmatchcase(route.namespace, self.namespace)
            and fnmatchcase(route.name, self.name)
        )


@dataclass
class _Account:
    rule: Rule
    fitted: int = 0
    fired: int = 0


class FaultPlan:
    """Rules and what they have done so far. Deterministic for an order of requests."""

    def __init__(self, *rules: Rule) -> None:
        self._accounts = [_Account(rule) for rule in rules]
        self._random = random.Random(0)

    def add(self, rule: Rule) -> None:
        self._accounts.append(_Account(rule))

    def add_first(self, rule: Rule) -> None:
        """It decides before all others."""
        self._accounts.insert(0, _Account(rule))

    def remove(self, rule: Rule) -> None:
        """The trouble is over."""
        self._accounts = [account for account in self._accounts if account.rule is not rule]

    def fired(self, rule: Rule) -> int:
        """How often `rule` has decided."""
        return next((account.fired for account in self._accounts if account.rule is rule), 0)

    def check(self) -> None:
        """Raises AssertionError for rules that never fired: the test did not test what it says."""
        idle = [str(account.rule) for account in self._accounts if not account.fired]
        if idle:
            raise AssertionError(f"faults that never happened: {'; '.join(idle)}")

    def effect_on(self, route: Route) -> Effect | None:
        """What happens to this request; None: nothing special."""
        for account in self._accounts:
            if account.rule.fits(route) and self._is_hit(account):
                account.fired += 1
                return account.rule.effect
        return None

    def _is_hit(self, account: _Account) -> bool:
        rule = account.rule
        account.fitted += 1
        if rule.times is not None and account.fired >= rule.times:
            return False
        if rule.nth and account.fitted not in rule.nth:
            return False
        return rule.percentage >= 100 or self._random.random() * 100 < rule.percentage
