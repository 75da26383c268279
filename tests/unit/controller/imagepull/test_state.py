"""What is remembered of a job between two passes, and what is not."""

from __future__ import annotations

from controller.api.image_pull_job import Targets
from controller.imagepull.state import JobState, begin
from controller.imagepull.world import Try
from tests.unit.controller.imagepull.worlds import job

AGAIN = Try(failures=1, due=0.0, why="ErrImagePull", puller="p")


def chosen(*nodes: str, having: frozenset[str] = frozenset()) -> JobState:
    memory = begin(job())
    memory.choose(Targets(nodes=nodes, having=having), (1,))
    return memory


def test_nothing_is_known_of_a_node_that_has_the_name_of_one_that_is_gone() -> None:
    memory = chosen("d", "c", "b", "a")
    memory.left.clear()
    memory.pulled, memory.failed, memory.tries = {"d", "a"}, {"c": "not found"}, {"b": AGAIN}
    memory.again = {"c": 600.0}
    for node in ("d", "c", "b"):
        memory.forget_node(node)
    memory.choose(Targets(nodes=("d", "c", "b", "a")), (2,))
    assert (list(memory.left), memory.pulled, memory.failed, memory.tries) == (["d", "c", "b"], {"a"}, {}, {})
    assert memory.again == {}


def test_a_failed_node_that_tells_of_the_image_has_it() -> None:
    memory = chosen("b", "a")
    memory.failed = {"b": "not found", "a": "not found"}
    memory.choose(Targets(nodes=("b", "a"), having=frozenset("b")), (2,))
    assert (memory.pulled, memory.failed, memory.left) == ({"b"}, {"a": "not found"}, {})


def test_what_was_tried_on_a_node_that_is_not_meant_any_more_is_forgotten() -> None:
    memory = chosen("c", "b", "a")
    memory.failed, memory.tries = {"c": "not found"}, {"b": AGAIN}
    memory.choose(Targets(nodes=("a",)), (2,))
    assert (memory.failed, memory.tries, list(memory.left)) == ({}, {}, ["a"])
