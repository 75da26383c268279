"""What the plugin tells of updates in place: who is changed, what that restarts, and what a node waits for then."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.in_place import Resize, UpdateInProgress
from controller.api.objects import JSONObject
from controller.api.pod import Pod
from controller.api.readiness_gates import ReadinessGate
from controller.api.template_identity import identity
from controller.planner.explanation import NodeState
from kubectl_plugin.forecast.forecast import MOST_WAVES
from kubectl_plugin.forecast.report import RolloutPlan, pace_of
from kubectl_plugin.render.plan import effect_words
from kubectl_plugin.rollout.history import history, history_document
from kubectl_plugin.rollout.in_place import way_between, way_in_words
from kubectl_plugin.rollout.nodes import failure_of
from kubectl_plugin.rollout.survey import survey
from tests.beds.forecasts import rollout_plan
from tests.beds.snapshots import container, detail, snapshot
from tests.beds.worlds import NOW, ago, ds, pod, revision, served, template

OPEN = ReadinessGate(type="InPlaceUpdateReady", open=True, present=True, index=0)
IN_PLACE: dict[str, Any] = {"rolling_update_type": "InPlaceIfPossible", "max_unavailable": 2}


def gated(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(replace(one, gates=(OPEN,)) for one in pods)


def four(rev: str = "v1") -> tuple[Pod, ...]:
    return gated(served("node-0", "node-1", "node-2", "node-3", rev=rev))


def planned(
    pods: tuple[Pod, ...], was: JSONObject | None = None, waves: int = MOST_WAVES, **changes: Any
) -> RolloutPlan:
    """v2 comes to four nodes; `was`: the template of v1."""
    stored = [revision("v1", of=was or template("v1")), revision("v2")]
    return rollout_plan(snapshot(ds("v2", **IN_PLACE, **changes), pods=pods, nodes=4, revisions=stored), waves=waves)


def effect(plan: RolloutPlan) -> str:
    return effect_words(plan)


def test_those_that_were_not_worked_out_are_counted_likewise() -> None:
    plan = planned(four(), waves=1)
    assert plan.forecast.rest == ("node-1", "node-0")
    assert effect(plan) == "4 pods updated in place (restarts main); never more than 2 nodes down"


def test_what_speaks_against_it_is_reported_with_those_that_are_re_created() -> None:
    gated_ones = four()
    assert effect(planned((*gated_ones[:3], *served("node-3")))) == (
        "3 pods updated in place (restarts main), 1 pod re-created (they were made without the readiness gate"
        " InPlaceUpdateReady); never more than 2 nodes down"
    )
    assert effect(planned(four(), template("v1", volumes=[{"name": "x", "emptyDir": {}}]))) == (
        "4 pods re-created (spec.volumes removed); never more than 2 nodes down"
    )


def test_metadata_alone_restarts_nothing_and_takes_no_budget() -> None:
    was: JSONObject = {**template("v2"), "metadata": {"labels": {"app": "demo", "old": "yes"}}}
    plan = planned(four(), was)
    assert effect(plan) == "4 pods updated in place (restarts nothing); no node is down"


def test_a_label_read_from_the_environment_takes_an_unknown_way() -> None:
    def reading(track: str) -> JSONObject:
        variable = {"name": "TRACK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['track']"}}}
        made = template("v2", containers=[{"name": "main", "image": "demo:v2", "env": [variable]}])
        return {**made, "metadata": {"labels": {"app": "demo", "track": track}}}

    way = way_between(ds("v2", **IN_PLACE), reading("a"), reading("b"))
    assert way is not None
    takes = "OpenKruise's node agent and the feature gate InPlaceUpdateEnvFromMetadata"
    assert way_in_words(way) == f"in place, restarts main, which takes {takes}"


def sized(cpu: str) -> JSONObject:
    """The template with this limit."""
    resources: JSONObject = {"requests": {"cpu": "100m"}, "limits": {"cpu": cpu}}
    return template("v2", containers=[{"name": "main", "image": "demo:v2", "resources": resources}])


def resizing_plan(*pods: Pod) -> RolloutPlan:
    wanted = replace(ds("v2", **IN_PLACE), identity=identity(sized("2")))
    wanted = replace(wanted, spec=replace(wanted.spec, template=sized("2")))
    stored = [revision("v1", of=sized("1")), revision("v2", of=sized("2"))]
    return rollout_plan(snapshot(wanted, pods=pods, nodes=4, revisions=stored), waves=MOST_WAVES)


def test_resizes_are_planned_as_recreated_and_depend_on_the_gate() -> None:
    plan = resizing_plan(*four())
    assert effect(plan).startswith("4 pods re-created (spec.containers[main].resources changed)")
    assert "ResizedInPlace" in {one.name for one in plan.checks}


def test_a_pod_that_is_being_resized_shows_the_gate_is_on() -> None:
    resizing = replace(four("v2")[3], in_progress=UpdateInProgress(until=inf, resize=Resize.IN_PROGRESS))
    plan = resizing_plan(*four()[:3], resizing)
    assert effect(plan).startswith("3 pods updated in place (restarts nothing)")
    assert "ResizedInPlace" not in {one.name for one in plan.checks}


@pytest.mark.parametrize("resize", [Resize.IN_PROGRESS, Resize.DEFERRED])
def test_a_resize_on_its_way_uses_budget_until_it_is_done(resize: Resize) -> None:
    """Its pod is ready all the time."""
    midway = replace(four("v2")[3], in_progress=UpdateInProgress(until=inf, resize=resize))
    found = _one_at_a_time(*four()[:3], midway).forecast
    assert [[move.node for move in wave.moves] for wave in found.waves] == [["node-2"], ["node-1"], ["node-0"]]
    assert found.waves[0].after == ("node-3",)


def test_a_resize_that_is_refused_uses_budget_for_ever() -> None:
    midway = replace(four("v2")[3], in_progress=UpdateInProgress(until=inf, resize=Resize.INFEASIBLE))
    assert not _one_at_a_time(*four()[:3], midway).forecast.waves


def _one_at_a_time(*pods: Pod) -> RolloutPlan:
    wanted = ds("v2", **{**IN_PLACE, "max_unavailable": 1})
    return rollout_plan(
        snapshot(wanted, pods=pods, nodes=4, revisions=[revision("v1"), revision("v2")]), waves=MOST_WAVES
    )


@pytest.mark.parametrize(
    ("in_progress", "words"),
    [
        (
            UpdateInProgress(until=inf, restarting=("main",), not_started=True),
            "main not started with the new image yet, 5s",
        ),
        (UpdateInProgress(until=inf, resize=Resize.IN_PROGRESS), "the kubelet has not resized its pod yet, 5s"),
        (
            UpdateInProgress(until=inf, resize=Resize.DEFERRED, problem="Node has no room: cpu"),
            "the kubelet has not resized its pod yet: Node has no room: cpu, 5s",
        ),
        (
            UpdateInProgress(until=inf, resize=Resize.INFEASIBLE, problem="cannot decrease memory limits"),
            "its pod cannot be resized: cannot decrease memory limits, 5s",
        ),
    ],
)
def test_what_a_node_waits_for_in_the_middle(in_progress: UpdateInProgress, words: str) -> None:
    midway = detail(replace(pod("node-3", "v2", ready=None), gates=(OPEN,), in_progress=in_progress), updated=ago(5))
    wanted = ds("v2", **IN_PLACE)
    shown = snapshot(wanted, pods=four()[:3], nodes=4)
    found = survey(replace(shown, pods=(*shown.pods, midway))).rows[3]
    assert (found.state, found.how, found.why) == (NodeState.UPDATING, "in place", words)


def test_a_node_in_turn_says_how_and_why_not_in_place() -> None:
    rows = survey(snapshot(ds("v2", **IN_PLACE), pods=(*four()[:3], *served("node-3")), nodes=4)).rows
    assert [(one.how, one.why) for one in rows] == [
        ("in place", "waits for budget"),
        ("in place", "waits for budget"),
        ("in place", "waits for budget"),
        ("re-create", "waits for budget; not in place: they were made without the readiness gate InPlaceUpdateReady"),
    ]


def test_the_kubelets_back_off_after_an_update_in_place_is_over_the_image() -> None:
    waiting = container(ready=False, waiting="CrashLoopBackOff", exit_code=137, ended="Error", message="not found")
    told = failure_of(detail(pod("node-3", "v2", ready=None), waiting, replaced=frozenset({"main"})))
    assert told is not None
    assert (told.reason, told.message) == ("ImagePullBackOff", "not found")
    assert told.brief == "ImagePullBackOff", "how the one before ended says nothing of it"
    ended = container(ready=False, exit_code=137, ended="Error")
    assert failure_of(detail(pod("node-3", "v2", ready=None), ended, replaced=frozenset({"main"}))) is None


def test_the_pace_of_a_pod_updated_in_place_counts_from_that_update() -> None:
    one = detail(pod("node-3", "v2", ready=NOW - 20), container(restarts=1), updated=NOW - 23)
    found = pace_of([one], "v2")
    assert found is not None
    assert found.seconds == 3.0


def test_the_history_tells_the_way_to_each_revision_from_the_live_one() -> None:
    other = template("v1", hostNetwork=True)
    stored = [revision("v1", of=other), revision("v2"), revision("v3", of=template("v3")), revision("v4")]
    shown = snapshot(ds("v4", **IN_PLACE), pods=(), nodes=1, revisions=stored)
    items = history_document("default", "demo", history(shown))["items"]
    assert isinstance(items, list)
    assert [(one["revision"], one["inPlace"], one["way"]) for one in items if isinstance(one, dict)] == [
        (4, None, None),
        (3, True, "in place, restarts main"),
        (2, True, "in place, restarts main"),
        (1, False, "re-create: spec.hostNetwork added"),
    ]
    plain = history_document("default", "demo", history(replace(shown, daemonset=ds("v4"))))["items"]
    assert isinstance(plain, list)
    assert {one["inPlace"] for one in plain if isinstance(one, dict)} == {None}
