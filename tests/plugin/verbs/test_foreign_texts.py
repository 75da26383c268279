"""A foreign text of an object is a part of our lines: it makes none of its own, and all of it is seen."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import replace

import pytest
import yaml

from tests.beds.api import DAEMONSETS
from tests.plugin.playing import Ran, Scene
from tests.plugin.scene import NAME, NAMESPACE, PACE, rolling, template
from tests.plugin.verbs.few_nodes import acted, few_nodes, get_between, moving

HOME = ("-n", NAMESPACE)
LIE = "error: all is lost"
UNSEEN = "\u202e\u200b\u2060\ufeff\u00ad\u034f\u3164\ufe0f\U000e0041\x9b\x7f"
"""Characters that turn a line round, take no place, or command a terminal."""
IMAGE = f"1.9.1{UNSEEN}\n{LIE}\nwarning: {LIE}"
NOTED = {
    "verb": "pause",
    "by": f"eve\n{LIE}{UNSEEN}",
    "at": "2025-11-20T09:04:10Z",
    "reason": f"x\n{LIE}",
    "client": "y",
}


async def lie(scene: Scene) -> None:
    annotations = {"kruise-ds/last-action": json.dumps(NOTED)}
    spec = {"template": template(IMAGE), "updateStrategy": {"rollingUpdate": {"paused": True}}}
    await scene.edit({"metadata": {"annotations": annotations}, "spec": spec})


def is_hiding(text: str) -> bool:
    return any(character in text for character in UNSEEN)


def lines(ran: Ran) -> list[str]:
    return [*ran.out.splitlines(), *ran.err.splitlines()]


@pytest.mark.parametrize(
    "words",
    [
        ("status", NAME),
        ("status", NAME, "-o", "wide"),
        ("status", NAME, "-w"),
        ("list", "-o", "wide"),
        ("history", NAME),
        ("nodes", NAME),
        ("diff", NAME),
        ("plan", NAME),
        ("rollback", NAME),
        ("resume", NAME),
        ("restart", NAME),
        ("rollback", NAME, "-y"),
    ],
    ids=" ".join,
)
def test_it_makes_no_line_of_its_own(words: tuple[str, ...]) -> None:
    with moving() as scene:
        scene.door.user = "bob"
        scene.do(lie(scene))
        scene.pass_time(2.0)
        shown = lines(scene.run(*words, *HOME, terminal=True, typed="n\n", environ={"TERM": "dumb"}))
    assert shown
    assert [line for line in shown if line.startswith((LIE, "warning: error")) or is_hiding(line)] == []


def test_neither_in_the_words_for_a_change_by_another_client() -> None:
    with moving() as scene:
        get_between(scene, lambda: lie(scene))
        ran = scene.run("pause", NAME, *HOME)
    assert (ran.code, len(ran.err.splitlines())) == (6, 2), ran.err
    assert "changed while you were looking" in ran.err
    assert not is_hiding(ran.err)


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_in_a_document_it_stands_as_it_is_escaped(form: str, read: object) -> None:
    assert callable(read)
    with moving() as scene:
        scene.do(lie(scene))
        ran = scene.run("pause", NAME, "--dry-run=client", "-o", form, *HOME)
    assert not is_hiding(ran.out)
    (container,) = read(ran.out)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.com/agent:{IMAGE}"


async def gone_soon(scene: Scene) -> None:
    await asyncio.sleep(3.0)
    await scene.api.delete(DAEMONSETS, NAME)


@pytest.mark.parametrize("verb", ["status", "nodes"])
def test_in_the_lines_of_a_watch_too(verb: str) -> None:
    said = f"gone{UNSEEN}"
    with few_nodes() as scene:
        scene.nodes.behave("a-04", replace(PACE, missing_images=("*:2",), registry=said))
        scene.do(scene.edit({"spec": {"template": template("2"), **rolling(maxUnavailable=1)}}))
        scene.pass_time(60.0)
        ran = scene.run(verb, NAME, *HOME, "-w", "-o", "json", meanwhile=gone_soon)
    assert not is_hiding(ran.out)
    assert said in json.dumps(json.loads(ran.out.splitlines()[0]), ensure_ascii=False)


def test_a_printed_patch_brings_what_was_asked_for() -> None:
    with few_nodes() as scene:
        patch = acted(scene, "restart", "--print-patch", "--reason", f"it's{UNSEEN}").out
    assert not is_hiding(patch)
    values = [one["value"] for one in json.loads(shlex.split(patch)[-1])]
    assert {"kubernetes.io/change-cause": f"it's{UNSEEN}"} in values
