"""What <TAB> offers from the cluster, on the simulator. `test_discovery` has kubectl itself ask for it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from kubectl_plugin import main
from kubectl_plugin.host import Host
from tests.beds.api import DAEMONSETS
from tests.beds.simulator.faults import Answer, Effect, Hang, NoConnection, Rule
from tests.plugin.in_process import surroundings
from tests.plugin.playing import Scene
from tests.plugin.scene import daemonset_named, rolling, template
from tests.plugin.users_machine import UsersMachine
from tests.plugin.verbs.few_nodes import HOME, few_nodes
from tests.plugin.verbs.natives import native_nodes

ROOT = Path(__file__).parents[2]
INIT = {"name": "node-agent", "image": "registry.example.com/certs:1"}
"""A container may have the name of its DaemonSet."""
SILENT_NAMES = """
import socket, threading
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
from kubectl_plugin.main import complete
complete()
"""


def tab(scene: Scene, *words: str) -> list[str]:
    """The lines for `words`; the last word is half typed."""
    return main.candidates(words, functools.partial(UsersMachine, scene, None, 0.0)(surroundings()))


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("re",), ["resume", "restart", "retry"]),
        (("status", "--req"), ["--require-full", "--request-timeout"]),
        (("status", "-o", ""), ["json", "yaml", "name", "wide"]),
        (("-o", "j"), ["json"]),
        (("pause", "x", "--dry-run", ""), ["none", "client", "server"]),
        (("list", "--phase", "He"), ["Held", "Healthy"]),
        (("nodes", "x", "--sort", "r"), ["restarts"]),
        (("nodes", "x", "--only", "failing,ne"), ["failing,next"]),
        (("completion", "z"), ["zsh"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_values_that_are_known_need_no_cluster(words: tuple[str, ...], lines: list[str]) -> None:
    found = [line.partition("\t")[0] for line in main.candidates(words, Host())]
    assert sorted(found) == sorted([*lines, ":4"])


@pytest.fixture(scope="module")
def migrating() -> Iterator[Scene]:
    """Two native DaemonSets and one of ours, in one namespace."""
    with native_nodes("node-agent", "log-shipper") as scene:
        scene.do(scene.api.create(DAEMONSETS, daemonset_named("ours")))
        yield scene


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("migrate", *HOME, ""), ["log-shipper", "node-agent"]),
        ((*HOME, "migrate", "lo"), ["log-shipper"]),
        (("migrate", *HOME, "log-shipper", ""), ["node-agent"]),
        (("migrate", *HOME, "ds/n"), ["ds/node-agent"]),
        (("migrate", *HOME, "daemonset.apps/n"), ["daemonset.apps/node-agent"]),
        (("migrate", "-n", "kube-system", ""), []),
        (("migrate", *HOME, "--to-native", ""), ["ours"]),
        (("migrate", *HOME, "--to-native=false", ""), ["log-shipper", "node-agent"]),
        (("status", *HOME, ""), ["ours"]),
    ],
    ids=" ".join,
)
def test_migrate_offers_the_kind_that_it_takes(migrating: Scene, words: tuple[str, ...], names: list[str]) -> None:
    *lines, directive = tab(migrating, *words)
    assert (sorted(line.partition("\t")[0] for line in lines), directive) == (names, ":4")


@pytest.fixture(scope="module")
def stepping() -> Iterator[Scene]:
    """`node-agent` has an init container."""
    with few_nodes() as scene:
        made = template("1.8.0", certs=False)
        made["spec"]["initContainers"] = [INIT]
        scene.do(scene.edit({"spec": {"template": made, **rolling(partition=2)}}))
        scene.pass_time(60.0)
        yield scene


AGENT, CERTS = "agent=\tregistry.example.com/agent:1.8.0", f"node-agent=\t{INIT['image']}"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("set-image", *HOME, "node"), ["node-agent\tHeld", ":4"]),
        (("set-image", *HOME, "node-agent", ""), [CERTS, AGENT, ":6"]),
        (("set-image", "node-agent", *HOME, "a"), [AGENT, ":6"]),
        (("set-image", *HOME, "ads/node-agent", "--hold-at", "3", "agent=x:1", ""), [CERTS, ":6"]),
        (("set-image", *HOME, "node-agent", "agent=x"), [":4"]),
        (("set-image", *HOME, "nobody", ""), [":4"]),
        (("set-image", *HOME, "--all", "agent=x", ""), [":4"]),
        (("set-partition", *HOME, "node-agent", ""), [":4"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_set_image_offers_containers_after_the_name(
    stepping: Scene, words: tuple[str, ...], lines: list[str]
) -> None:
    assert tab(stepping, *words) == lines


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ((*HOME, "status", "n"), ["node-agent"]),
        (("-n", "default", "status", *HOME, "n"), ["node-agent"]),
        (("status", f"--namespace={HOME[1]}", "ads/n"), ["ads/node-agent"]),
        (("status", "-n", "nowhere", ""), []),
        (("diff", "node-agent", *HOME, ""), ["2", "1"]),
        (("history", "node-agent", *HOME, "--revision", "1"), ["1"]),
    ],
    ids=lambda given: " ".join(given),
)
def test_names_and_revisions_are_those_of_the_namespace(
    stepping: Scene, words: tuple[str, ...], offered: list[str]
) -> None:
    *lines, directive = tab(stepping, *words)
    assert ([line.partition("\t")[0] for line in lines], directive) == (offered, ":4")


def test_a_text_of_the_server_makes_no_line_of_its_own() -> None:
    with few_nodes() as scene:
        made = template("1.8.0", certs=False)
        made["spec"]["containers"][0]["image"] = "a:1\nrm\tx\x1b[2J"
        scene.do(scene.controller.kill())
        scene.do(scene.edit({"spec": {"template": made}}))
        assert tab(scene, "set-image", *HOME, "node-agent", "") == ["agent=\ta:1 rm x [2J", ":6"]


REFUSED = [("migrate", ""), ("set-image", "node-agent", "")]


@pytest.mark.parametrize("effect", [Answer(403, "Forbidden"), Answer(500), NoConnection(), Hang()], ids=str)
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_without_an_answer_nothing_is_offered_or_said(
    words: tuple[str, ...], effect: Effect, capsys: pytest.CaptureFixture[str]
) -> None:
    with few_nodes() as scene:
        scene.door.link.faults.add(Rule(effect))
        before = scene.now()
        assert tab(scene, *HOME, *words) == [":4"]
        assert scene.now() - before <= 2.0
    assert capsys.readouterr() == ("", "")


def test_control_c_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    class Left(Host):
        def run(self, body: object) -> NoReturn:
            body.close()  # type: ignore[attr-defined]  # a coroutine
            raise KeyboardInterrupt

    assert main.candidates(["status", ""], Left()) == [":4"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["status", ""], ["migrate", ""]], ids=" ".join)
def test_names_that_never_resolve_are_given_up(words: list[str], tmp_path: Path) -> None:
    """Nothing cancels the system's resolver, and Python waits for its thread at the end."""
    cluster = {"name": "far", "cluster": {"server": "https://api.example.com:6443"}}
    context = {"name": "far", "context": {"cluster": "far", "user": "far"}}
    path = tmp_path / "config"
    config = {"clusters": [cluster], "contexts": [context], "current-context": "far"}
    path.write_bytes(msgspec.json.encode({**config, "users": [{"name": "far", "user": {"token": "sample"}}]}))
    command = [sys.executable, "-c", SILENT_NAMES, *words]
    env = {**os.environ, "KUBECONFIG": str(path)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", "")
