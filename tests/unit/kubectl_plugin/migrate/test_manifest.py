"""Who manages which field during a migration, and the manifest that is printed."""

from __future__ import annotations

import pytest

from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Operation, with_operations
from kubectl_plugin.errors import CommandError
from kubectl_plugin.migrate import state
from kubectl_plugin.migrate.observed import Observed
from kubectl_plugin.migrate.preview import migration_manifest
from kubectl_plugin.migrate.state import FIELD, managers_for, managers_of
from kubectl_plugin.rollout.snapshot import LAST_APPLIED
from tests.unit.kubectl_plugin.migrate import observations as scene
from tests.unit.kubectl_plugin.migrate.observations import native, ours

ON_DELETE: JSONObject = {"type": "OnDelete"}
NOTED = '{"metadata":{"name":"agent","creationTimestamp":null},"spec":{"template":%s}}'
"""As kubectl does."""
SAME = """{
    "metadata": {"labels": {"app": "agent"}, "creationTimestamp": null},
    "spec": {"containers": [{"name": "agent", "image": "v2"}]}
}"""


@pytest.mark.parametrize(
    ("there", "to"),
    [
        (scene.observed(None, scene.ours(scene.GOING, terminating=True, kept=scene.KEPT), scene.pods("")), "native"),
        (
            scene.observed(
                scene.native(scene.FROZEN),
                scene.ours(scene.GOING, terminating=True, kept=scene.KEPT),
                scene.pods(scene.NATIVE),
            ),
            "native",
        ),
        (
            scene.observed(scene.native(scene.FROZEN, terminating=True), scene.ours(scene.COMING), scene.pods("")),
            "ours",
        ),
        (scene.observed(None, scene.ours(scene.COMING), scene.pods(scene.OURS)), "ours"),
        (scene.observed(scene.native(scene.FROZEN), None, scene.pods(scene.NATIVE)), "native"),
    ],
)
def test_of_what_is_half_way_there_is_none(there: Observed, to: str) -> None:
    with pytest.raises(CommandError) as refused:
        migration_manifest(there, native=to == "native")
    words = "agent is being migrated or deleted: there is no manifest for it until that is over"
    assert refused.value.message == words


@pytest.mark.parametrize(("old", "held"), [(0, False), (1, True)])
def test_a_native_one_is_held_while_nodes_keep_an_older_revision(old: int, held: bool) -> None:
    made = migration_manifest(
        scene.observed(None, scene.ours(), scene.pods(scene.OURS, old=old), scene.history(scene.OURS)), native=True
    )
    assert (value_at(made.document, "spec", "updateStrategy") == ON_DELETE) is held
    assert any("OnDelete: 1 node keeps an older revision" in line for line in made.comments) is held


@pytest.mark.parametrize(("template", "differs"), [(SAME, False), (SAME.replace("v2", "v1"), True)])
def test_what_the_author_wrote_is_compared_by_its_meaning(template: str, differs: bool) -> None:
    there = scene.native(annotations={LAST_APPLIED: NOTED % template})
    made = migration_manifest(
        scene.observed(there, None, scene.pods(scene.NATIVE), scene.history(scene.NATIVE)), native=False
    )
    assert any("differs from what runs: image agent v2 -> v1." in line for line in made.comments) is differs


def test_annotations_true_of_ours_only_are_not_printed_for_a_native_one() -> None:
    text = '{"metadata":{"name":"agent","annotations":{"kruise-ds/steps":"1","team":"infra"}},"spec":{}}'
    there = scene.ours(annotations={LAST_APPLIED: text, "kruise-ds/steps": "1", "team": "infra"})
    made = migration_manifest(
        scene.observed(None, there, scene.pods(scene.OURS), scene.history(scene.OURS)), native=True
    )
    assert value_at(made.document, "metadata", "annotations") == {"team": "infra"}
    assert "Lost, as a native DaemonSet does not have it: annotation kruise-ds/steps." in made.comments


OURS, THEIRS = "apps.kruise.io/v1beta1", "apps/v1"
AGENT = 'k:{"name":"agent"}'
POD = ("f:spec", "f:template", "f:spec")


def entry(version: str, fields: JSONObject) -> JSONObject:
    return {"manager": "helm", "operation": "Apply", "apiVersion": version, "time": "t", "fieldsV1": fields}


