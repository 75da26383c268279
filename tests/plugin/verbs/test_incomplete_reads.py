"""A law over all verbs that write: what is written never depends on what could be read, or in time.

With reads missing a verb writes what it writes with all of them, or it ends with another code than 0 and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.kube.client import DRY_RUN
from kubectl_plugin.runner import ENTRIES
from tests.beds.api import DAEMONSETS
from tests.beds.simulator.faults import Answer, Effect, Hang, Rule
from tests.plugin.kept import story
from tests.plugin.scene import NAME, Scene, manifest, rolling, written
from tests.plugin.verbs.few_nodes import HOME, KIND, acted, moving

JOBS = "imagepulljobs.apps.kruise.io"
IMAGE = "registry.example.com/agent:2.0.0"
VERBS: Mapping[str, tuple[str, ...]] = {
    " ".join(words): words
    for words in (
        ("pause",),
        ("resume",),
        ("set-partition", "1"),
        ("set-partition", "0"),
        ("set-partition", "25%"),
        ("set-partition", "9"),
        ("set-partition", "--update", "3"),
        ("set-partition", "--update", "75%"),
        ("promote",),
        ("promote", "--full", "-y"),
        ("retry",),
        ("rollback", "-y"),
        ("restart", "-y"),
        ("set-image", f"agent={IMAGE}"),
        ("apply", "-y"),
        ("pull", IMAGE, "--no-wait"),
    )
}
REFUSED, LATE = Answer(403, "Forbidden", "no right to it"), Hang()
LISTS = ("pods", "nodes", "controllerrevisions*")
MISSING: tuple[tuple[str, tuple[str, ...], Effect, bool], ...] = (
    *((f"no right to {one}", (one,), REFUSED, True) for one in LISTS),
    ("no right to any list", LISTS, REFUSED, True),
    ("no list comes", LISTS, LATE, True),
    ("no right to nodes, and no status yet", ("nodes",), REFUSED, False),
    ("no right to pods, and no status yet", ("pods",), REFUSED, False),
)


@story
def by_percent(scene: Scene, /) -> None:
    """The partition is a percentage."""
    moving.play(scene)
    scene.do(scene.edit({"spec": rolling(partition="50%")}))
    scene.pass_time(60.0)


@contextmanager
def seen(*, status: bool = True) -> Iterator[Scene]:
    """Or of a controller that has written no status so far."""
    with by_percent() as scene:
        if not status:
            scene.do(scene.controller.stop())
            scene.do(scene.api.patch(DAEMONSETS, NAME, [{"op": "remove", "path": "/status"}], sub="status"))
        yield scene


def outcome(scene: Scene, words: tuple[str, ...], path: Path) -> tuple[int, list[Any], str]:
    """The exit code, what was written without annotations and versions, and stderr."""
    verb, *more = words
    if verb == "pull":
        ran = scene.run(*words, *HOME)
    elif verb == "apply":
        ran = scene.run(verb, "-f", written(path, manifest("2.0.0", partition=1)), *more, *HOME)
    else:
        ran = acted(scene, *words)
    sent = [one for kind in (KIND, JOBS) for one in scene.door.link.writes(kind) if one.status < 300]
    return ran.code, [_meant(one.request.body or b"") for one in sent if DRY_RUN not in one.request.query], ran.err


def _meant(body: bytes) -> Any:
    found = msgspec.json.decode(body)
    if isinstance(found, dict):
        return found["spec"]
    for one in found:  # a restart has the time of its look in it
        if "restartedAt" in one["path"] or one["path"] == "/spec/template/metadata/annotations":
            one["value"] = "now"
    return [one for one in found if not one["path"].startswith("/metadata/")]


@pytest.mark.parametrize("words", VERBS.values(), ids=VERBS.keys())
def test_what_is_not_read_decides_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    with seen() as scene:
        code, patches, err = outcome(scene, words, tmp_path)
        assert code in (0, 6), err
    broken = []
    for what, lists, effect, status in MISSING:
        with seen(status=status) as scene:
            for one in lists:
                scene.door.link.faults.add(Rule(effect, verb="list", resource=one))
            ended = outcome(scene, words, tmp_path)
            if ended[:2] != (code, patches) and (ended[0] == 0 or ended[1]):
                broken.append((what, ended, patches))
    assert broken == []


def test_all_verbs_that_write_are_in_it() -> None:
    reading = {"status", "list", "nodes", "plan", "history", "diff", "doctor", "version", "completion"}
    whole = {"migrate"}  # reads everything, and does not begin without
    assert {words[0] for words in VERBS.values()} == {one.name for one in ENTRIES} - reading - whole - {"undo"}
