"""What may go wrong between the controller and the server, by name, and how often each has happened."""

from __future__ import annotations

from collections import Counter

from tests.beds.simulator.cluster import Attempt, Cluster
from tests.beds.simulator.faults import (
    Answer,
    CloseWatch,
    CutIdle,
    ErrorEvent,
    FaultPlan,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    Rule,
)
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.refusal import forbidden
from tests.properties.rollout_chronicle import KINDS

IDLE_CUTS = "idle watches are cut"
NO_REVISIONS = "a quota of revisions"
QUOTA = "a quota of pods"
CLOCK_SET_BACK = "the clock set back"
REVERT = "a revert under a partition"
PLACEMENT = "a template with another placement"
RELEASE = "a pod that a hook has let go"
DOWN = Answer(500, reason="InternalError", message='failed calling webhook "policy.example.com": no endpoints')
WORDS = 'controllerrevisions.apps "x" is forbidden: exceeded quota: objects, used: count/controllerrevisions.apps=1'
COUNTED = Answer(403, reason="Forbidden", message=WORDS)
TROUBLES = {
    "late watches": Rule(verb="watch", effect=LateWatch(seconds=3)),
    "very late pods": Rule(verb="watch", resource="pods", effect=LateWatch(seconds=20)),
    "late nodes": Rule(verb="watch", resource="nodes", effect=LateWatch(seconds=5)),
    "late daemonset": Rule(verb="watch", resource="daemonsets.apps.kruise.io", effect=LateWatch(seconds=5)),
    "closing watches": Rule(verb="watch", effect=CloseWatch(events=2, reset=True)),
    "expiring watches": Rule(verb="watch", effect=ErrorEvent(events=1)),
    IDLE_CUTS: Rule(verb="watch", effect=CutIdle(seconds=3)),
    "creates without answers": Rule(verb="create", resource="pods", effect=LoseAnswer(), times=3),
    "deletes without answers": Rule(verb="delete", resource="pods", effect=LoseAnswer(), times=3),
    "lost requests": Rule(verb="create,delete", resource="pods", effect=LoseRequest(), times=3),
    "conflicts": Rule(verb="patch,delete", effect=Answer(409), times=3),
    "errors": Rule(verb="create,delete,patch", effect=Answer(500), times=3),
    "too many requests": Rule(verb="create,delete", effect=Answer(429, retry_after=2), times=3),
    "lost revision": Rule(verb="create", resource="controllerrevisions.apps", effect=LoseAnswer(), times=1),
    "no webhook for new pods": Rule(verb="create", resource="pods", effect=DOWN),
    "no webhook for pods that change or go": Rule(verb="patch,delete", resource="pods", effect=DOWN),
    NO_REVISIONS: Rule(verb="create", resource="controllerrevisions.apps", effect=COUNTED),
}
WATCH_TROUBLES = [what for what, rule in TROUBLES.items() if rule.verb == "watch"]
WRITE_TROUBLES = [what for what, rule in TROUBLES.items() if rule.verb != "watch" and rule.times]
REFUSALS = [what for what, rule in TROUBLES.items() if rule.verb != "watch" and not rule.times]
"""Until somebody mends them."""

happened: Counter[str] = Counter()
"""By name, in this process: each trouble that a request has met, and moves that are no fault of the server."""


def account(what: str, rule: Rule, faults: FaultPlan) -> None:
    """The trouble is over: how often it has happened."""
    opened = len(KINDS) if what == IDLE_CUTS else 0  # each was opened once without having been cut
    happened[what] += max(faults.fired(rule) - opened, 0)


class Quota:
    """So many pods and no more, by whoever they are made."""

    def __init__(self, cluster: Cluster, most: int) -> None:
        self._cluster, self._most = cluster, most
        cluster.admission.append(self._admit)

    def lift(self) -> None:
        self._cluster.admission.remove(self._admit)

    def _admit(self, attempt: Attempt) -> None:
        new = attempt.kind is PODS and attempt.verb == "create"
        if new and len(self._cluster.store.objects[PODS]) >= self._most:
            happened[QUOTA] += 1
            raise forbidden(PODS, attempt.name, "exceeded quota: pods")
