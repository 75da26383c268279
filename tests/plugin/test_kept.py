"""Which scenes are shown a second time: those that look the same as when they were first shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controller.kube.requests import Request
from tests.beds.api import DAEMONSETS, PODS, Api, Object
from tests.beds.nodes.stages import DEAD
from tests.beds.simulator.kinds import PODS as PODS_KIND
from tests.plugin import kept
from tests.plugin.playing import NAMESPACE, PATIENCE, Scene
from tests.plugin.scene import NAME, daemonset
from tests.plugin.users_machine import USER
from tests.plugin.verbs.few_nodes import HOME, few_nodes

LOOKS = ("status", "plan", "nodes", "history", "diff")


@pytest.fixture(autouse=True)
def _nothing_from_before() -> None:
    kept.end_all()


@pytest.mark.parametrize("verb", LOOKS)
def test_a_scene_that_was_looked_at_is_shown_again(verb: str) -> None:
    with few_nodes() as scene:
        first = scene.run(verb, NAME, *HOME)
    for _ in range(2):
        with few_nodes() as again:
            assert again is scene
            assert again.run(verb, NAME, *HOME) == first


def test_one_of_other_words_is_another_one() -> None:
    with few_nodes(partition=2) as scene:
        pass
    with few_nodes(partition=3) as other:
        assert other is not scene


def test_two_that_are_open_at_a_time_are_two() -> None:
    with few_nodes() as scene, few_nodes() as other:
        assert other is not scene
    with few_nodes() as again:
        assert again is other


def edit(scene: Scene, value: str | None) -> Object:
    return scene.do(scene.edit({"metadata": {"annotations": {"a": value}}}))


def stored_in_place(scene: Scene) -> None:
    (stored, *_) = next(iter(of_kind.values()) for of_kind in scene.cluster.store.objects.values() if of_kind)
    stored.object["metadata"]["labels"] = {"a": "b"}


async def begun() -> asyncio.Task[None]:
    """Something that happens later."""
    return asyncio.create_task(asyncio.sleep(PATIENCE))


def other() -> Object:
    return {**daemonset(), "metadata": {"name": "other"}}


TOUCHES: dict[str, Callable[[Scene], Any]] = {
    "an edit": lambda scene: edit(scene, "b"),
    "an edit that was taken back": lambda scene: (edit(scene, "b"), edit(scene, None)),
    "a dry run, after which the next uid is another one": lambda scene: scene.do(
        scene.api.create(DAEMONSETS, other(), dryRun="All")
    ),
    "a stored object": stored_in_place,
    "a task": lambda scene: scene.do(begun()),
    "a part": lambda scene: setattr(scene, "api", Api(scene.api.transport, NAMESPACE)),
    "a second": lambda scene: scene.pass_time(1.0),
    "a pod": lambda scene: scene.do(scene.api.delete(PODS, scene.do(scene.pod_on("a-01"))["metadata"]["name"])),
    "a node": lambda scene: scene.nodes.behave("a-01", DEAD),
    "all nodes": lambda scene: scene.nodes.behave("*", DEAD),
    "who decides": lambda scene: scene.cluster.admission.append(print),
    "what cannot be changed": lambda scene: scene.cluster.frozen.add("uid"),
    "what is remembered": lambda scene: scene.cluster.store.compact(),
    "a watch": lambda scene: next(iter(scene.cluster.store.watches[PODS_KIND])).close(),
    "what the server understands": lambda scene: setattr(scene.cluster, "watch_list", False),
    "the controller": lambda scene: scene.do(scene.controller.kill()),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_one_that_was_touched_is_ended_and_the_next_is_as_the_first_was(touch: Callable[[Scene], Any]) -> None:
    with few_nodes() as scene:
        first = scene.run("nodes", NAME, *HOME)
        touch(scene)
    with pytest.raises(RuntimeError, match="Runner is closed"):
        scene.now()
    with few_nodes() as fresh:
        assert fresh is not scene
        assert fresh.run("nodes", NAME, *HOME) == first


def test_after_a_failure_what_was_touched_does_not_matter() -> None:
    with pytest.raises(AssertionError), few_nodes() as scene:
        raise AssertionError
    with few_nodes() as fresh:
        assert fresh is not scene


def test_the_door_is_as_wide_as_at_first_and_unused() -> None:
    with few_nodes() as scene:
        scene.door.user = "bob@example.com"
        scene.door.forbid("list", "nodes")
        assert scene.do(scene.door.link.exchange(Request(method="GET", path="/api/v1/nodes"))).status == 403
        scene.door.link.latency = 1.0
    with few_nodes() as again:
        assert again is scene
        assert (again.door.user, again.door.logs, list(again.door.link.seen)) == (USER, {}, [])
        assert again.run("nodes", NAME, *HOME).code == 0


def test_at_the_end_none_runs() -> None:
    with few_nodes() as scene:
        pass
    kept.end_all()
    with pytest.raises(RuntimeError, match="Runner is closed"):
        scene.now()
