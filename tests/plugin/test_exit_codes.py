"""The tables of exit codes in README and manual, tried: every verb in every situation, and with malformed flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from controller.kube.client import DRY_RUN
from controller.kube.requests import Request, Response
from kubectl_plugin.errors import ExitCode
from kubectl_plugin.runner import ENTRIES
from tests.beds.api import MERGE_PATCH
from tests.beds.native import NATIVE
from tests.beds.simulator.faults import Answer, Rule
from tests.plugin import scene as scenes
from tests.plugin.kept import story
from tests.plugin.scene import NAME, NAMESPACE, PACE, Scene, manifest, rolling
from tests.plugin.situations import IMAGE, OLD, VERBS, gone, held, paused, stalled, stuck
from tests.plugin.users_machine import Rights, UserTransport, with_programs
from tests.plugin.verbs import natives
from tests.plugin.verbs.few_nodes import KIND, Between, few_nodes, patches

ROOT = Path(__file__).parents[2]
README, MANUAL = ROOT / "README.md", ROOT / "docs" / "exit-codes.md"
ROW = re.compile(r"^\| ([0-9, ]+) \| \S", re.MULTILINE)
OURS = "*.apps.kruise.io"


@story
def awaiting(scene: Scene) -> None:
    """The first of two steps, for 2 of 4 nodes, has to be approved."""
    few_nodes.play(scene)
    scene.nodes.behave("*", PACE)
    scene.pass_time(60.0)  # so that revision 1 is recorded as stable
    steps = ({"nodes": 2, "approval": "Required"}, {"nodes": "100%"})
    scene.do(scene.edit({"spec": {"template": scenes.template("1.9.0"), **rolling(steps=steps)}}))
    scene.pass_time(600.0)


@contextmanager
def broken() -> Iterator[Scene]:
    with held() as scene:
        scene.door.link.faults.add(Rule(Answer(500, "InternalError", "etcd is away"), resource=OURS))
        yield scene


@contextmanager
def forbidden() -> Iterator[Scene]:
    with held() as scene:
        scene.door = Rights(scene)
        for verb in ("get", "list", "watch", "patch", "create"):
            scene.door.forbid(verb, OURS)
            scene.door.missing.add((verb, "daemonsets"))
        yield scene


@contextmanager
def overtaken(verb: str) -> Iterator[Scene]:
    """Another user changes the spec before the write, of a DaemonSet that the verb would change."""
    first = "create" if verb == "migrate -y" else "patch"
    with SITUATIONS[OVERTAKEN_IN.get(verb.split()[0], "held")]() as scene:

        async def change() -> None:
            spec = {"spec": {"minReadySeconds": 7}}
            await (
                scene.api.patch(NATIVE, OLD, spec, content_type=MERGE_PATCH)
                if first == "create"
                else scene.edit(spec)
            )

        scene.door = Overtaking(scene.door, change, f"{first} {KIND}", (1,))
        yield scene


class Overtaking(Between):
    """Dry runs do not count."""

    async def exchange(self, request: Request) -> Response:
        return await (
            UserTransport.exchange(self, request) if DRY_RUN in request.query else super().exchange(request)
        )

    @property
    def met(self) -> bool:
        """Whether there was such a write."""
        return self._met > 0


SITUATIONS: Mapping[str, Callable[[], AbstractContextManager[Scene]]] = {
    "held": held,
    "awaiting": awaiting,
    "paused": paused,
    "stuck": stuck,
    "stalled": stalled,
    "broken": broken,
    "forbidden": forbidden,
    "gone": gone,
}
OVERTAKEN_IN = {"resume": "paused", "promote": "awaiting"}
TABLES = re.compile(r"^\| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """How it ends."""

    code: int
    changed: bool
    """Whether it has written a DaemonSet, or made a job."""


def cell(text: str) -> Cell:
    return Cell(int(text.strip("*")), "*" in text)


def expected() -> dict[str, dict[str, Cell]]:
    """The table of the manual, by verb and situation."""
    table, _, legend = MANUAL.read_text().partition("| situation |")
    head, *rows = (row.split(" | ") for row in TABLES.findall(table))
    assert head[1:] == [row.split(" | ")[0] for row in TABLES.findall(legend)], "each is told what it is"
    return {row[0].strip("`"): dict(zip(head[1:], map(cell, row[1:]), strict=True)) for row in rows}


EXPECTED = expected()


def has_changed(scene: Scene) -> bool:
    accepted = (seen for seen in scene.door.link.writes() if seen.status < 300 and DRY_RUN not in seen.request.query)
    return any(seen.route.plural in ("daemonsets", "imagepulljobs") for seen in accepted)


@pytest.mark.parametrize(("verb", "situation"), [(verb, one) for verb, row in EXPECTED.items() for one in row])
def test_a_verb_in_a_situation_ends_with(verb: str, situation: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest("2.0.0")))
    environ = {"PATH": str(with_programs(tmp_path))}
    with overtaken(verb) if situation == "overtaken" else SITUATIONS[situation]() as scene:
        if OLD in VERBS[verb] and situation != "gone":
            scene.do(natives.deploy(scene, OLD))
        if verb == "doctor" and not isinstance(scene.door, Rights):
            scene.door = Rights(scene)
        words = (str(path) if word == "MANIFEST" else word for word in VERBS[verb])
        meanwhile = natives.acts if verb.startswith("migrate") else None
        ran = scene.run(*words, "-n", NAMESPACE, meanwhile=meanwhile, environ=environ)
        assert Cell(ran.code, has_changed(scene)) == EXPECTED[verb][situation], ran
        if isinstance(scene.door, Overtaking):
            otherwise = EXPECTED[verb][OVERTAKEN_IN.get(verb.split()[0], "held")].changed
            assert scene.door.met == (otherwise and not verb.startswith("pull")), "who would write is overtaken"


@pytest.mark.parametrize("verb", VERBS)
def test_a_flag_that_there_is_not_is_wrong_usage(verb: str) -> None:
    with few_nodes() as scene:
        assert scene.run(*VERBS[verb], "--nonsense").code == 2


def test_the_table_is_of_all_verbs_and_its_codes_are_those_of_the_readme() -> None:
    told = {int(code) for row in ROW.findall(README.read_text()) for code in row.split(", ")}
    assert told == {*map(int, ExitCode)}
    assert {cell.code for row in EXPECTED.values() for cell in row.values()} | {2, 8} == set(range(9)), (
        "8 needs a webhook"
    )
    assert EXPECTED.keys() == VERBS.keys()
    assert {situation for row in EXPECTED.values() for situation in row} == {*SITUATIONS, "overtaken"}
    without = {"completion", "version", "undo"}  # of no cluster, or another's name
    assert {words[0] for words in VERBS.values()} | without == {entry.name for entry in ENTRIES}


BAD = "bogus"
WAITING = ("--wait", "--timeout", BAD)
MALFORMED: tuple[tuple[str, ...], ...] = (
    ("status", NAME, "-w", "--timeout", BAD),
    ("nodes", NAME, "--only", BAD),
    ("nodes", NAME, "--sort", BAD),
    ("list", "--phase", BAD),
    ("plan", NAME, "--partition", BAD),
    ("plan", NAME, "--max-unavailable", BAD),
    ("plan", NAME, "--image", BAD),
    ("plan", NAME, "--waves", "-1"),
    ("history", NAME, "--revision", BAD),
    ("pause", NAME, "--dry-run", BAD),
    ("resume", NAME, *WAITING),
    ("restart", NAME, "-y", *WAITING),
    ("set-partition", NAME, BAD),
    ("set-partition", NAME, "--update", BAD),
    ("set-partition", NAME, "1", *WAITING),
    ("set-image", NAME, BAD, "-y"),
    ("set-image", NAME, IMAGE, "-y", "--hold-at", BAD),
    ("set-image", NAME, IMAGE, "-y", *WAITING),
    ("rollback", NAME, "-y", "--to-revision", BAD),
    ("rollback", NAME, "-y", *WAITING),
    ("pull", "registry.example.com/agent:2", "--parallelism", BAD),
    ("pull", "registry.example.com/agent:2", "--timeout", BAD),
    ("apply", "-f", "missing.yaml", "--hold-at", BAD),
    ("migrate", NAME, "--to-native", "-y", *WAITING),
    ("promote", NAME, *WAITING),
)


@pytest.mark.parametrize("scene_of", [paused, stalled], ids=["paused", "stalled"])
def test_a_malformed_value_is_a_usage_error(scene_of: Callable[[], AbstractContextManager[Scene]]) -> None:
    with scene_of() as scene:
        codes = {words: scene.run(*words, "-n", NAMESPACE).code for words in MALFORMED}
        assert {words: code for words, code in codes.items() if code != 2} == {}
        assert not patches(scene)
