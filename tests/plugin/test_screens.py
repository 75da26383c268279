"""What holds for every screen, whatever the terminal. How each looks is in `golden`, once."""

from __future__ import annotations

import re

import pytest

from tests.beds.api import DAEMONSETS, NODES
from tests.plugin import scene as scenes
from tests.plugin.kept import story
from tests.plugin.scene import NAME, NAMESPACE, Opened, Scene
from tests.plugin.situations import CODES, in_zones

HERE = (NAME, "-n", NAMESPACE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@story
def cloud(scene: Scene) -> None:
    """Nodes with long names, which get revision 2 by steps."""
    scene.do(scenes.join(scene, [f"{zone}-ip-10-40-{zone}-211.eu-central-1.compute.internal" for zone in "abcd"]))
    scene.do(scene.api.create(DAEMONSETS, scenes.daemonset(steps=[{"nodes": 2, "soak": "10m"}, {"nodes": "100%"}])))
    scene.pass_time(60.0)
    scene.do(scene.edit({"spec": {"template": scenes.template("1.9.0")}}))


LONG_NAME = "prometheus-node-exporter-of-the-gpu-pool"


@story
def long_named(scene: Scene) -> None:
    """A DaemonSet with a long name, paused in mid-rollout, so that a command is to be typed."""
    scene.do(scenes.join(scene, ["a-01", "a-02"]))
    scene.do(scene.api.create(DAEMONSETS, scenes.daemonset_named(LONG_NAME)))
    scene.pass_time(60.0)
    paused = {"template": scenes.template("1.9.0"), **scenes.rolling(paused=True)}
    paused["template"]["metadata"]["labels"] = {"app": LONG_NAME}
    scene.do(scene.api.patch(DAEMONSETS, LONG_NAME, {"spec": paused}))
    scene.pass_time(5.0)


TEXTS: list[tuple[Opened, tuple[str, ...]]] = [
    *((state, ("status", *HERE)) for state in CODES),
    (in_zones, ("status", *HERE)),
    (long_named, ("status", LONG_NAME, "-n", NAMESPACE)),
    (scenes.canary, ("diff", NAME, "4", "7", "-n", NAMESPACE)),
    (scenes.canary, ("history", *HERE, "--revision", "7")),
]
"""Screens that say the same in a terminal of any width."""
TABLES: list[tuple[Opened, tuple[str, ...]]] = [
    (scenes.canary, ("list", "-A")),
    (scenes.canary, ("history", *HERE)),
    (scenes.held, ("promote", *HERE, "--dry-run")),
    (scenes.healthy, ("restart", *HERE, "--dry-run=client")),
    *((state, ("nodes", *HERE)) for state in (scenes.canary, scenes.in_place, scenes.preparing)),
    (in_zones, ("nodes", *HERE, "--by-domain")),
]
"""Screens that have more columns, or name more nodes, where there is more room."""
PLANS: list[tuple[Opened, tuple[str, ...]]] = [
    *((state, ("plan", *HERE)) for state in (scenes.canary, scenes.soaking, scenes.aborted, scenes.in_place, cloud)),
    (scenes.soaking, ("plan", *HERE, "--image", "*=agent:2", "--waves", "2")),
]
"""Screens that only name more nodes where there is more room."""


def _name(one: object) -> str:
    return one[0] if isinstance(one, tuple) else getattr(one, "__name__", "")


@pytest.mark.parametrize(("opened", "words"), [*TEXTS, *TABLES], ids=_name)
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(opened: Opened, words: tuple[str, ...]) -> None:
    with opened() as scene:
        shown = {columns: scene.run(*words, columns=columns).out for columns in (80, 120, 200)}
    for columns, text in shown.items():
        assert [line for line in text.splitlines() if len(line) > columns] == []
    if (opened, words) in TEXTS:
        missing = set(shown[200].split()) - set(shown[80].split())
        assert not missing, f"at 80 columns there is no {missing} in:\n{shown[80]}"


@pytest.mark.parametrize(("opened", "words"), PLANS, ids=_name)
def test_a_plan_leaves_out_only_names_of_nodes(opened: Opened, words: tuple[str, ...]) -> None:
    with opened() as scene:
        shown = {columns: scene.run(*words, columns=columns).out for columns in (80, 120, 200)}
        names = {node["metadata"]["name"] for node in scene.do(scene.api.list(NODES))}
    for columns, text in shown.items():
        assert [line for line in text.splitlines() if len(line) > columns or line.endswith("…")] == []
        missing = {word.strip(",:()") for word in set(shown[200].split()) - set(text.split())} - names
        assert not missing - {"|"}, f"at {columns} columns there is no {missing} in:\n{text}"


@pytest.mark.parametrize(("opened", "words"), [*TEXTS, *TABLES, *PLANS], ids=_name)
def test_colours_and_ascii_change_the_looks_only(opened: Opened, words: tuple[str, ...]) -> None:
    with opened() as scene:
        plain = scene.run(*words, columns=200).out  # with every column of a table
        coloured = scene.run(*words, columns=200, colour=True).out
        drawn = scene.run(*words, columns=200, only_ascii=True).out
    assert COLOUR.search(plain) is None
    assert COLOUR.sub("", coloured) == plain
    assert drawn.isascii()
    assert "??" not in drawn, f"question marks stand for what has no letter in ASCII:\n{drawn}"
    assert len(drawn.splitlines()) == len(plain.splitlines())


def test_a_command_that_is_too_long_for_a_line_can_still_be_typed() -> None:
    with long_named() as scene:
        shown = scene.run("status", LONG_NAME, "-n", NAMESPACE).out
        assert f"  Next       kubectl kruise-ds resume {LONG_NAME} \\\n             -n {NAMESPACE}\n" in shown
