"""A law over all verbs: `--dry-run=server` ends as the write would, and sends the same patch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import pytest
import yaml

from controller.kube.client import DRY_RUN
from kubectl_plugin.runner import ENTRIES
from tests.beds.simulator.cluster import Attempt
from tests.beds.simulator.refusal import Refused
from tests.plugin.scene import NAME, NAMESPACE, Ran, Scene, manifest
from tests.plugin.situations import IMAGE, VERBS, gone, held, paused, stalled
from tests.plugin.verbs.few_nodes import KIND, Between, few_nodes

TRY = "--dry-run=server"
ACTING: Mapping[str, tuple[str, ...]] = {
    **{row: words for row, words in VERBS.items() if words[0] not in ("migrate", "pull") and "--wait" not in words},
    "restart -y": ("restart", NAME, "-y"),
    "apply -y": ("apply", "-f", "MANIFEST", "-y"),
    "rollback -y --keep-paused": ("rollback", NAME, "-y", "--keep-paused"),
    "set-partition 0": ("set-partition", NAME, "0"),
    "set-image --hold-at": ("set-image", NAME, IMAGE, "--hold-at", "2"),
    "pause -A": ("pause", "-A"),
    "pause -A -y": ("pause", "-A", "-y"),
    "pull": VERBS["pull --no-wait"],
}
READING = {"list", "status", "nodes", "plan", "history", "diff", "doctor", "completion", "version"}
ACTING = {row: words for row, words in ACTING.items() if words[0] not in READING}


@contextmanager
def on_delete() -> Iterator[Scene]:
    with held() as scene:
        scene.do(scene.edit({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}))
        scene.pass_time(60.0)
        yield scene


@contextmanager
def read_only() -> Iterator[Scene]:
    with held() as scene:
        for verb in ("patch", "create"):
            scene.door.forbid(verb, "*.apps.kruise.io")
        yield scene


@contextmanager
def unwelcome() -> Iterator[Scene]:
    """A policy of the server refuses every change of a spec."""

    def policy(attempt: Attempt) -> None:
        if attempt.kind.plural in ("daemonsets", "imagepulljobs") and attempt.verb in ("create", "update"):
            raise Refused(422, "Invalid", "a freeze is in force")

    with held() as scene:
        scene.do(scene.controller.stop())
        scene.cluster.admission.append(policy)
        yield scene


def _between(scene: Scene, change: Callable[[int], dict[str, object]], which: range) -> None:
    numbers = count(1)

    async def step() -> None:
        await scene.edit(change(next(numbers)))

    scene.door = Between(scene.door, step, f"patch {KIND}", which)


@contextmanager
def overtaken() -> Iterator[Scene]:
    """Another client changes the spec before every patch."""
    with held() as scene:
        _between(scene, lambda number: {"spec": {"minReadySeconds": number}}, range(1, 9))
        yield scene


@contextmanager
def contended() -> Iterator[Scene]:
    """Another client's annotation comes before the first patches: they are tried again."""
    with held() as scene:
        _between(scene, lambda number: {"metadata": {"annotations": {"beat": str(number)}}}, range(1, 3))
        yield scene


SITUATIONS: Mapping[str, Callable[[], AbstractContextManager[Scene]]] = {
    "held": held,
    "paused": paused,
    "stalled": stalled,
    "gone": gone,
    "on_delete": on_delete,
    "read_only": read_only,
    "unwelcome": unwelcome,
    "overtaken": overtaken,
    "contended": contended,
}


def ran(scene: Scene, words: tuple[str, ...], path: Path, **options: object) -> tuple[Ran, list[bytes]]:
    """How it ended, and the bodies of its writes but for what every moment and every version makes different: those
    that counted, or that were dry runs."""
    path.write_text(yaml.safe_dump(manifest("2.0.0")))
    words = tuple(str(path) if word == "MANIFEST" else word for word in words)
    scene.door.link.seen.clear()
    ended = scene.run(*words, "-n", NAMESPACE, **options)  # type: ignore[arg-type]
    sent = [one for kind in (KIND, "imagepulljobs.apps.kruise.io") for one in scene.door.link.writes(kind)]
    tried = TRY in words
    mine = [one.request.body or b"" for one in sent if (DRY_RUN in one.request.query) == tried]
    moment = rb'"at\\?":\\?"[^"\\]*\\?"|"restartedAt":"[^"]*"|"value":"\d{4}-[^"]*Z"|resourceVersion","value":"\d+"'
    return ended, [re.sub(moment, b"", one) for one in mine]


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("row", ACTING)
def test_a_dry_run_ends_as_the_write_and_sends_the_same(row: str, situation: str, tmp_path: Path) -> None:
    words, path = ACTING[row], tmp_path / "manifest.yaml"
    with SITUATIONS[situation]() as scene:
        tried, would = ran(scene, (*words, TRY), path)
    with SITUATIONS[situation]() as scene:
        ended, wrote = ran(scene, words, path)
    assert tried.code == ended.code, (tried, ended)
    assert would[-len(wrote) :] == wrote or not wrote


def test_a_dry_run_without_consent_shows_the_change_all_the_same(tmp_path: Path) -> None:
    with held() as scene:
        (tried, _) = ran(scene, (*ACTING["rollback"], TRY), tmp_path / "manifest.yaml")
    assert tried.code == 6
    assert tried.out.startswith(f"daemonset.apps.kruise.io/{NAME} rolled back to revision 1 ")
    assert "\n  move back   2 nodes: a-04 a-03     re-create\n" in tried.out
    assert tried.err.startswith(
        "error: node-agent would be changed, and there is no terminal to ask\n  hint: add --yes"
    )


@pytest.mark.parametrize("more", [(), ("-y",)], ids=["unasked", "-y"])
def test_several_are_tried_as_they_would_be_written(more: tuple[str, ...], tmp_path: Path) -> None:
    """One of them cannot be paused."""
    with few_nodes("log-agent", "net-agent") as scene:
        strategy = {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
        scene.do(scene.edit({"spec": strategy}, "log-agent"))
        scene.pass_time(60.0)
        tried, would = ran(scene, ("pause", "--all", *more, TRY), tmp_path / "manifest.yaml")
        ended, wrote = ran(scene, ("pause", "--all", *more), tmp_path / "manifest.yaml")
    assert (tried.code, ended.code) == (6, 6)
    assert len(would) == 2
    assert wrote == (would if more else [])


@pytest.mark.parametrize("row", ["rollback", "apply", "restart"])
def test_a_dry_run_asks_no_question(row: str, tmp_path: Path) -> None:
    """It ends as after a yes, which may lift the pause of another person."""
    path = tmp_path / "manifest.yaml"
    with paused() as scene:
        tried, would = ran(scene, (*ACTING[row], TRY), path, terminal=True)
        ended, wrote = ran(scene, ACTING[row], path, terminal=True, typed="y\n")
    assert (tried.code, ended.code) == (0, 0)
    assert "Continue?" not in tried.err
    assert would[-1:] == wrote


def test_all_verbs_that_change_daemonsets_are_in_it() -> None:
    without = {"migrate", "undo"}  # whose dry run asks the server nothing; another's name
    assert {words[0] for words in ACTING.values()} == {one.name for one in ENTRIES} - READING - without
