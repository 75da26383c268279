"""The parts of a plan beside its waves: further steps, the pace, what an apply and a try would make of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.daemonset import DaemonSet, DaemonSetStatus, Phase, RolloutStep
from controller.api.objects import JSONObject
from controller.api.pod import Pod
from controller.planner.rollout_state import rollout_state
from kubectl_plugin.commands.plan import laid_over, tried_words
from kubectl_plugin.forecast.forecast import MOST_WAVES, finished
from kubectl_plugin.forecast.report import DryRunAnswer, Pace, later_steps, pace_of, refusal_in
from kubectl_plugin.forecast.simulate import port_waiters
from kubectl_plugin.forecast.warnings import PreflightResult
from tests.beds.forecasts import forecast
from tests.beds.snapshots import container, detail
from tests.beds.worlds import ago, ds, everywhere, matching, node, pending, pod, revision, served, template, world

# further steps


def steps(*nodes: int, waves: int = MOST_WAVES, pods: Any = None, approvals: int = 9, **settings: Any) -> list[str]:
    """`"2/3: 4 3 | 2, 1"`: the step, its nodes, waves between bars, and after a comma the nodes not grouped."""
    waits = ({"approval": "Required"} if place < approvals else {"soak": "1m"} for place, _ in enumerate(nodes))
    strategy = tuple(RolloutStep(nodes=one, **wait) for one, wait in zip(nodes, waits, strict=True))
    around = world(ds("v2", rolling={"steps": strategy}, **settings), nodes=6, pods=pods or everywhere(6))
    found = finished(later_steps(forecast(around, waves=waves), waves))
    return [
        f"{one.step}/{one.nodes}: {' | '.join(map(_numbers, one.waves))}"
        + (f", {_numbers(one.rest)}" if one.rest else "")
        for one in found
    ]


def _numbers(nodes: tuple[str, ...]) -> str:
    return " ".join(name.removeprefix("node-") for name in nodes)


@pytest.mark.parametrize(
    ("nodes", "settings", "told"),
    [
        ((1, 3, 6), {}, ["2/3: 4 | 3", "3/6: 2 | 1 | 0"]),
        ((1, 3, 6), {"max_unavailable": 2}, ["2/3: 4 3", "3/6: 2 1 | 0"]),
        ((3, 6), {"max_surge": 3}, ["2/6: 2 1 0"]),
        ((6,), {}, []),
        ((1, 6), {"paused": True}, []),
        ((1, 3, 6), {"waves": 2}, ["2/3: 4, 3", "3/6: , 2 1 0"]),
        ((1, 3, 6), {"waves": 1}, ["2/3: , 4 3", "3/6: , 2 1 0"]),
        ((1, 2, 4, 6), {"approvals": 1}, ["2/2: 4", "3/4: 3 | 2", "4/6: 1 | 0"]),
        ((1, 3, 3, 6), {"approvals": 1}, ["2/3: 4 | 3", "3/3: ", "4/6: 2 | 1 | 0"]),
        ((1, 2, 4, 6), {"approvals": 1, "waves": 3}, ["2/2: 4", "3/4: 3, 2", "4/6: , 1 0"]),
    ],
)
def test_each_further_step_has_its_waves(nodes: tuple[int, ...], settings: dict[str, Any], told: list[str]) -> None:
    assert steps(*nodes, **settings) == told


@pytest.mark.parametrize("limit", [{"max_unavailable": 1}, {"max_unavailable": 4}, {"max_surge": 3}])
@pytest.mark.parametrize("waves", [1, 2])
@pytest.mark.parametrize("fields", [{}, {"partition": 3}, {"selector": {"track": "canary"}}])
def test_the_rest_is_in_the_order_in_which_it_would_be_worked_out(
    limit: dict[str, Any], waves: int, fields: dict[str, Any]
) -> None:
    fleet = [node(f"node-{one}", labels={"track": "canary"} if one % 2 else {}) for one in range(9)]
    around = world(ds("v2", **limit, **fields), nodes=fleet, pods=everywhere(9))
    part, whole = forecast(around, waves=waves), forecast(around)
    moves = [move.node for wave in whole.waves for move in wave.moves]
    assert [move.node for wave in part.waves for move in wave.moves] + list(part.rest) == moves


# the pace


def took(number: int, seconds: float, rev: str = "v2", **fields: Any) -> Pod:
    """The larger the number, the later it was created."""
    created = ago(1000.0 - number)
    return pod(f"node-{number}", rev, created=created, ready=created + seconds, **fields)


@pytest.mark.parametrize(
    ("pods", "pace"),
    [
        ((), None),
        ((pending("node-0", "v2"),), None),
        ((took(0, 10), took(1, 40), took(2, 20)), Pace(seconds=20.0, nodes=3)),
        ((took(0, 900), *(took(number, 30) for number in range(1, 6))), Pace(seconds=30.0, nodes=5)),
        ((took(9, 90, rev="v1"), took(1, 30)), Pace(seconds=30.0, nodes=1)),
        ((took(1, 90, rev="v1"), took(2, 70, rev="v1")), Pace(seconds=80.0, nodes=2)),
        ((took(1, -5),), Pace(seconds=0.0, nodes=1)),
    ],
    ids=[
        "none",
        "none ready",
        "median",
        "the newest five",
        "of the current revision",
        "else of any",
        "clocks differ",
    ],
)
def test_the_pace_is_that_of_the_newest_pods(pods: tuple[Pod, ...], pace: Pace | None) -> None:
    assert pace_of([detail(one) for one in pods], "v2") == pace


def test_a_pod_that_was_started_again_tells_nothing() -> None:
    assert pace_of([detail(took(1, 400), container(restarts=1))], "v2") is None


# what an apply makes of it, where the server may not be asked


@pytest.mark.parametrize(
    ("before", "manifest", "after"),
    [
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": {"by hand": 1, "x": 1}}, {"a": {"x": 2}}, {"a": {"by hand": 1, "x": 2}}),
        ({"list": [1, 2]}, {"list": [3]}, {"list": [3]}),
        ({"a": 1, "b": 1}, {"a": None}, {"a": 1, "b": 1}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({}, {"a": {"x": {"y": 1}}}, {"a": {"x": {"y": 1}}}),
    ],
    ids=["said", "by hand stays", "lists whole", "null says nothing", "other kind", "new"],
)
def test_a_manifest_is_laid_over_what_is_there(before: JSONObject, manifest: JSONObject, after: JSONObject) -> None:
    live: JSONObject = {"metadata": {"name": "demo", "uid": "1"}, "spec": before, "status": {"observedGeneration": 1}}
    merged = laid_over(live, {"metadata": {"name": "demo"}, "spec": manifest, "status": {"x": 1}})
    assert merged == {**live, "spec": after}


# what is tried out, in words


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (ds("v1"), ds("v1"), ()),
        (ds("v1"), ds("v2"), ("image main v1 -> v2",)),
        (
            ds("v1", partition=3),
            ds("v1", partition="50%", max_unavailable=2),
            ("partition 3 -> 50%", "maxUnavailable 1 -> 2"),
        ),
        (ds("v1"), ds("v1", max_surge=1), ("maxUnavailable 1 -> none", "maxSurge none -> 1")),
        (ds("v1"), ds("v1", paused=True), ("paused false -> true",)),
        (ds("v1"), ds("v1", hostNetwork=True), ("another pod template",)),
        (ds("v1"), ds("v1", selector={"a": "b"}), ("another rollingUpdate.selector",)),
        (ds("v1"), ds("v1", on_delete=True), ("RollingUpdate -> OnDelete",)),
        (ds("v1", pods=matching(app="demo")), ds("v1", min_ready=5), ()),
    ],
)
def test_differences_in_words(before: Any, after: Any, told: tuple[str, ...]) -> None:
    assert tried_words(before, after) == told


YES = DryRunAnswer(result=PreflightResult.OK)
NOT_ASKED = DryRunAnswer(result=PreflightResult.SKIPPED, text="no right to create pods")


def degraded(reason: str, message: str, *, generation: int = 3) -> DaemonSet:
    condition: JSONObject = {"type": "Degraded", "status": "True", "reason": reason, "message": message}
    status = DaemonSetStatus(conditions=({**condition, "observedGeneration": generation},))
    return replace(ds(generation=3), status=status)


FORBIDDEN = "create pods default/demo-x: violates PodSecurity"
QUOTA = 'create pods default/demo-x: pods "demo-x" is forbidden: exceeded quota: pods'


@pytest.mark.parametrize(
    ("daemonset", "answer", "refusal"),
    [
        (ds(), DryRunAnswer(result=PreflightResult.FAILED, text="no"), "no"),
        (ds(), YES, ""),
        (degraded("TemplateRefused", "no such field"), None, ""),
        (degraded("TemplateRefused", "no such field"), YES, ""),
        (degraded("TemplateRefused", "no such field"), NOT_ASKED, "no such field"),
        (degraded("TemplateRefused", "no such field", generation=2), NOT_ASKED, ""),
        (degraded("WritesFail", FORBIDDEN), NOT_ASKED, FORBIDDEN),
        (degraded("WritesFail", FORBIDDEN), YES, ""),
        (degraded("WritesFail", QUOTA), YES, QUOTA),
        (degraded("WritesFail", "create pods default/demo-x: policy: exceeded quota: pods"), YES, ""),
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
    never_ready = port_waiters(rollout_state(around))
    assert {node for node, _ in never_ready} == ({"node-1", "node-2", "node-3", "node-4"} if waits else set())
    found = forecast(around, never_ready=never_ready)
    assert found.phase is (Phase.STALLED if waits else Phase.HEALTHY)
    paired = [node.name for node in found.end.nodes if node.paired]
    assert paired == (["node-3", "node-4"] if waits else [])


def test_without_surge_ports_keep_no_node_waiting() -> None:
    assert port_waiters(rollout_state(world(ds("v2", **claiming(9100)), pods=everywhere(3)))) == frozenset()
