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


class Reading(Value):
    """What a phase means to kstatus; at most one of the three is true."""

    ready: bool = False
    reconciling: bool = False
    stalled: bool = False


READINGS = {
    Phase.PENDING: Reading(reconciling=True),
    Phase.PROGRESSING: Reading(reconciling=True),
    Phase.HELD: Reading(ready=True),
    Phase.PAUSED: Reading(ready=True),
    Phase.STALLED: Reading(stalled=True),
    Phase.MANUAL: Reading(ready=True),
    Phase.DEGRADED: Reading(),
    Phase.HEALTHY: Reading(ready=True),
    Phase.TERMINATING: Reading(),
}
"""Held, Paused and Manual are Ready: the cluster is as the spec wants it, and only a person can change that, so who
waits for the controller must not wait on. Degraded is neither: nothing is left to roll out, but pods are missing."""

AS_EXPECTED = "AsExpected"


def readiness(phase: Phase, message: str, *, why: str, aside: Verdict | None = None) -> tuple[Verdict, ...]:
    """The three conditions. `message` says in one sentence how it stands, `why` in one word what it waits for.

    `aside` stands for Stalled while that is not true: something to know about the deadline.
    """
    reading = READINGS[phase]
    calm = aside or Verdict(type=STALLED, status="False", reason=AS_EXPECTED, message="")
    busy = (why, message) if reading.reconciling else (phase.value, "")
    stuck = Verdict(type=STALLED, status="True", reason=why, message=message)
    return (
        Verdict(type=READY, status=str(reading.ready), reason=phase.value, message=message),
        Verdict(type=RECONCILING, status=str(reading.reconciling), reason=busy[0], message=busy[1]),
        stuck if reading.stalled else calm,
    )
