"""set-partition: pods kept old, or nodes to update; told in nodes, and so it happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import canary
from tests.plugin.verbs.few_nodes import HOME, acted, few_nodes, patches, rolling_of, stored

RESULT = "daemonset.apps.kruise.io/node-agent partition"


@pytest.fixture
def scene() -> Iterator[Scene]:
    with few_nodes(partition=2) as opened:
        yield opened


def test_the_mock_up() -> None:
    with canary() as scene:
        scene.check("acting/set-partition", "set-partition", "node-agent", "8", "-n", "observability")
        assert rolling_of(stored(scene))["partition"] == 8


def test_the_mock_up_in_nodes_to_update() -> None:
    with canary() as scene:
        scene.check(
            "acting/set-partition-update", "set-partition", "node-agent", "--update", "1", "-n", "observability"
        )
        assert rolling_of(stored(scene))["partition"] == 23


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (("3",), 3),
        (("25%",), "25%"),
        (("--update", "1"), 3),
        (("--update", "75%"), "25%"),
        (("--update=30%",), "70%"),
    ],
)
def test_a_value_is_kept_as_it_is_and_update_as_what_is_left_of_it(
    scene: Scene, words: tuple[str, ...], kept: int | str
) -> None:
    scene.do(scene.edit({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
    assert acted(scene, "set-partition", *words).code == 0
    assert rolling_of(stored(scene))["partition"] == kept


@pytest.mark.parametrize(
    "words",
    [
        *((name, "1") for name in ("node-agent", "ads/node-agent", "daemonset.apps.kruise.io/node-agent")),
        ("-l", "app=node-agent", "1"),
        ("--all", "--update", "3"),
    ],
    ids=" ".join,
)
def test_objects_in_any_spelling_come_before_the_value(scene: Scene, words: tuple[str, ...]) -> None:
    assert scene.run("set-partition", *words, "-q", *HOME) == Ran(0, f"{RESULT} 2 -> 1\n", "")


@pytest.mark.parametrize("words", [(), ("node-agent",), ("--update", "1"), ("1",)])
def test_a_name_and_a_value_are_needed(scene: Scene, words: tuple[str, ...]) -> None:
    assert scene.run("set-partition", *words, *HOME) == Ran(
        2,
        "",
        "error: which one, and how many pods stay old? use set-partition NAME VALUE\n"
        "  hint: or in nodes to update: kubectl kruise-ds set-partition NAME --update 1\n",
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("1", "--update", "1"), "give VALUE or --update, not both"),
        *(
            ((value,), f'invalid partition "{value}": use a number (0 or more) or a percentage from 0% to 100%')
            for value in ("half", "1.5", "101%", "5%5", "")
        ),
    ],
)
def test_a_bad_value(scene: Scene, words: tuple[str, ...], error: str) -> None:
    assert acted(scene, "set-partition", *words) == Ran(2, "", f"error: {error}\n")
    assert patches(scene) == []


MISREAD = (
    "warning: partition 30 keeps 30 pods OLD, but there are only 4 nodes: nothing will be updated\n"
    "  hint: to update 30% of the nodes: kubectl kruise-ds set-partition node-agent -n observability --update 30%\n"
    "  hint: to stop updates: kubectl kruise-ds pause node-agent -n observability\n"
)


@pytest.mark.parametrize("options", [{}, {"terminal": True}], ids=["in a script", "on a terminal"])
def test_what_only_holds_nodes_back_is_never_asked_for(scene: Scene, options: dict[str, Any]) -> None:
    assert acted(scene, "set-partition", "30", "-q", **options) == Ran(0, f"{RESULT} 2 -> 30\n", MISREAD)
    assert rolling_of(stored(scene))["partition"] == 30
