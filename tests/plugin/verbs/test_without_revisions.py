"""The looking verbs without the right to list revisions: all that is known is told, and no number."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.plugin.scene import NAME, NAMESPACE, Scene, held

NOTE = "note: not everything could be read: controllerrevisions: forbidden\n"
HERE = ("-n", NAMESPACE)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with held() as opened:
        opened.door.forbid("list", "controllerrevisions*")
        yield opened


def test_status_leaves_the_number_out(scene: Scene) -> None:
    ran = scene.run("status", NAME, *HERE)
    assert (ran.code, ran.err) == (0, NOTE)
    assert "8 of 24 nodes on revision ?" in ran.out
    told = json.loads(scene.run("status", NAME, *HERE, "-o", "json").out)
    assert (told["phase"], told["nodes"]["updated"], told["nodes"]["old"]) == ("Held", 8, 16)
    assert (told["revision"]["current"], told["revision"]["previous"]) == (None, None)


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        ((), 0, ""),
        (("--require-full",), 5, "is held at 8 of 24 nodes"),
        (("--revision", "7"), 1, "cannot be told without the right to list controllerrevisions"),
    ],
)
@pytest.mark.parametrize("how", ["-w", "--exit-code"])
def test_waiting_ends_as_ever_but_not_for_a_number(
    scene: Scene, flags: tuple[str, ...], code: int, words: str, how: str
) -> None:
    ran = scene.run("status", NAME, *HERE, how, *flags)
    assert (ran.code, words in ran.err) == (code, True), ran.err


def test_watched_the_right_is_still_missing(scene: Scene) -> None:
    told = json.loads(scene.run("status", NAME, *HERE, "-w", "-o", "json").out.splitlines()[-1])
    assert told["unreadable"] == ["controllerrevisions: forbidden"]
    assert told["revision"]["current"] is None


def test_nodes_and_list_leave_the_number_out(scene: Scene) -> None:
    ran = scene.run("nodes", NAME, *HERE, columns=120)
    assert (ran.code, ran.err) == (0, NOTE)
    by_node = {line.split()[0]: line.split()[2:4] for line in ran.out.splitlines()[1:25]}
    assert (by_node["c-08"], by_node["a-01"]) == (["updated", "?"], ["old", "?"])
    listed = scene.run("list", *HERE, columns=120)
    assert (listed.code, listed.err) == (0, NOTE)
    header, line, *_ = listed.out.splitlines()
    assert line[header.index("REV") : header.index("SINCE")].strip() == "?"
    document = json.loads(scene.run("list", *HERE, "-o", "json").out)
    assert document["items"][0]["revision"] is None


def test_a_plan_would_be_a_guess(scene: Scene) -> None:
    ran = scene.run("plan", NAME, *HERE)
    assert (ran.code, ran.out) == (1, "")
    assert (
        ran.err == f"error: a plan for {NAME} needs the right to list controllerrevisions in namespace {NAMESPACE}\n"
    )
