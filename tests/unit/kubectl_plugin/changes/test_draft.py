"""JSON Patch in memory: what a draft writes down does to the original what it did to the draft."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.api.objects import JSONObject, value_at
from kubectl_plugin.changes.edit import Draft, with_operations

PARTITION = ("spec", "updateStrategy", "rollingUpdate", "partition")


@pytest.mark.parametrize(
    ("document", "path", "value"),
    [
        ({}, "/spec", {"updateStrategy": {"rollingUpdate": {"partition": 8}}}),
        ({"spec": {}}, "/spec/updateStrategy", {"rollingUpdate": {"partition": 8}}),
        ({"spec": {"updateStrategy": None}}, "/spec/updateStrategy", {"rollingUpdate": {"partition": 8}}),
        (
            {"spec": {"updateStrategy": {"type": "RollingUpdate"}}},
            "/spec/updateStrategy/rollingUpdate",
            {"partition": 8},
        ),
        ({"spec": {"updateStrategy": {"rollingUpdate": {}}}}, "/spec/updateStrategy/rollingUpdate/partition", 8),
        (
            {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 16}}}},
            "/spec/updateStrategy/rollingUpdate/partition",
            8,
        ),
    ],
)
def test_missing_parents_are_made_by_the_one_operation(document: JSONObject, path: str, value: Any) -> None:
    draft = Draft(document)
    draft.set(8, *PARTITION)
    assert draft.operations == ({"op": "add", "path": path, "value": value},)
    assert value_at(with_operations(document, draft.operations), *PARTITION) == 8


def test_a_second_setting_finds_the_parents_that_the_first_one_made() -> None:
    draft = Draft({"spec": {}})
    draft.set(8, *PARTITION)
    draft.set(True, *PARTITION[:-1], "paused")
    assert with_operations({"spec": {}}, draft.operations) == {
        "spec": {"updateStrategy": {"rollingUpdate": {"partition": 8, "paused": True}}}
    }


def test_what_is_as_wanted_makes_no_operation() -> None:
    draft = Draft({"a": {"b": 1}})
    draft.set(1, "a", "b")
    draft.drop("a", "c")
    draft.drop("x", "y")
    assert draft.operations == ()


@pytest.mark.parametrize(("there", "wanted"), [(1, True), (False, 0), ({"a": [1]}, {"a": [True]})])
def test_a_number_is_no_truth(there: Any, wanted: Any) -> None:
    draft = Draft({"a": there})
    draft.set(wanted, "a")
    assert draft.operations == ({"op": "add", "path": "/a", "value": wanted},)


def test_an_entry_of_a_list_is_replaced_and_nothing_moves() -> None:
    document: JSONObject = {"list": [1, 2, 3], "containers": [{"image": "a"}, {"image": "b"}]}
    draft = Draft(document)
    draft.set(9, "list", "1")
    draft.set("c", "containers", "0", "image")
    assert with_operations(document, draft.operations) == {
        "list": [1, 9, 3],
        "containers": [{"image": "c"}, {"image": "b"}],
    }


def test_keys_with_slashes_and_tildes_are_keys() -> None:
    draft = Draft({"metadata": {"annotations": {"kruise-ds/steps": "8,0", "a~b": "1"}}})
    draft.set("x", "metadata", "annotations", "kruise-ds/last-action")
    draft.drop("metadata", "annotations", "kruise-ds/steps")
    draft.drop("metadata", "annotations", "a~b")
    after = with_operations({"metadata": {"annotations": {"kruise-ds/steps": "8,0", "a~b": "1"}}}, draft.operations)
    assert after == {"metadata": {"annotations": {"kruise-ds/last-action": "x"}}}


def test_the_original_stays_as_it_was() -> None:
    document: JSONObject = {"spec": {"list": [{"a": 1}]}}
    before = copy.deepcopy(document)
    with_operations(
        document, ({"op": "add", "path": "/spec/list/0/a", "value": 2}, {"op": "remove", "path": "/spec/list/0"})
    )
    Draft(document).set(2, "spec", "list", "0", "a")
    assert document == before


def test_a_list_takes_an_addition_at_its_end_and_before_an_entry() -> None:
    operations: tuple[JSONObject, ...] = (
        {"op": "add", "path": "/list/-", "value": 3},
        {"op": "add", "path": "/list/0", "value": 0},
    )
    assert with_operations({"list": [1]}, operations) == {"list": [0, 1, 3]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/absent", "value": 1},
        {"op": "remove", "path": "/absent"},
        {"op": "add", "path": "/absent/child", "value": 1},
        {"op": "replace", "path": "/list/3", "value": 1},
    ],
)
def test_what_the_server_refuses_is_refused(operation: JSONObject) -> None:
    with pytest.raises(LookupError):
        with_operations({"list": []}, (operation,))


def test_other_operations_are_not_ours() -> None:
    with pytest.raises(ValueError, match="test is not a supported JSON Patch operation"):
        with_operations({"a": 1}, ({"op": "test", "path": "/a", "value": 1},))
