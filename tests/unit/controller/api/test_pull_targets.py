"""Which nodes a job means."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.api.image_pull_job import targets
from controller.api.wellknown import TAINT_NOT_READY, TAINT_UNREACHABLE
from tests.beds.worlds import node, taint
from tests.unit.controller.imagepull.worlds import job

NODES = (node("a", labels={"pool": "gpu"}), node("c"), node("b", labels={"pool": "cpu"}))


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, ["c", "b", "a"]),
        ({}, ["c", "b", "a"]),
        ({"names": ["b", "x"]}, ["b"]),
        ({"names": []}, ["c", "b", "a"]),
        ({"matchLabels": {"pool": "gpu"}}, ["a"]),
        ({"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, ["b", "a"]),
    ],
)
def test_nodes_by_name_or_label_the_last_name_first(selector: dict[str, Any] | None, wanted: list[str]) -> None:
    asked = job() if selector is None else job(selector=selector)
    assert list(targets(asked, NODES, None).nodes) == wanted


def test_nodes_by_their_pods() -> None:
    assert list(targets(job(podSelector={}), NODES, {"a", "gone"}).nodes) == ["a"]
    assert list(targets(job(podSelector={}), NODES, set()).nodes) == []


def test_a_node_without_a_machine_is_none() -> None:
    assert list(targets(job(), [node("v", labels={"type": "virtual-kubelet"})], None).nodes) == []


def test_nodes_on_which_nothing_starts_are_known() -> None:
    away = (node("a", taint(TAINT_UNREACHABLE)), node("b", taint(TAINT_NOT_READY)), node("c", taint("dedicated")))
    assert targets(job(), away, None).silent == {"a", "b"}


def test_nodes_that_list_the_image_have_it_unless_always_is_asked() -> None:
    there = replace(node("a"), images=("docker.io/library/agent:v2",))
    assert targets(job(), [there, node("b")], None).having == {"a"}
    assert targets(job(imagePullPolicy="Always"), [there], None).having == frozenset()
