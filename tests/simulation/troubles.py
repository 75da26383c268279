"""What may go wrong between a process and the server, by name; quotas and webhooks."""

from __future__ import annotations

from collections import Counter

from tests.beds.simulator.cluster import Attempt, Cluster
from tests.beds.simulator.faults import (
    Answer,
    CloseWatch,
    CutIdle,
    CutLine,
    Effect,
    ErrorEvent,
    Hang,
    LateBookmark,
    LateRequest,
    LateWatch,
    LoseAnswer,
    LoseRequest,
    NoConnection,
    Rule,
    StaleList,
)
from tests.beds.simulator.kinds import PODS
from tests.beds.simulator.refusal import forbidden

IDLE_CUTS = "watch: cut when idle"
STALE = "list: stale"
DOWN = Answer(500, reason="InternalError", message='failed calling webhook "policy.example.com": no endpoints')
WORDS = 'controllerrevisions.apps "x" is forbidden: exceeded quota: objects, used: count/controllerrevisions.apps=1'
COUNTED = Answer(403, reason="Forbidden", message=WORDS)
_DAEMONSETS, _REVISIONS, _LEASES = (
    "daemonsets.apps.kruise.io",
    "controllerrevisions.apps",
    "leases.coordination.k8s.io",
)
_ALL = "create,delete,patch"

ON_WATCHES = {
    "watch: late": Rule(LateWatch(3), "watch"),
    "watch: reordered, pods 20 s late": Rule(LateWatch(20), "watch", "pods"),
    "watch: reordered, nodes 5 s late": Rule(LateWatch(5), "watch", "nodes"),
    "watch: reordered, DaemonSet 5 s late": Rule(LateWatch(5), "watch", _DAEMONSETS),
    "watch: reordered, revisions 5 s late": Rule(LateWatch(5), "watch", _REVISIONS),
    "watch: stalled": Rule(LateWatch(3600), "watch", times=3),
    "watch: closed": Rule(CloseWatch(events=1), "watch"),
    "watch: connection reset": Rule(CloseWatch(events=2, reset=True), "watch"),
    "watch: truncated": Rule(CutLine(events=1), "watch"),
    "watch: 410": Rule(ErrorEvent(events=1), "watch"),
    "watch: 500 as an event": Rule(ErrorEvent(events=2, status=500, reason="InternalError"), "watch"),
    "watch: late bookmarks": Rule(LateBookmark(5), "watch"),
    "watch: 503": Rule(Answer(503, "ServiceUnavailable"), "watch", times=6),
    IDLE_CUTS: Rule(CutIdle(seconds=3), "watch"),
    STALE: Rule(StaleList(8), "list", times=6),
    "list: half": Rule(LoseAnswer(), "list", nth=(2, 4, 5, 8)),
    "list: 410": Rule(Answer(410), "list", times=3),
}
ON_WRITES = {
    "create: answer lost": Rule(LoseAnswer(), "create", "pods", times=3),
    "delete: answer lost": Rule(LoseAnswer(), "delete", "pods", times=3),
    "patch: answer lost": Rule(LoseAnswer(), "patch", "pods*", times=3),
    "write: request lost": Rule(LoseRequest(), "create,delete", "pods", times=3),
    "write: request late": Rule(LateRequest(2), "create,delete,patch", "pods", times=2),
    "write: refused connection": Rule(NoConnection(), _ALL, times=5),
    "write: timeout before the commit": Rule(Hang(None), "create,delete,patch", "pods", times=2),
    "write: timeout after the commit": Rule(Hang(None, done=True), "create,delete", "pods", times=2),
    "write: 409": Rule(Answer(409), "patch,delete", times=3),
    "write: 422": Rule(Answer(422, "Invalid"), "create,patch", "pods", times=2),
    "write: 429": Rule(Answer(429, retry_after=2), "create,delete", times=3),
    "write: 500": Rule(Answer(500), _ALL, times=3),
    "write: 503 of the status": Rule(Answer(503, "ServiceUnavailable"), "patch", f"{_DAEMONSETS}/status", times=4),
    "write: 504 after the commit": Rule(LoseAnswer(504), _ALL, times=3),
    "revision: answer lost": Rule(LoseAnswer(), "create", _REVISIONS, times=1),
    "status: answer lost": Rule(LoseAnswer(), "patch", f"{_DAEMONSETS}/status", times=3),
    "lease: answer lost": Rule(LoseAnswer(), "create,patch", _LEASES, times=3),
    "lease: timeout": Rule(Hang(None), "create,patch,get", _LEASES, times=4),
}
REFUSALS = {
    "webhook: refuses new pods": Rule(DOWN, "create", "pods"),
    "webhook: refuses other writes of pods": Rule(DOWN, "patch,delete", "pods"),
    "quota: of revisions": Rule(COUNTED, "create", _REVISIONS),
}
"""Until they are mended."""
TROUBLES = {**ON_WATCHES, **ON_WRITES, **REFUSALS}
QUOTA = "quota: of pods"
REWRITES, REVERTS = "webhook: rewrites new pods", "webhook: reverts an image"


def name_of(effect: Effect) -> str:
    other = "lease: not reached by its holder" if isinstance(effect, Hang) else "list: late after a restore"
    return next((what for what, rule in TROUBLES.items() if rule.effect is effect), other)


class Admission:
    """What the server asks about each write of a pod: a quota and two webhooks, each on or off."""

    def __init__(self, cluster: Cluster, fired: Counter[str]) -> None:
        self._cluster, self._fired = cluster, fired
        self.most: int | None = None
        """So many pods and no more, from all clients."""
        self.rewrites = self.reverts = False
        cluster.admission.append(self._admit)

    def _admit(self, attempt: Attempt) -> None:
        if attempt.kind is not PODS or attempt.subresource:
            return
        if attempt.verb == "create":
            if self.most is not None and len(self._cluster.store.objects[PODS]) >= self.most:
                self._fired[QUOTA] += 1
                raise forbidden(PODS, attempt.name, "exceeded quota: pods")
            if self.rewrites:
                self._rewrite(attempt)
        elif attempt.verb == "update" and self.reverts:
            self._revert(attempt)

    def _rewrite(self, attempt: Attempt) -> None:
        spec = attempt.object["spec"]
        if all(one["name"] != "sidecar" for one in spec["containers"]):
            self._fired[REWRITES] += 1
            spec["containers"].append({"name": "sidecar", "image": "registry.example/sidecar:v1"})
            attempt.object["metadata"].setdefault("annotations", {})["injected"] = "yes"

    def _revert(self, attempt: Attempt) -> None:
        """A client that pins the image of a running container."""
        before = self._cluster.get(PODS, attempt.namespace, attempt.name).object["spec"]["containers"][0]["image"]
        container = attempt.object["spec"]["containers"][0]
        if container["image"] != before:
            self._fired[REVERTS] += 1
            container["image"] = before
