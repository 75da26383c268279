"""When a question is asked, and how several objects are changed with one question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.plugin.playing import Ran, Scene
from tests.plugin.verbs.few_nodes import HOME, acted, few_nodes, moving, patches, paused_ones


@pytest.fixture
def three() -> Iterator[Scene]:
    with few_nodes("log-agent", "net-agent") as opened:
        yield opened


# questions


def test_a_no_changes_nothing(scene: Scene) -> None:
    ran = acted(scene, "restart", terminal=True, typed="n\n")
    assert (ran.code, ran.out) == (6, "")
    assert ran.err.endswith("Continue? [y/N] nothing was changed\n")
    assert patches(scene) == []


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {"terminal": True, "typed": "y\n"}),
        (("-y",), {"terminal": True}),
        ((), {"terminal": True, "typed": "y\n", "elsewhere": ["stdout"]}),
        ((), {"terminal": True, "environ": {"KRUISE_DS_PROMPT": "never"}}),
        ((), {"typed": "yes\n", "environ": {"KRUISE_DS_PROMPT": "always"}}),
    ],
    ids=["yes", "flag", "a yes before | tee", "never", "always"],
)
def test_it_goes_ahead(scene: Scene, words: tuple[str, ...], options: dict[str, Any]) -> None:
    ran = acted(scene, "restart", *words, **options)
    assert (ran.code, ran.out.splitlines()[0]) == (0, "daemonset.apps.kruise.io/node-agent restarted")
    assert len(patches(scene)) == 1


@pytest.mark.parametrize("words", [("restart",), ("rollback",), ("promote", "--full")], ids=lambda words: words[0])
@pytest.mark.parametrize(
    "elsewhere", [("stdin",), ("stderr",), ("stdin", "stdout", "stderr")], ids=["</dev/null", "2>file", "no terminal"]
)
def test_a_question_that_cannot_be_read_and_answered_is_a_refusal(
    words: tuple[str, ...], elsewhere: tuple[str, ...]
) -> None:
    with moving() as scene:
        ran = acted(scene, *words, terminal=True, typed="y\n", elsewhere=elsewhere)
        assert (ran.code, ran.out, patches(scene)) == (6, "", [])
        assert ran.err.endswith(
            "error: node-agent would be changed, and there is no terminal to ask\n"
            "  hint: add --yes if that is what you want\n"
        )
        assert acted(scene, *words, "-y").code == 0


# several objects


@pytest.mark.parametrize("words", [("node-agent", "--all"), ("--all", "-l", "app=node-agent")])
def test_two_ways_to_choose_are_one_too_many(scene: Scene, words: tuple[str, ...]) -> None:
    ran = scene.run("pause", *words, *HOME)
    assert ran == Ran(2, "", "error: give names, -l or --all, not two of them\n")


def test_none_found_is_an_error(scene: Scene) -> None:
    ran = scene.run("pause", "-l", "app=other", *HOME)
    assert ran == Ran(1, "", "error: no Advanced DaemonSet was found in namespace observability\n")


def test_several_without_a_terminal_need_yes(three: Scene) -> None:
    ran = three.run("pause", "--all", *HOME)
    assert ran == Ran(
        6,
        "",
        "error: 3 DaemonSets would be changed, and there is no terminal to ask\n"
        "  hint: add --yes if that is what you want\n",
    )
    assert paused_ones(three) == []


def test_the_environment_says_yes_for_several_not_for_all_namespaces(three: Scene) -> None:
    never = {"KRUISE_DS_PROMPT": "never"}
    assert three.run("pause", "-A", environ=never).code == 6
    assert paused_ones(three) == []
    assert three.run("pause", "--all", *HOME, environ=never).code == 0
    assert paused_ones(three) == ["log-agent", "net-agent", "node-agent"]


def test_on_a_terminal_one_question_is_asked_for_all(three: Scene) -> None:
    three.run("pause", "log-agent", *HOME)
    ran = three.run("pause", "--all", *HOME, terminal=True, typed="y\n")
    results = ("log-agent already paused", "net-agent paused", "node-agent paused")
    assert ran.out.splitlines() == [f"daemonset.apps.kruise.io/{one}" for one in results], "the rest was told before"
    assert ran.err == (
        "3 DaemonSets:\n"
        "  observability/log-agent  already paused\n"
        "  observability/net-agent  paused\n"
        "    4 of 4 nodes are on revision 1; a later one is not rolled out before resume\n"
        "  observability/node-agent  paused\n"
        "    4 of 4 nodes are on revision 1; a later one is not rolled out before resume\n"
        "Continue? [y/N] "
    )
    assert paused_ones(three) == ["log-agent", "net-agent", "node-agent"]
    assert len(patches(three)) == 3, "one of them was paused already"


def test_and_a_no_is_a_no_for_all(three: Scene) -> None:
    assert three.run("restart", "--all", *HOME, terminal=True, typed="\n").code == 6
    assert patches(three) == []


def test_when_all_are_so_already_nothing_is_asked(three: Scene) -> None:
    three.run("pause", "--all", "-y", *HOME)
    ran = three.run("pause", "--all", "-q", *HOME)
    assert (ran.code, ran.err) == (0, "")


def test_all_namespaces_need_yes_even_on_a_terminal(three: Scene) -> None:
    ran = three.run("pause", "-A", terminal=True, typed="y\n")
    assert ran == Ran(
        6, "", "error: -A would change 3 DaemonSets in all namespaces\n  hint: add --yes if that is what you want\n"
    )
    assert paused_ones(three) == []


def test_one_that_is_refused_does_not_keep_the_others(three: Scene) -> None:
    strategy = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    three.do(three.edit({"spec": strategy}, "log-agent"))
    ran = three.run("pause", "--all", "-y", "-o", "json", *HOME)
    assert ran.code == 6
    assert [one["metadata"]["name"] for one in json.loads(ran.out)["items"]] == ["net-agent", "node-agent"]
    assert ran.err.startswith("error: cannot pause log-agent: updateStrategy is OnDelete")
    assert paused_ones(three) == ["net-agent", "node-agent"]
