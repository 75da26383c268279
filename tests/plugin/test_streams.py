"""The three streams of the process: closed, full, left by their reader, too narrow for a character; and Ctrl-C."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_plugin.errors import CommandError
from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.terminal import Terminal
from tests.plugin.scene import Scene, canary

ROOT = Path(__file__).parents[2]
VERSION = "-m kubectl_plugin version --client"
PATIENCE = 30.0
ASKING = """
import asyncio, typer
from kubectl_plugin.flags import GlobalFlags
from kubectl_plugin.host import Host
from kubectl_plugin.runner import Runner

async def ask(terminal):
    return 0 if terminal.ask("Continue?") else 6

try:
    Runner(Host()).run_guarded(GlobalFlags(), lambda terminal: asyncio.run(ask(terminal)), outputs=())
except typer.Exit as end:
    raise SystemExit(end.exit_code)
"""


@pytest.fixture(scope="module")
def canary_scene() -> Iterator[Scene]:
    with canary() as scene:
        yield scene


def shell(words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Python with `words`, which may redirect."""
    command = f"{sys.executable} {words}"
    given = {**os.environ, **environ}
    return subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=given, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_error(closed: str) -> None:
    done = shell(f"{VERSION} {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Client: ") is (">&-" not in closed.replace("2>&-", ""))


def test_wrong_usage_is_2_though_nothing_can_be_printed() -> None:
    assert shell("-m kubectl_plugin stats 2>&-").returncode == 2


def test_what_only_looks_fails_where_it_cannot_be_printed() -> None:
    done = shell(f"{VERSION} >/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: it could not be printed: No space left on device\n")


def test_a_character_that_the_stream_does_not_have_is_escaped() -> None:
    done = shell("-m kubectl_plugin version --kubeconfig=/nonexistent/größe", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert done.stderr.startswith("error: no kubeconfig: /nonexistent/gr\\xf6\\xdfe does not exist\n")


def test_an_argument_that_is_not_utf8_is_wrong_usage() -> None:
    done = shell("-m kubectl_plugin pause -s http://127.0.0.1:1 $'al\\xffce'")
    assert (done.returncode, done.stderr) == (2, "error: not UTF-8: al\\udcffce\n")


class Left(io.StringIO):
    """Its reader has gone, or its disk is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, text: str) -> int:
        raise self._error


def test_a_reader_that_goes_away_ends_what_only_looks() -> None:
    terminal = Terminal(GlobalFlags(), Host(out=Left(BrokenPipeError())))
    with pytest.raises(BrokenPipeError):
        terminal.say("line")


def test_a_full_disk_is_reported_in_the_system_s_words() -> None:
    terminal = Terminal(GlobalFlags(), Host(out=Left(OSError(28, "No space left on device"))))
    with pytest.raises(CommandError) as failed:
        terminal.say("line")
    assert failed.value.message == "it could not be printed: No space left on device"


@pytest.mark.parametrize("verb", ["status", "plan", "nodes", "history", "diff"])
def test_a_full_disk_is_no_mistake_of_ours_whatever_was_to_be_shown(canary_scene: Scene, verb: str) -> None:
    full = Left(OSError(28, "No space left on device"))
    ran = canary_scene.run(verb, "node-agent", "-n", "observability", out=full)
    assert (ran.code, ran.err) == (1, "error: it could not be printed: No space left on device\n")


@pytest.mark.parametrize(
    ("error", "lost"), [(BrokenPipeError(32, "Broken pipe"), ""), (OSError(28, "No space left"), "No space left")]
)
def test_what_acts_goes_on_all_the_same(error: OSError, lost: str) -> None:
    terminal = Terminal(GlobalFlags(), Host(out=Left(error)))
    terminal.ignore_broken_pipe()
    terminal.say("line")
    terminal.flush()
    assert terminal.lost == lost


def test_a_closed_stderr_stops_nothing() -> None:
    out = io.StringIO()
    terminal = Terminal(GlobalFlags(), Host(out=out, err=Left(BrokenPipeError())))
    terminal.warn("text", "hint")
    terminal.say("line")
    assert out.getvalue() == "line\n"


def test_a_terminal_obeys_nothing_that_the_server_says() -> None:
    out, err, given = io.StringIO(), io.StringIO(), io.StringIO("n\n")
    terminal = Terminal(GlobalFlags(), Host(stdin=given, out=out, err=err))
    evil = "a\x1b[31mb\x9b2Jc\x7fd\re\tf\ng"
    terminal.say(evil)
    terminal.detail(evil)
    terminal.warn(evil, evil)
    terminal.note(evil)
    terminal.fail(CommandError(evil, evil))
    terminal.ask(evil)
    told = out.getvalue() + err.getvalue()
    whole = "a [31mb 2Jc d e\tf\ng"
    assert told.count(whole) == 2, "documents and questions have lines of their own"
    assert told.count(whole.replace("\n", " ")) == 6, "a message has one"
    assert not set(told) & set("\x1b\x9b\x7f\r")


@pytest.mark.parametrize(
    ("typed", "code"), [(b"\x03", 130), (b"y\n", 0), (b"\x04", 6)], ids=["Ctrl-C", "y", "Ctrl-D"]
)
def test_one_key_is_enough_at_a_question(typed: bytes, code: int) -> None:
    child, master = pty.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background of a script
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", ASKING])
    try:
        seen = _read_until(master, b"[y/N] ")
        os.write(master, typed)
        seen += _read_until(master, None)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
        os.close(master)
    assert os.waitstatus_to_exitcode(status) == code, seen
    assert b"Traceback" not in seen


def _read_until(master: int, wanted: bytes | None) -> bytes:
    """What the program writes up to `wanted`, or with None until it ends."""
    seen, deadline = b"", time.monotonic() + PATIENCE
    while wanted is None or wanted not in seen:
        ready, _, _ = select.select([master], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"nothing more came after {seen!r}"
        try:
            more = os.read(master, 4096)
        except OSError:  # how Linux tells that the program has ended
            return seen
        if not more:
            return seen
        seen += more
    return seen
