"""A plan does not promise what cannot be: pods that the server refuses, and pods that wait for a port for ever."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.base import JSONObject
from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase
from controller.planner.board import lay_out
from kubectl_plugin.forecast.forecast import forecast
from kubectl_plugin.forecast.ports import port_waiters
from kubectl_plugin.forecast.report import DryRunAnswer, refusal_in
from kubectl_plugin.forecast.warnings import CheckResult
from tests.beds.worlds import ds, everywhere, pod, revision, served, template, world

YES = DryRunAnswer(result=CheckResult.OK)
NOT_ASKED = DryRunAnswer(result=CheckResult.SKIPPED, text="no right to create pods")


def degraded(reason: str, message: str, *, generation: int = 3) -> DaemonSet:
    condition: JSONObject = {"type": "Degraded", "status": "True", "reason": reason, "message": message}
    status = DaemonSetStatus(conditions=({**condition, "observedGeneration": generation},))
    return replace(ds(generation=3), status=status)


FORBIDDEN = "create pods default/demo-x: violates PodSecurity"
QUOTA = "create pods default/demo-x: exceeded quota: pods"


@pytest.mark.parametrize(
    ("daemonset", "answer", "refusal"),
    [
        (ds(), DryRunAnswer(result=CheckResult.FAILED, text="no"), "no"),
        (ds(), YES, ""),
        (degraded("TemplateRefused", "no such field"), None, ""),
        (degraded("TemplateRefused", "no such field"), YES, ""),
        (degraded("TemplateRefused", "no such field"), NOT_ASKED, "no such field"),
        (degraded("TemplateRefused", "no such field", generation=2), NOT_ASKED, ""),
        (degraded("WritesFail", FORBIDDEN), NOT_ASKED, FORBIDDEN),
        (degraded("WritesFail", FORBIDDEN), YES, ""),
        (degraded("WritesFail", QUOTA), YES, QUOTA),
        (degraded("WritesFail", "delete pods default/demo-x: exceeded quota"), YES, ""),
        (degraded("AsExpected", ""), NOT_ASKED, ""),
    ],
)
def test_whose_word_counts(daemonset: DaemonSet, answer: DryRunAnswer | None, refusal: str) -> None:
    assert refusal_in(daemonset, answer) == refusal


def claiming(number: int | None, **spec: Any) -> dict[str, Any]:
    port: JSONObject = {"containerPort": 80} if number is None else {"containerPort": 80, "hostPort": number}
    return {"containers": [{"name": "main", "image": "demo:v2", "ports": [port]}], **spec}


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        (claiming(9100), claiming(9100), True),
        (claiming(9100), claiming(9101), False),
        (claiming(None), claiming(None), False),
        (claiming(None, hostNetwork=True), claiming(None, hostNetwork=True), True),
        (claiming(80), claiming(None, hostNetwork=True), True),
    ],
)
def test_while_surging_a_new_pod_waits_for_a_port_of_a_ready_old_one(
    before: dict[str, Any], after: dict[str, Any], waits: bool
) -> None:
    daemonset = ds("v2", max_surge=2, **after)
    old = revision("v1", 1, of=template("v1", terminationGracePeriodSeconds=1, **before))
    new = revision("v2", 2, of=daemonset.spec.template)
    pods = (*served("node-1", "node-2", "node-3", "node-4"), pod("node-0", ready=None))
    around = world(daemonset, pods=pods, revisions=(old, new))
    never_ready = port_waiters(lay_out(around))
    assert {node for node, _ in never_ready} == ({"node-1", "node-2", "node-3", "node-4"} if waits else set())
    found = forecast(around, never_ready=never_ready)
    assert found.phase is (Phase.STALLED if waits else Phase.HEALTHY)
    paired = [slot.node for slot in found.end.slots if slot.paired]
    assert paired == (["node-3", "node-4"] if waits else [])


def test_without_surge_ports_keep_nobody_waiting() -> None:
    assert port_waiters(lay_out(world(ds("v2", **claiming(9100)), pods=everywhere(3)))) == frozenset()
