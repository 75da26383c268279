"""Makes the conditions Ready, Reconciling and Stalled, for tools that know no DaemonSet but follow kstatus
(https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md).

`kubectl wait`, Flux, Helm and Argo CD look at nothing else. All three conditions always exist, so that one can wait
for `Reconciling=False`: the rollout has come to an end, good or bad.
"""

from __future__ import annotations

from controller.api.base import Value
from controller.api.daemonset import Phase
from controller.api.wellknown import READY, RECONCILING, STALLED


class Condition(Value):
    """A condition without its times, which depend on the condition that was written before."""

    type: str
    status: str
    reason: str
    message: str


READ_AS = {
    Phase.PENDING: RECONCILING,
    Phase.PROGRESSING: RECONCILING,
    Phase.HELD: READY,
    Phase.PAUSED: READY,
    Phase.STALLED: STALLED,
    Phase.MANUAL: READY,
    Phase.DEGRADED: "",
    Phase.HEALTHY: READY,
    Phase.TERMINATING: "",
}
"""Which of the three conditions is true in each phase; empty: none. Held, Paused and Manual are Ready: the cluster is
as the spec wants it, and only a person can change that, so that nobody needs to wait for the controller. Degraded is
none of them: nothing is left to roll out, but pods are missing."""


def readiness(phase: Phase, message: str, *, why: str, aside: Condition | None = None) -> tuple[Condition, ...]:
    """The three conditions. `message` says in a sentence how the rollout stands, `why` is its reason to wait.

    `aside`: a remark about the deadline, which takes the place of the condition Stalled while that is False.
    """
    true = READ_AS[phase]
    calm = aside or Condition(type=STALLED, status="False", reason="AsExpected", message="")
    busy = (why, message) if true == RECONCILING else (phase.value, "")
    return (
        Condition(type=READY, status=str(true == READY), reason=phase.value, message=message),
        Condition(type=RECONCILING, status=str(true == RECONCILING), reason=busy[0], message=busy[1]),
        Condition(type=STALLED, status="True", reason=why, message=message) if true == STALLED else calm,
    )
