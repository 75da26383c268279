"""The one as the other: what is the same, what is lost, and what is kept for the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.api.objects import JSONObject, fields_of, value_at
from kubectl_plugin.changes.apply import last_applied
from kubectl_plugin.changes.edit import with_operations
from kubectl_plugin.errors import CommandError
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.preview import preview_of
from kubectl_plugin.migrate.state import Mark
from kubectl_plugin.rollout.snapshot import LAST_APPLIED
from tests.unit.kubectl_plugin.migrate.observations import (
    FROZEN,
    NATIVE,
    OURS,
    ROLLING,
    TEMPLATES,
    history,
    native,
    observed,
    ours,
    pods,
)

STRATEGY = ("spec", "updateStrategy")


def test_ours_is_the_native_one_but_for_what_is_true_of_that_only() -> None:
    theirs = {"deprecated.daemonset.template.generation": "3", "argocd.argoproj.io/tracking-id": "x", "team": "infra"}
    made: Any = state.as_ours(native(annotations=theirs, minReadySeconds=5).document)
    assert made["apiVersion"] == "apps.kruise.io/v1beta1"
    assert made["metadata"] == {
        "name": "agent",
        "namespace": "agents",
        "labels": {"team": "infra"},
        "annotations": {"team": "infra"},
    }
    assert made["spec"] == {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": TEMPLATES["v2"],
        "updateStrategy": ROLLING,
        "minReadySeconds": 5,
    }


def test_kubectl_knows_what_it_applied() -> None:
    noted = '{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{}}\n'
    made = state.as_ours(native(annotations={LAST_APPLIED: noted}).document)
    assert (
        value_at(made, "metadata", "annotations", LAST_APPLIED)
        == '{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","spec":{}}\n'
    )


def test_kubectl_knows_what_it_applied_as_far_as_a_native_one_has_it() -> None:
    """It refuses to compare a manifest with a note that has an unknown field."""
    strategy: JSONObject = {"rollingUpdate": {"partition": 2, "maxUnavailable": 3}}
    spec: JSONObject = {"template": TEMPLATES["v1"], "lifecycle": {}, "burstReplicas": 9, "updateStrategy": strategy}
    noted = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "spec": spec}
    text = msgspec.json.encode(noted).decode()
    made = last_applied(state.as_native(ours(annotations={LAST_APPLIED: text}).document))
    kept = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}
    expected = {"template": TEMPLATES["v1"], "updateStrategy": kept}
    assert made == {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": expected}


def test_at_first_it_makes_no_pod_and_updates_none() -> None:
    strategy: JSONObject = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    made = state.as_waiting_ours(native(strategy=strategy).document)
    assert value_at(made, *STRATEGY, "rollingUpdate") == {"maxSurge": 1, "maxUnavailable": 0, "partition": "100%"}
    assert value_at(made, "spec", "scaleStrategy", "partitionedScaling") is True
    assert state.mark_of(made) == Mark(strategy=strategy, uid=NATIVE, hold=True)


@pytest.mark.parametrize("strategy", [ROLLING, {"type": "OnDelete"}, {}])
@pytest.mark.parametrize("old", [0, 2])
def test_at_the_end_it_is_as_it_should_be(strategy: JSONObject, old: int) -> None:
    made = state.as_waiting_ours(native(strategy=strategy).document)
    mark = state.mark_of(made)
    assert mark is not None
    done = with_operations(made, state.put_ours_in_charge(made, mark, old))
    expected: Any = msgspec.json.decode(msgspec.json.encode(strategy))
    if old and strategy.get("type") != "OnDelete":
        expected.setdefault("rollingUpdate", {})["partition"] = old
    assert value_at(done, *STRATEGY) == expected
    assert value_at(done, "spec", "scaleStrategy") is None
    assert state.mark_of(done) is None


def test_taken_back_before_it_is_deleted_it_is_what_it_was() -> None:
    before = ours(
        strategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 3}},
        scaleStrategy={"partitionedScaling": False},
        kept=("example.io/other",),
    ).document
    leaving = with_operations(before, state.stop_updates_of_ours(before))
    assert value_at(leaving, "metadata", "finalizers") == ["example.io/other", state.FINALIZER]
    assert value_at(leaving, *STRATEGY, "rollingUpdate") == {"partition": 3, "paused": True}
    still = with_operations(leaving, state.stop_creates_of_ours(leaving))
    assert value_at(still, *STRATEGY, "rollingUpdate", "partition") == "100%"
    assert value_at(still, "spec", "scaleStrategy", "partitionedScaling") is True
    assert not state.stop_creates_of_ours(still)
    mark = state.mark_of(leaving)
    assert mark is not None
    for one in (leaving, still):
        assert with_operations(one, state.put_ours_in_charge(one, mark, 2)) == before


def test_who_turns_back_half_way_keeps_the_strategy_of_the_end() -> None:
    made = state.as_waiting_ours(native().document)
    leaving = with_operations(made, state.stop_updates_of_ours(made))
    assert value_at(state.as_native(leaving), *STRATEGY) == ROLLING
    mark = state.mark_of(leaving)
    assert mark is not None
    assert mark.uid == ""


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        ({"maxUnavailable": 2, "partition": 3, "paused": True}, {"maxUnavailable": 2}),
        ({"maxSurge": 1}, {"maxSurge": 1, "maxUnavailable": 0}),
        ({"maxSurge": "0%", "maxUnavailable": 1}, {"maxSurge": "0%", "maxUnavailable": 1}),
        ({"rollingUpdateType": "Surging"}, {"maxSurge": 1, "maxUnavailable": 0}),
        ({"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": 1}, {"maxUnavailable": 1}),
    ],
)
def test_a_native_strategy(rolling: JSONObject, expected: JSONObject) -> None:
    strategy: JSONObject = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert state.native_strategy(strategy) == {"type": "RollingUpdate", "rollingUpdate": expected}


def test_a_native_one_that_was_frozen_is_thawed_unless_that_moved_pods() -> None:
    body = state.as_frozen_native(ours().document, 1)
    mark = state.mark_of(body)
    assert mark is not None
    assert value_at(with_operations(body, state.put_native_in_charge(body, mark, 0)), *STRATEGY) == ROLLING
    assert value_at(with_operations(body, state.put_native_in_charge(body, mark, 1)), *STRATEGY) == {
        "type": "OnDelete"
    }


def test_a_manifest_applied_half_way_has_its_strategy_in_the_end() -> None:
    """Our note stays on the object, and says what was to be before."""
    two: JSONObject = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    assert value_at(state.as_ours(native(FROZEN).document), *STRATEGY) == ROLLING
    assert value_at(state.as_ours(native(FROZEN, strategy=two).document), *STRATEGY) == two


def test_one_that_is_taken_back_goes_on_with_its_rollout() -> None:
    before = native().document
    frozen = with_operations(before, state.freeze_native(before))
    assert value_at(frozen, *STRATEGY) == {"type": "OnDelete"}
    mark = state.mark_of(frozen)
    assert mark is not None
    assert with_operations(frozen, state.put_native_in_charge(frozen, mark, 2)) == before


def test_what_a_native_one_has_no_field_for_is_reported() -> None:
    rolling: JSONObject = {"partition": 2, "paused": False, "rollingUpdateType": "InPlaceIfPossible"}
    mine = ours(
        strategy={"type": "RollingUpdate", "rollingUpdate": rolling},
        burstReplicas=250,
        lifecycle={"preDelete": {}},
        annotations={"kruise-ds/steps": "2,0", "team": "infra"},
    )
    told = preview_of(observed(None, mine, pods(OURS, old=2), history(OURS)), native=True)
    assert told.summary == "3 pods keep running, none is restarted"
    assert told.lines == (
        "history   2 revisions go along",
        "old       2 nodes keep an older revision: the native one will be OnDelete",
        "lost      a native DaemonSet has no partition, rollingUpdateType, lifecycle, annotation kruise-ds/steps",
    )


def test_a_native_one_has_no_progressive_rollouts() -> None:
    fields: JSONObject = {
        "order": [{"groupBy": "zone"}],
        "steps": [{"nodes": 1}],
        "topology": {"key": "zone"},
        "unreachableNodes": {"leaveOut": 1},
        "onFailure": {"restarts": 3},
    }
    rolling: JSONObject = {"partition": 0, **fields}
    mine = ours(strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    told = preview_of(observed(None, mine, pods(OURS), history(OURS)), native=True)
    assert f"lost      a native DaemonSet has no {', '.join(fields)}" in told.lines


def test_a_network_plugin_is_warned_of() -> None:
    plugin = native()
    volumes: Any = {"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}
    spec: Any = plugin.document["spec"]
    spec["template"] = {"spec": {**fields_of(TEMPLATES["v2"]["spec"]), "volumes": [volumes]}}
    told = preview_of(observed(plugin, None, pods(NATIVE), history(NATIVE)), native=False)
    (caution,) = told.cautions
    assert caution.text.startswith("agent mounts /etc/cni/net.d as a network plugin does: the controller's own pods")
    assert told.why_named_only == caution.text


@pytest.mark.parametrize("back", [False, True])
def test_it_does_not_begin_in_mid_surge(back: bool) -> None:
    uid = OURS if back else NATIVE
    twice = (*pods(uid), *pods(uid, nodes=1))
    there = observed(None, ours(), twice, history(uid)) if back else observed(native(), None, twice, history(uid))
    with pytest.raises(CommandError) as refused:
        preview_of(there, native=back)
    assert refused.value.message == "agent has two pods on node-0, as in a surge: let the surge finish first"
    assert refused.value.exit_code == 6


def test_what_was_begun_is_not_judged_again() -> None:
    begun = observed(
        native(), ours(state.Mark(strategy=ROLLING, uid=NATIVE, hold=True)), pods(NATIVE), history(NATIVE)
    )
    assert preview_of(begun, native=False).summary == "was begun and goes on"
