"""How it stands for tools that know no DaemonSet: Ready, Reconciling and Stalled, as kstatus reads them.

`kubectl wait`, Flux, Helm and Argo CD ask for nothing else. All three are always there: `Reconciling=False` is then
something that can be waited for, and says that the rollout has come to an end, whichever.
"""

from __future__ import annotations

from controller.api.base import Value
from controller.api.wellknown import READY, RECONCILING, STALLED
from controller.planner.phase import Phase


class Verdict(Value):
    """A condition without its times: these depend on what was written before."""

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
"""Which of the three is true, if any. Held, Paused and Manual are Ready: the cluster is as the spec wants it, and
only a person can change that, so who waits for the controller must not wait on. Degraded is neither: nothing is left
to roll out, but pods are missing."""


def readiness(phase: Phase, message: str, *, why: str, aside: Verdict | None = None) -> tuple[Verdict, ...]:
    """The three conditions. `message` says in one sentence how it stands, `why` in one word what it waits for.

    `aside` stands for Stalled while that is not true: something to know about the deadline.
    """
    true = READ_AS[phase]
    calm = aside or Verdict(type=STALLED, status="False", reason="AsExpected", message="")
    busy = (why, message) if true == RECONCILING else (phase.value, "")
    return (
        Verdict(type=READY, status=str(true == READY), reason=phase.value, message=message),
        Verdict(type=RECONCILING, status=str(true == RECONCILING), reason=busy[0], message=busy[1]),
        Verdict(type=STALLED, status="True", reason=why, message=message) if true == STALLED else calm,
    )
