"""The table of exit codes in the README, tried: every verb in every situation that it can be in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from controller.kube.client import DRY_RUN
from controller.kube.request import Request, Response
from kubectl_plugin.failures import ExitCode
from kubectl_plugin.program import ENTRIES
from tests.beds.api import DAEMONSETS
from tests.beds.simulator.faults import Answer, Rule
from tests.plugin import scene as scenes
from tests.plugin.door import Door
from tests.plugin.kept import story
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, rolling
from tests.plugin.verbs.few_nodes import KIND, Between, few_nodes
from tests.plugin.verbs.test_plan import manifest

README = Path(__file__).parents[2] / "README.md"
ROW = re.compile(r"^\| ([0-9, ]+) \| \S", re.MULTILINE)
IMAGE = "agent=registry.example.com/agent:2.0.0"
OURS = "*.apps.kruise.io"
WAIT = ("--wait", "--timeout", "90s")

VERBS: Mapping[str, tuple[str, ...]] = {
    "status": ("status", NAME),
    "status -w": ("status", NAME, "-w", "--timeout", "90s"),
    "status --exit-code": ("status", NAME, "--exit-code"),
    "nodes": ("nodes", NAME),
    "plan": ("plan", NAME),
    "plan --exit-code": ("plan", NAME, "--image", IMAGE, "--exit-code"),
    "history": ("history", NAME),
    "diff": ("diff", NAME),
    "pause": ("pause", NAME),
    "resume": ("resume", NAME),
    "set-partition": ("set-partition", NAME, "1"),
    "promote": ("promote", NAME, "--to", "1"),
    "promote --wait": ("promote", NAME, "--to", "1", *WAIT),
    "rollback": ("rollback", NAME),
    "rollback -y": ("rollback", NAME, "-y"),
    "restart": ("restart", NAME),
    "restart -y --wait": ("restart", NAME, "-y", *WAIT),
    "set-image": ("set-image", NAME, IMAGE),
    "set-image --wait": ("set-image", NAME, IMAGE, *WAIT),
    "apply": ("apply", "-f", "MANIFEST"),
    "apply -y --wait": ("apply", "-f", "MANIFEST", "-y", "--hold-at", "2", *WAIT),
    "pull": ("pull", IMAGE.partition("=")[2], "--timeout", "90s"),
    "pull --no-wait": ("pull", IMAGE.partition("=")[2], "--no-wait"),
}


@story
def held(scene: Scene, /, **settings: object) -> None:
    """At 2 of 4 nodes of revision 2."""
    few_nodes.play(scene)
    scene.nodes.behave("*", PACE)
    scene.do(scene.edit({"spec": {"template": scenes.template("1.9.0"), **rolling(partition=2, **settings)}}))
    scene.pass_time(600.0)


@story
def paused(scene: Scene) -> None:
    """By somebody else, who has left no note."""
    held.play(scene, paused=True)


@story
def stuck(scene: Scene) -> None:
    """New pods never get ready, since a moment."""
    held.play(scene)
    scene.nodes.behave("*", replace(PACE, ready=None))
    scene.do(scene.edit({"spec": rolling(partition=0)}))
    scene.pass_time(60.0)


@story
def stalled(scene: Scene) -> None:
    stuck.play(scene)
    scene.pass_time(1200.0)


@contextmanager
def broken() -> Iterator[Scene]:
    with held() as scene:
        scene.door.link.faults.add(Rule(Answer(500, "InternalError", "etcd is away"), resource=OURS))
        yield scene


@contextmanager
def forbidden() -> Iterator[Scene]:
    with held() as scene:
        for verb in ("get", "list", "watch", "patch", "create"):
            scene.door.forbid(verb, OURS)
        yield scene


@contextmanager
def gone() -> Iterator[Scene]:
    with few_nodes() as scene:
        scene.do(scene.api.delete(DAEMONSETS, NAME))
        scene.pass_time(60.0)
        yield scene


@contextmanager
def overtaken() -> Iterator[Scene]:
    """Somebody changes the spec before the write."""
    with held() as scene:

        async def change() -> None:
            await scene.edit({"spec": {"minReadySeconds": 7}})

        scene.door = Overtaking(scene.door, change, f"patch {KIND}", (1,))
        yield scene


class Overtaking(Between):
    """Dry runs do not count."""

    async def exchange(self, request: Request) -> Response:
        return await (Door.exchange(self, request) if DRY_RUN in request.query else super().exchange(request))


SITUATIONS: Mapping[str, Callable[[], AbstractContextManager[Scene]]] = {
    "held": held,
    "paused": paused,
    "stuck": stuck,
    "stalled": stalled,
    "broken": broken,
    "forbidden": forbidden,
    "gone": gone,
    "overtaken": overtaken,
}
TABLE = """
                    held paused stuck stalled broken forbidden gone overtaken
status              0    0      0     0       1      1         1    0
status -w           0    5      3     4       1      1         1    0
status --exit-code  0    5      3     4       1      1         1    0
nodes               0    0      0     0       1      1         1    0
plan                0    0      0     0       1      1         1    0
plan --exit-code    7    0      7     7       1      1         1    7
history             0    0      0     0       1      1         1    0
diff                0    0      0     0       1      1         1    0
pause               0    0      0     0       1      1         1    6
resume              0    0      0     0       1      1         1    0
set-partition       0    0      0     0       1      1         1    6
promote             0    6      6     6       1      1         1    6
promote --wait      0    5      6     6       1      1         1    6
rollback            6    6      6     6       1      1         1    6
rollback -y         0    6      0     0       1      1         1    6
restart             6    6      6     6       1      1         1    6
restart -y --wait   0    5      3     3       1      1         1    6
set-image           0    0      0     0       1      1         1    6
set-image --wait    0    5      3     3       1      1         1    6
apply               6    6      6     6       1      1         6    6
apply -y --wait     0    5      3     3       1      1         0    6
pull                4    4      4     4       1      1         4    4
pull --no-wait      0    0      0     0       1      1         0    0
"""
"""Without the feature gate nobody carries out what `pull` makes; `verbs.test_pull` has its other endings."""
HEAD, *ROWS = TABLE.strip("\n").splitlines()
EXPECTED = {row[:20].strip(): dict(zip(HEAD.split(), map(int, row[20:].split()), strict=True)) for row in ROWS}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_in_a_situation_ends_with(verb: str, situation: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest("2.0.0")))
    with SITUATIONS[situation]() as scene:
        words = (str(path) if word == "MANIFEST" else word for word in VERBS[verb])
        ran = scene.run(*words, "-n", NAMESPACE)
    assert ran.code == EXPECTED[verb][situation], ran


@pytest.mark.parametrize("verb", VERBS)
def test_a_flag_that_there_is_not_is_wrong_usage(verb: str) -> None:
    with few_nodes() as scene:
        assert scene.run(*VERBS[verb], "--nonsense").code == 2


def test_the_table_is_of_all_verbs_and_its_codes_are_those_of_the_readme() -> None:
    told = {int(code) for row in ROW.findall(README.read_text()) for code in row.split(", ")}
    assert told == {*map(int, ExitCode), 143}, "SIGTERM is the shell's"
    assert {code for row in EXPECTED.values() for code in row.values()} | {2} == set(range(8))
    without = {"list", "doctor", "completion", "version", "undo"}  # of no single object, or another's name
    assert {words[0] for words in VERBS.values()} | without == {entry.name for entry in ENTRIES}
