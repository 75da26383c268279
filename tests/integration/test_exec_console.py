"""Exec plugins of a kubeconfig and the person who runs us: what reaches the terminal, and how long it may take."""

from __future__ import annotations

import math
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.kube.credentials import PLUGIN_SECONDS, Console, Program
from tests.unit.controller.kube.test_access import kubeconfig

VERSION = "client.authentication.k8s.io/v1"
LOGS_IN = """
import json, os, sys
print("enter the code ABCD", file=sys.stderr, flush=True)
open(sys.argv[1]).read()
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"{info['spec']['interactive']}-{os.getpgrp()}"}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""
"""It waits until a test writes to a pipe, as for a browser."""
CONNECTS = """
import asyncio, os, sys
from controller.kube.kubeconfig import Access
from kubectl_plugin.host import Host
connection = asyncio.run(Host().connection(Access(kubeconfig=sys.argv[1])))
interactive, group = asyncio.run(connection.credentials.authorization()).removeprefix("Bearer ").split("-")
print(interactive, int(group) == os.getpgrp())
"""
TERMINALS = {
    "nowhere": ((), "False False"),
    "at standard input": (("stdin",), "True True"),
    "at standard error": (("stderr",), "False True"),
    "at a terminal": (("stdin", "stderr"), "True True"),
}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    theirs, ours = pty.openpty()
    yield theirs, ours
    os.close(theirs)
    os.close(ours)


def with_plugin(folder: Path, program: str, *args: str) -> str:
    command = {"command": sys.executable, "args": ["-c", program, *args]}
    settings = {"apiVersion": VERSION, "interactiveMode": "IfAvailable", **command}
    return kubeconfig(folder / "config", {"exec": settings})


@pytest.mark.parametrize("where", TERMINALS)
def test_a_login_says_its_code_while_it_waits_and_stays_at_the_terminal(
    tmp_path: Path, terminal: tuple[int, int], where: str
) -> None:
    """A process of another group that reads from the terminal is stopped. It learns whether it may ask."""
    at_terminal, found = TERMINALS[where]
    theirs, ours = terminal
    approved = tmp_path / "approved"
    os.mkfifo(approved)
    command = [sys.executable, "-c", CONNECTS, with_plugin(tmp_path, LOGS_IN, str(approved))]
    with subprocess.Popen(
        command,
        stdin=ours if "stdin" in at_terminal else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=ours if "stderr" in at_terminal else subprocess.PIPE,
    ) as running:
        read = theirs if running.stderr is None else running.stderr.fileno()
        assert os.read(read, 4096).strip() == b"enter the code ABCD"
        approved.write_text("yes")
        out, _ = running.communicate()
    assert out.decode() == f"{found}\n"


@pytest.mark.parametrize(
    ("console", "asked", "seconds"),
    [
        (None, None, PLUGIN_SECONDS),
        (Console(err=2, types=False, terminal=False), None, PLUGIN_SECONDS),
        (Console(err=2, types=False, terminal=True), None, math.inf),
        (Console(err=2, types=True, terminal=True), 3.0, 3.0),
        (None, math.inf, math.inf),
    ],
    ids=["a controller", "a script", "a person", "a person with a limit", "no limit"],
)
def test_only_at_a_terminal_a_plugin_has_no_limit_of_ours(
    console: Console | None, asked: float | None, seconds: float
) -> None:
    assert Program({"command": "login"}, "context one", console=console, seconds=asked).seconds == seconds


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("list", "--request-timeout=200ms"), 1, "did not end within 0.2 s"),
        (("status", "agent", "-w", "--timeout=200ms"), 3, "timed out after 200ms: the login has not ended"),
        (("resume", "agent", "--wait", "--timeout=200ms"), 3, "timed out after 200ms: the login has not ended"),
        (("pull", "app:v1", "--timeout=200ms"), 3, "timed out after 200ms: the login has not ended"),
    ],
    ids=["a request", "a look", "a change", "a pull"],
)
def test_a_limit_of_the_command_is_one_of_its_login_too(
    tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    path = with_plugin(tmp_path, "import time; time.sleep(300)")
    done = subprocess.run(
        [sys.executable, "-m", "kubectl_plugin", *words, f"--kubeconfig={path}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr


def test_what_a_plugin_complains_of_is_there_once(tmp_path: Path) -> None:
    path = with_plugin(tmp_path, "import sys; sys.exit('no realm')")
    done = subprocess.run(
        [sys.executable, "-m", "kubectl_plugin", "list", f"--kubeconfig={path}"], capture_output=True, text=True
    )
    assert done.stderr == (
        f'no realm\nerror: context one of {path}: its exec plugin "{sys.executable}" failed: process returned 1\n'
        "  hint: log in again\n"
    )


def test_after_a_tab_a_plugin_neither_says_nor_asks_anything(tmp_path: Path, terminal: tuple[int, int]) -> None:
    """The line that is being typed stays as it is."""
    _, ours = terminal
    told = tmp_path / "told"
    program = (
        "import os, sys; print('log in', file=sys.stderr); open(sys.argv[1], 'w').write(sys.stdin.read()); exit(1)"
    )
    path = with_plugin(tmp_path, program, str(told))
    done = subprocess.run(
        [sys.executable, "-m", "kubectl_plugin", "__complete", f"--kubeconfig={path}", "status", ""],
        stdin=ours,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, ":4\n", "")
    assert told.read_text() == "", "it reads from nothing"
