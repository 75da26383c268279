"""`status` without the right to list nodes or pods: what is left, and by whose word it ends."""

from __future__ import annotations

import json

import pytest

from tests.plugin import scene as scenes
from tests.plugin.scene import NAME, canary, held
from tests.plugin.verbs.looking import STATUS, Opened


def test_without_the_right_to_list_nodes_there_is_no_grid_and_a_note() -> None:
    with canary() as scene:
        scene.door.forbid("list", "nodes")
        ran = scene.check("status/without-nodes", *STATUS)
    assert ran.code == 0
    assert "nodes: forbidden" in ran.err
    assert "zone-c" not in ran.out


def test_without_the_right_to_list_pods_it_still_says_how_far_it_is() -> None:
    with canary() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.check("status/without-pods", *STATUS)
        nodes = json.loads(scene.run(*STATUS, "-o", "json").out)["nodes"]
    assert ran.code == 0
    assert "right to list pods" in ran.err
    assert (nodes["updated"], nodes["updating"], nodes["old"], nodes["missing"]) == (4, 2, 18, 0)


@pytest.mark.parametrize("more", [("-w",), ("--exit-code",), ("-w", "-o", "json")])
@pytest.mark.parametrize(
    ("opened", "flags", "code", "words"),
    [
        (held, (), 0, ""),
        (held, ("--require-full",), 5, "is held at 8 of 24 nodes"),
        (held, ("--revision", "6"), 6, "it is 7 now"),
        (scenes.healthy, (), 0, ""),
        (scenes.paused, (), 5, "is paused at 6 of 24 nodes"),
        (scenes.on_delete, (), 5, "OnDelete"),
        (scenes.stalled, (), 4, "stalled at 7 of 8 nodes"),
        (scenes.refused, (), 4, "violates PodSecurity"),
    ],
)
def test_without_the_right_to_list_pods_it_ends_by_the_word_of_the_controller(
    opened: Opened, flags: tuple[str, ...], code: int, words: str, more: tuple[str, ...]
) -> None:
    with opened() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*STATUS, *more, *flags)
    assert (ran.code, words in ran.err) == (code, True), ran.err
    assert "right to list pods" in ran.err


@pytest.mark.parametrize(("opened", "code"), [(canary, 3), (scenes.abandoned, 4)])
def test_without_the_right_to_list_pods_what_does_not_end_is_given_up(opened: Opened, code: int) -> None:
    with opened() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*STATUS, "-w", "--timeout", "90s")
    assert ran.code == code, ran.err
    assert ran.out.count(f"{NAME} {'Progressing 4/8' if code == 3 else 'Pending'}") > 1


def test_without_the_right_to_list_pods_a_terminal_gets_the_outline() -> None:
    with held() as scene:
        scene.door.forbid("list", "pods")
        ran = scene.run(*STATUS, "-w", terminal=True)
    assert (ran.code, ran.err) == (0, "")
    assert "8 of 8 updated, 24 of 24 available" in ran.out
    assert "right to list pods" in ran.out


@pytest.mark.parametrize("opened", [canary, held, scenes.paused, scenes.healthy])
def test_without_the_right_to_list_pods_what_the_spec_says_is_in_the_document(opened: Opened) -> None:
    with opened() as scene:
        whole = json.loads(scene.run(*STATUS, "-o", "json").out)
        scene.door.forbid("list", "pods")
        told = json.loads(scene.run(*STATUS, "-o", "json").out)
    for key in ("phase", "generation", "revision", "strategy", "steps", "paused", "startedAt"):
        if key == "revision":
            assert told[key]["current"] == whole[key]["current"]
        else:
            assert told[key] == whole[key], key
    assert told["budget"] == {**whole["budget"], "by": []}
