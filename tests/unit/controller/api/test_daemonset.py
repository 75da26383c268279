"""From the bytes of a DaemonSet, or of a node, to what is cached."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.api import daemonset, node, template_identity
from controller.api.daemonset import DaemonSet, DaemonSetView, Rollout
from controller.api.names import (
    PREDOWNLOAD_WAIT_ANNOTATION,
    PROGRESS_DEADLINE_ANNOTATION,
    PROGRESS_DEADLINE_SECONDS,
    PROGRESSIVE_ANNOTATION,
)
from controller.api.node import NodeView
from controller.api.objects import FIELD_MANAGER, JSONObject, Key, ManagedFields, StatusWriters, epoch, status_writers


def record(spec: dict[str, Any] | None = None, **more: Any) -> DaemonSet:
    metadata = {"namespace": "default", "name": "demo", "uid": "u", "resourceVersion": "7", "generation": 4}
    raw = {"metadata": {**metadata, **more.pop("metadata", {})}, "spec": spec or {}, **more}
    return daemonset.project(msgspec.json.decode(msgspec.json.encode(raw), type=DaemonSetView))


def test_projection() -> None:
    template: Any = {"metadata": {"labels": {"app": "demo"}}, "spec": {"somethingNew": [1]}}
    found = record({"template": template, "burstReplicas": "10%"}, metadata={"annotations": {"a": "b"}})
    assert (found.key, found.ref.version, found.generation) == (Key("default", "demo"), "7", 4)
    assert found.annotations == {"a": "b"}
    assert found.spec.template == template, "unknown fields travel"
    assert found.spec.burst_replicas == "10%"
    assert found.identity == template_identity.identity(template)
    assert (found.status, found.terminating) == (None, False)
    assert record(metadata={"deletionTimestamp": "2026-11-21T10:00:00Z"}).terminating
    theirs = {"type": "Audited", "status": "True", "extra": {"x": 1}}
    status = record(status={"conditions": [theirs], "updateRevision": "v1", "observedGeneration": 3}).status
    assert status is not None
    assert (status.conditions, status.update_revision, status.observed_generation) == ((theirs,), "v1", 3)


def test_a_strategy_without_a_block_has_empty_settings_and_on_delete_none() -> None:
    assert record().rolling_update == daemonset.RollingUpdate()
    assert record({"updateStrategy": {"type": "RollingUpdate"}}).rolling_update == daemonset.RollingUpdate()
    block = {"type": "OnDelete", "rollingUpdate": {"partition": 3}}
    assert record({"updateStrategy": block}).rolling_update is None
    block = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3, "maxSurge": "20%", "paused": True}}
    rolling = record({"updateStrategy": block}).rolling_update
    assert rolling is not None
    assert (rolling.partition, rolling.max_surge, rolling.paused) == (3, "20%", True)


@pytest.mark.parametrize(
    ("lifecycle", "asks"),
    [
        (None, False),
        ({}, False),
        ({"preDelete": {}}, False),
        ({"preDelete": {"markPodNotReady": True}}, False),
        ({"preDelete": {"labelsHandler": {}}}, False),
        ({"preDelete": {"labelsHandler": {"a": "b"}}}, True),
        ({"preDelete": {"finalizersHandler": ["x"]}}, True),
    ],
)
def test_a_hook_that_asks_for_nothing_is_none(lifecycle: Any, asks: bool) -> None:
    assert (record({"lifecycle": lifecycle}).pre_delete is not None) is asks


@pytest.mark.parametrize(
    ("field", "annotation", "asked"),
    [
        (None, "true", True),
        (None, "false", False),
        (None, None, False),
        (False, "true", False),
        (True, None, True),
        (True, "false", True),
    ],
)
def test_the_annotation_counts_only_where_the_field_is_absent(
    field: bool | None, annotation: str | None, asked: bool
) -> None:
    scale = {} if field is None else {"scaleStrategy": {"partitionedScaling": field}}
    notes = {} if annotation is None else {PROGRESSIVE_ANNOTATION: annotation}
    assert record(scale, metadata={"annotations": notes}).partitioned_scaling is asked


@pytest.mark.parametrize(
    ("annotation", "seconds", "unreadable"),
    [
        (None, PROGRESS_DEADLINE_SECONDS, None),
        ("60", 60, None),
        ("2147483647", 2147483647, None),
        ("0", PROGRESS_DEADLINE_SECONDS, "0"),
        ("2147483648", PROGRESS_DEADLINE_SECONDS, "2147483648"),
        ("-1", PROGRESS_DEADLINE_SECONDS, "-1"),
        ("ten", PROGRESS_DEADLINE_SECONDS, "ten"),
        ("", PROGRESS_DEADLINE_SECONDS, ""),
    ],
)
def test_the_deadline_begins_after_min_ready_seconds(
    annotation: str | None, seconds: int, unreadable: str | None
) -> None:
    notes = {} if annotation is None else {PROGRESS_DEADLINE_ANNOTATION: annotation}
    found = record({"minReadySeconds": 30}, metadata={"annotations": notes})
    assert (found.progress_deadline, found.invalid(PROGRESS_DEADLINE_ANNOTATION)) == (seconds + 30, unreadable)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("annotation", "waits", "unreadable"),
    [
        (None, None, None),
        ("true", True, None),
        ("false", False, None),
        ("True", None, "True"),
        ("0", None, "0"),
        ("", None, ""),
    ],
)
def test_a_node_waits_for_its_image_as_the_annotation_says(
    in_place: bool, annotation: str | None, waits: bool | None, unreadable: str | None
) -> None:
    notes = {} if annotation is None else {PREDOWNLOAD_WAIT_ANNOTATION: annotation}
    rolling = {"rollingUpdateType": "InPlaceIfPossible" if in_place else "Standard"}
    found = record({"updateStrategy": {"rollingUpdate": rolling}}, metadata={"annotations": notes})
    assert found.waits_for_images is (in_place if waits is None else waits)
    assert found.invalid(PREDOWNLOAD_WAIT_ANNOTATION) == unreadable


@pytest.mark.parametrize("wrong", [{"burstReplicas": 1.5}, {"minReadySeconds": "5"}, {"template": []}])
def test_a_field_of_a_wrong_type_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        record(wrong)


def test_a_node_is_its_name_labels_and_taints() -> None:
    raw = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "x"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
    found = node.project(msgspec.convert(raw, NodeView))
    assert (found.key, found.uid, found.version, found.labels) == (Key("", "n"), "u", "3", {"a": "b"})
    assert found.unreachable
    bare = node.project(msgspec.convert({"metadata": {"name": "n"}}, NodeView))
    assert (bare.labels, bare.taints, bare.unreachable) == ({}, (), False)
    assert bare.same_placement(replace(bare, version="9"))
    for changed in ({"uid": "another"}, {"terminating": True}, {"labels": {"a": "c"}}, {"taints": found.taints}):
        assert not bare.same_placement(replace(bare, **changed))
    zones = {"topology.kubernetes.io/zone": "new", "failure-domain.beta.kubernetes.io/zone": "old"}
    assert replace(bare, labels=zones).zone == "new"


def test_a_rollout_is_past_its_steps_once_it_was_complete_at_the_last_one() -> None:
    complete = Rollout(completion_time="2026-11-21T12:00:00Z", step=1)
    assert (complete.is_past(1), complete.is_past(2)) == (True, False)
    assert not replace(complete, completion_time=None).is_past(1)


@pytest.mark.parametrize(("spec", "kept"), [({}, 10), ({"revisionHistoryLimit": 0}, 0)])
def test_the_history_limit(spec: dict[str, Any], kept: int) -> None:
    assert record(spec).spec.history_limit == kept


COUNTS: JSONObject = {"f:status": {"f:numberReady": {}}}
CONDITIONS: JSONObject = {"f:status": {"f:conditions": {}}}
MOMENTS = {"before": "2026-11-21T11:59:59Z", "noon": "2026-11-21T12:00:00Z", "later": "2026-11-21T12:00:01Z"}
BEFORE, NOON, LATER = (epoch(one) or 0.0 for one in MOMENTS.values())


def writers(words: str, *entries: ManagedFields) -> StatusWriters:
    """Of a status that was written so: `ours@noon them@later`."""
    pairs = [one.split("@") for one in words.split()]
    return status_writers([*(entry(FIELD_MANAGER if who == "ours" else who, when) for who, when in pairs), *entries])


def entry(manager: str, when: str, fields: JSONObject = COUNTS, subresource: str = "status") -> ManagedFields:
    return ManagedFields(manager=manager, time=MOMENTS[when], fields_v1=fields, subresource=subresource)


def test_the_last_of_several_others_is_named() -> None:
    found = writers("ours@before second@later first@noon")
    assert found == StatusWriters(ours=BEFORE, theirs=LATER, other="second")


@pytest.mark.parametrize(
    "other",
    [entry("kubectl-edit", "later"), entry("argocd", "later", CONDITIONS), entry("them", "later", subresource="")],
    ids=["a person", "a condition of its own", "not the status"],
)
def test_what_is_no_other_controller(other: ManagedFields) -> None:
    assert writers("ours@noon", other) == writers("ours@noon")


@pytest.mark.parametrize(
    ("before", "now", "rival"),
    [
        ("ours@noon", "ours@noon them@before", "them"),
        ("ours@noon", "ours@noon them@noon", "them"),
        ("ours@noon", "ours@noon them@later", "them"),
        ("ours@noon them@noon", "ours@noon them@noon", ""),
        ("ours@noon them@noon", "ours@noon them@later", "them"),
        ("them@noon", "them@noon ours@noon", ""),
        ("them@noon", "them@noon ours@later", ""),
        ("them@noon ours@noon", "them@noon ours@later", ""),
        ("ours@before first@before them@noon", "ours@later first@before", ""),
    ],
)
def test_a_writer_of_our_status_is_a_rival_if_its_entry_has_changed(before: str, now: str, rival: str) -> None:
    assert writers(now).other_controller_since(writers(before)) == rival


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        ("ours@noon them@later", LATER),
        ("ours@noon them@before", 0),
        ("them@noon", 0),
        ("them@noon ours@noon", 0),
        ("them@noon ours@later", 0),
    ],
)
def test_who_has_just_begun_goes_by_the_times(now: str, moment: float) -> None:
    assert writers(now).other_controller_wrote == moment