def below(fields: JSONObject, *path: str) -> JSONObject:
    for key in reversed(path):
        fields = {key: fields}
    return fields


def document(version: str, pod: JSONObject, **metadata: JSONObject) -> JSONObject:
    return {"apiVersion": version, "metadata": {**metadata}, "spec": {"template": {"spec": pod}}}


def test_containers_have_managers_one_by_one_and_other_lists_as_a_whole() -> None:
    env: JSONObject = {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    container: JSONObject = {".": {}, "f:image": {}, "f:env": env}
    volumes: JSONObject = {'k:{"name":"scratch"}': {"f:name": {}}}
    fields = below({"f:containers": {AGENT: container}, "f:volumes": volumes}, *POD)
    there: JSONObject = {"name": "agent", "image": "v1", "env": [{"name": "A", "value": "1"}]}
    pod: JSONObject = {"containers": [{"name": "first"}, there], "volumes": [{"name": "scratch"}]}
    whole = below({"f:containers": {AGENT: {**container, "f:env": {}}}, "f:volumes": {}}, *POD)
    assert managers_for((entry(THEIRS, fields),), document(OURS, pod)) == [entry(OURS, whole)]


@pytest.mark.parametrize("version", [OURS, THEIRS])
def test_what_is_not_there_has_no_manager(version: str) -> None:
    former = THEIRS if version == OURS else OURS
    metadata: JSONObject = {"f:finalizers": {".": {}, 'v:"a"': {}, 'v:"b"': {}}, "f:annotations": {"f:lost": {}}}
    spec = below({"f:containers": {AGENT: {"f:image": {}, "f:command": {}}, 'k:{"name":"x"}': {".": {}}}}, *POD)
    fields: JSONObject = {"f:metadata": metadata, **spec}
    there = document(version, {"containers": [{"name": "agent", "image": "v1"}]})
    there["metadata"] = {"annotations": {"team": "infra"}, "finalizers": ["b"]}
    kept: JSONObject = {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"b"': {}}},
        **below({"f:containers": {AGENT: {"f:image": {}}}}, *POD),
    }
    nothing = entry(former, below({}, "f:spec", "f:minReadySeconds"))
    assert managers_for((entry(former, fields), nothing), there) == [entry(version, kept)]


@pytest.mark.parametrize("version", [OURS, THEIRS, "apps.kruise.io/v1alpha1"])
def test_the_managers_of_the_same_kind_are_kept_as_they_were(version: str) -> None:
    one = entry(version, {"f:spec": {"f:gone": {}}})
    there = document(THEIRS if version == THEIRS else OURS, {})
    assert managers_for((one,), there) == [one]


def test_those_of_the_status_are_left_out() -> None:
    status: JSONObject = {"manager": "kube-controller-manager", "subresource": "status"}
    there = native().document
    assert managers_of({**there, "metadata": {"managedFields": [status, entry(THEIRS, {})]}}) == (entry(THEIRS, {}),)
    assert managers_of(there) == ()


@pytest.mark.parametrize("back", [False, True])
def test_they_are_noted_from_the_first_write_to_the_last(back: bool) -> None:
    """By way of the other kind, and where it turns back half-way."""
    former = (ours() if back else native()).document
    fields: JSONObject = {"f:spec": {"f:template": {}}}
    mine = entry(str(former["apiVersion"]), fields)
    former = with_operations(former, (Operation(op="add", path=FIELD, value=[mine]),))
    there = (
        state.as_frozen_native(with_operations(former, state.stop_updates_of_ours(former)), 1)
        if back
        else state.as_waiting_ours(former)
    )
    begun = with_operations(former, state.stop_updates_of_ours(former) if back else state.freeze_native(former))
    _ends_with(there, entry(str(there["apiVersion"]), fields))
    _ends_with(begun, mine)


def _ends_with(begun: JSONObject, manager: JSONObject) -> None:
    mark = state.mark_of(begun)
    assert mark is not None
    end = state.put_native_in_charge if begun["apiVersion"] == THEIRS else state.put_ours_in_charge
    acting = with_operations(begun, end(begun, mark, 0))
    mark = state.mark_of(acting)
    assert mark is not None
    assert (mark.acting, mark.uid) == (True, "")
    done = with_operations(acting, state.give_back_managers(acting, mark))
    assert state.mark_of(done) is None
    assert value_at(done, *FIELD) == [manager]
