"""Exec plugins of a kubeconfig: when they run, and what is said when they do not do. They are Python one-liners."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import ssl
import subprocess
import sys
from collections import UserDict
from collections.abc import ItemsView, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.errors import ConfigError
from controller.kube.exec_plugin import ExecPlugin
from controller.kube.exec_run import Credential, Program, outcome
from controller.kube.transport import open_transport
from tests.unit.controller.kube.test_config import NOW, kubeconfig

PLUGIN = """
import json, pathlib, sys
counter = pathlib.Path(sys.argv[1])
runs = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(runs))
if pathlib.Path(sys.argv[1] + ".broken").exists():
    sys.exit("please log in again")
status = {"token": f"run-{runs}", "expirationTimestamp": "2100-01-01T00:00:00Z"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""
EXPIRY = 4_102_444_800.0  # 2100-01-01
VERSION = "client.authentication.k8s.io/v1"


def with_plugin(folder: Path) -> str:
    args = ["-c", PLUGIN, str(folder / "runs")]
    return kubeconfig(folder / "config", {"exec": {"apiVersion": VERSION, "command": sys.executable, "args": args}})


async def test_an_exec_plugin_runs_once_and_again_shortly_before_its_token_expires(tmp_path: Path) -> None:
    now = [NOW]
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: now[0])
    assert isinstance(connection.credentials, ExecPlugin)
    async with connection.credentials.renewing():
        assert await connection.credentials.authorization() == "Bearer run-1"
        now[0] = EXPIRY - 61
        assert await connection.credentials.authorization() == "Bearer run-1"
        now[0] = EXPIRY - 59
        assert await connection.credentials.authorization() == "Bearer run-1", "good for another minute: nobody waits"
        await connection.credentials.refresh()
        assert await connection.credentials.authorization() == "Bearer run-2"
        assert await connection.credentials.authorization() == "Bearer run-2", "not more often than every ten seconds"
    assert (tmp_path / "runs").read_text() == "2", "whoever is refused meanwhile waits for the run that is on its way"


class Slow(Program):
    """Takes as long as it is let, and hands out certificates."""

    def __init__(self) -> None:
        super().__init__({"command": "login"}, "context one")
        self.runs, self.ends = 0, asyncio.Event()

    async def run(self) -> Credential:
        self.runs += 1
        await self.ends.wait()
        return Credential(authorization="new", certificate={"client-certificate-data": "new.crt"})


OLD = Credential(authorization="old", expiry=100.0)


def plugin_of(program: Slow, now: list[float]) -> ExecPlugin:
    return ExecPlugin(program, OLD, lambda _: ssl.create_default_context(), lambda: now[0])


async def turns() -> None:
    """A few of the loop, enough for a task to begin."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_plugin_that_hangs_keeps_nobody_waiting_whose_token_is_still_good() -> None:
    now = [0.0]
    program = Slow()
    plugin = plugin_of(program, now)
    async with plugin.renewing():
        now[0] = 39.0
        assert await plugin.authorization() == "old"
        await turns()
        assert program.runs == 0
        now[0] = 41.0
        assert await plugin.authorization() == "old"
        assert await plugin.authorization() == "old"
        await turns()
        assert program.runs == 1, "it is renewed a minute before it expires"
        program.ends.set()
        await plugin.refresh()
        assert await plugin.authorization() == "new"
        assert program.runs == 1


async def test_whoever_stops_waiting_for_a_plugin_leaves_it_running_for_the_others() -> None:
    now = [0.0]
    program = Slow()
    plugin = plugin_of(program, now)
    async with plugin.renewing():
        now[0] = 150.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await plugin.authorization()
        program.ends.set()
        await plugin.refresh()
        assert await plugin.authorization() == "new"
        assert program.runs == 1, "it was still running"


async def test_everybody_waits_for_the_run_that_replaces_an_expired_token() -> None:
    now = [0.0]
    program = Slow()
    plugin = plugin_of(program, now)
    async with plugin.renewing():
        now[0] = 150.0
        asked = [asyncio.create_task(plugin.authorization()) for _ in range(3)]
        while not program.runs:  # only a turn of the loop each
            await asyncio.sleep(0)
        late = await asyncio.wait([*asked, asyncio.create_task(plugin.authorization())], timeout=0.02)
        assert not late[0], "somebody was sent off with the expired one"
        program.ends.set()
        assert await asyncio.gather(*asked) == ["new"] * 3


async def test_a_certificate_that_does_not_fit_its_key_is_a_failed_run() -> None:
    def tls_with(credential: Credential) -> ssl.SSLContext:
        if credential.certificate:
            raise ssl.SSLError("key values mismatch")
        return tls

    program, tls = Slow(), ssl.create_default_context()
    program.ends.set()
    plugin = ExecPlugin(program, OLD, tls_with, lambda: 0.0)
    async with plugin.renewing():
        with pytest.raises(ConfigError, match=r"cannot renew the credentials: .*key values mismatch"):
            await plugin.refresh()
        assert plugin.tls() is tls


async def test_a_rotated_client_certificate_makes_another_context_and_so_new_connections() -> None:
    first, second = ssl.create_default_context(), ssl.create_default_context()
    made: list[Mapping[str, str]] = []

    def tls_with(credential: Credential) -> ssl.SSLContext:
        made.append(credential.certificate)
        return second if credential.certificate else first

    program = Slow()
    program.ends.set()
    plugin = ExecPlugin(program, OLD, tls_with, lambda: 0.0)
    async with plugin.renewing():
        assert plugin.tls() is first
        await plugin.refresh()
        assert plugin.tls() is second
        assert made == [{}, {"client-certificate-data": "new.crt"}]


async def test_an_exec_plugin_runs_again_when_the_server_refuses_its_token(tmp_path: Path) -> None:
    connection = await config.load(with_plugin(tmp_path), environ={})
    async with connection.credentials.renewing():
        await connection.credentials.refresh()
        assert await connection.credentials.authorization() == "Bearer run-2"


async def test_a_plugin_that_fails_later_leaves_the_old_token_and_says_why_when_refused(tmp_path: Path) -> None:
    now = [NOW]
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: now[0])
    async with connection.credentials.renewing():
        (tmp_path / "runs.broken").touch()
        now[0] = EXPIRY - 30
        assert await connection.credentials.authorization() == "Bearer run-1"
        with pytest.raises(ConfigError, match=r"context one.*please log in again"):
            await connection.credentials.refresh()


async def test_a_run_that_fails_ends_nothing_but_itself_and_what_the_block_raises_leaves_as_it_is() -> None:
    class Broken(Slow):
        async def run(self) -> Credential:
            self.runs += 1
            raise ValueError("no such region")

    now, cause, mistake = [0.0], OSError("cut off"), RuntimeError("of the block")
    program = Broken()
    plugin = plugin_of(program, now)

    async def block() -> None:
        async with plugin.renewing():
            now[0] = 41.0
            assert await plugin.authorization() == "old"
            await turns()
            assert program.runs == 1
            assert await plugin.authorization() == "old", "nobody has waited for that run"
            raise mistake from cause

    with pytest.raises(RuntimeError) as raised:
        await block()
    assert raised.value is mistake
    assert raised.value.__cause__ is cause


async def test_a_plugin_that_fails_at_the_start_is_one_line(tmp_path: Path) -> None:
    path = with_plugin(tmp_path)
    (tmp_path / "runs.broken").touch()
    with pytest.raises(ConfigError, match="please log in again"):
        await config.load(path, environ={})


async def test_a_plugin_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "login").touch(mode=0o600)
    path = kubeconfig(tmp_path / "config", {"exec": {"apiVersion": VERSION, "command": "./login"}})
    with pytest.raises(ConfigError, match=r'its exec plugin ".*/login" cannot be run: Permission denied$'):
        await config.load(path, environ={})
    path = kubeconfig(tmp_path / "config", {"exec": {"apiVersion": VERSION}})
    with pytest.raises(ConfigError, match=r'"None" failed: malformed request\. missing key .command.$'):
        await config.load(path, environ={})


async def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    missing = {"apiVersion": VERSION, "command": "no-such-login"}
    path = kubeconfig(tmp_path / "config", {"exec": missing})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    assert str(raised.value) == f'context one of {path}: its exec plugin "no-such-login" is not installed'
    assert raised.value.hint == ""
    path = kubeconfig(tmp_path / "config", {"exec": {**missing, "installHint": "brew install login\n\nor else"}})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    assert raised.value.hint == "brew install login"


PRINTS = "import sys; print(sys.argv[1]); sys.exit(sys.argv[2] or 0)"


@pytest.mark.parametrize(
    ("printed", "complaint", "words"),
    [
        ("", "no\n  realm", "process returned 1. no realm"),
        ("token", "", "failed to decode process output: Expecting value: line 1 column 1 (char 0)"),
        ("{}", "", "malformed response. missing key 'apiVersion'"),
        ('{"apiVersion": "v0", "kind": "", "status": {}}', "", f"plugin api version v0 does not match {VERSION}"),
    ],
    ids=["an exit code", "no JSON", "no credential", "another version"],
)
async def test_what_is_wrong_with_a_plugin_is_said(tmp_path: Path, printed: str, complaint: str, words: str) -> None:
    settings = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", PRINTS, printed, complaint]}
    path = kubeconfig(tmp_path / "config", {"exec": settings})
    with pytest.raises(ConfigError) as raised:
        await config.load(path, environ={})
    assert str(raised.value) == f'context one of {path}: its exec plugin "{sys.executable}" failed: {words}'
    assert raised.value.hint == "log in again"


async def test_a_certificate_too_is_known_to_expire() -> None:
    status = {"clientCertificateData": "crt", "clientKeyData": "key", "expirationTimestamp": "2100-01-01T00:00:00Z"}
    printed = json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})
    settings = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", PRINTS, printed, ""]}
    assert (await Program(settings, "context one").run()).expiry == EXPIRY


async def test_an_exec_plugin_whose_credential_has_expired_is_named_once_the_server_refuses(tmp_path: Path) -> None:
    connection = await config.load(with_plugin(tmp_path), environ={}, clock=lambda: EXPIRY + 1)
    words = "hands out a credential that expired at 2100-01-01T00:00:00Z"
    async with connection.credentials.renewing():
        with pytest.raises(ConfigError, match=words) as raised:
            await connection.credentials.refresh()
        assert raised.value.hint == "log in again"
        assert await connection.credentials.authorization() == "Bearer run-2", "the server has the last word"


HANGS = """
import os, pathlib, subprocess, sys, time
runs = pathlib.Path(sys.argv[1])
credential = '{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "t"}}' % sys.argv[2]
with runs.open("a") as file:
    file.write(f"{os.getpid()}\\n")
if pathlib.Path(sys.argv[1] + ".hangs").exists():
    held = os.open(sys.argv[1] + ".held", os.O_WRONLY)
    subprocess.Popen(["sleep", "300"], pass_fds=[held])
    os.write(held, b"!")
    if pathlib.Path(sys.argv[1] + ".leaves").exists():
        sys.exit()
    time.sleep(300)
print(credential)
"""


TELLS = """
import json, os
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"{info['spec']['interactive']}-{os.getpgrp()}"}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


class Hanging:
    """A plugin that never ends once it is told to hang; the program that it has started does not either."""

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        os.mkfifo(folder / "runs.held")
        self._held = os.open(folder / "runs.held", os.O_RDONLY | os.O_NONBLOCK)
        self.args = ["-c", HANGS, str(self._runs), VERSION]
        self.kubeconfig = kubeconfig(
            folder / "config", {"exec": {"apiVersion": VERSION, "command": sys.executable, "args": self.args}}
        )

    def hang(self, *, leaves: bool = False) -> None:
        """`leaves`: itself it ends, and only what it has started does not."""
        self._runs.with_name("runs.hangs").touch()
        if leaves:
            self._runs.with_name("runs.leaves").touch()

    @property
    def processes(self) -> list[int]:
        """One for each run."""
        return [int(word) for word in self._runs.read_text().split()] if self._runs.exists() else []

    async def began(self, runs: int) -> int:
        """Wait until it has run so often; returns the last process."""
        async with asyncio.timeout(60):
            while len(self.processes) < runs:  # what another process does sets no event here
                await asyncio.sleep(0.01)
        await self._says(b"!")
        return self.processes[-1]

    def has_started_its_own(self) -> None:
        """Wait for it, with the loop and everybody in it."""
        while self._read() != b"!":
            select.select([self._held], [], [], 60)

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        os.close(self._held)

    async def is_gone(self) -> None:
        """Nobody has the pipe any more that plugin and program held."""
        await self._says(b"")

    async def _says(self, expected: bytes) -> None:
        async with asyncio.timeout(60):
            while self._read() != expected:  # what another process does sets no event here
                await asyncio.sleep(0.01)

    def _read(self) -> bytes | None:
        try:
            return os.read(self._held, 1)
        except BlockingIOError:
            return None


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Hanging]:
    made = Hanging(tmp_path)
    yield made
    made.close()


async def test_a_plugin_that_hangs_ends_with_the_connection(plugin: Hanging) -> None:
    connection = await config.load(plugin.kubeconfig, environ={})
    plugin.hang()
    before = asyncio.all_tasks()
    async with open_transport(connection):
        waiting = asyncio.create_task(connection.credentials.refresh())
        process = await plugin.began(2)
    assert not lives(process)
    await plugin.is_gone()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert asyncio.all_tasks() == before


async def test_a_plugin_that_hangs_ends_with_who_waits_for_the_first_credential(plugin: Hanging) -> None:
    plugin.hang()
    loading = asyncio.create_task(config.load(plugin.kubeconfig, environ={}))
    process = await plugin.began(1)
    loading.cancel()
    await asyncio.wait([loading])
    assert not lives(process)
    await plugin.is_gone()


async def test_what_a_plugin_has_started_ends_though_the_plugin_has_ended_before(plugin: Hanging) -> None:
    """It holds the pipe from which the credential is read."""
    plugin.hang(leaves=True)
    loading = asyncio.create_task(config.load(plugin.kubeconfig, environ={}))
    await plugin.began(1)
    loading.cancel()
    await asyncio.wait([loading])
    await plugin.is_gone()


class Environment(UserDict[str, str]):
    """Knows whether a program has been started with it."""

    started = False

    def items(self) -> ItemsView[str, str]:
        self.started = True
        return super().items()


@pytest.mark.parametrize("turns", range(12))
async def test_whoever_stops_waiting_while_a_program_starts_ends_what_that_has_started(
    plugin: Hanging, turns: int
) -> None:
    """At whichever turn of the loop, and though the loop is slow, so that the program is ahead of it."""
    plugin.hang()
    environment = Environment(os.environ)
    running = asyncio.create_task(outcome(sys.executable, *plugin.args, env=environment))
    for _ in range(turns):
        await asyncio.sleep(0)
    if environment.started:
        plugin.has_started_its_own()
    running.cancel()
    await asyncio.wait([running], timeout=60)
    assert running.cancelled()
    await plugin.is_gone()


ASKS = """
import asyncio, os, sys
from controller.kube import config
connection = asyncio.run(config.load(sys.argv[1], environ={}))
interactive, group = asyncio.run(connection.credentials.authorization()).removeprefix("Bearer ").split("-")
print(interactive == "True", int(group) == os.getpgrp())
"""


@pytest.mark.parametrize(
    ("at_terminal", "found"),
    [((), "False False"), (("stdin",), "False False"), (("stdin", "stderr"), "True True")],
    ids=["nowhere", "nobody sees what it asks", "at a terminal"],
)
def test_a_plugin_that_may_ask_stays_where_the_terminal_hears_it(
    at_terminal: tuple[str, ...], found: str, tmp_path: Path
) -> None:
    """A process of another group that reads from the terminal is stopped. It is told whether it may ask."""
    settings = {"apiVersion": VERSION, "command": sys.executable, "args": ["-c", TELLS]}
    path = kubeconfig(tmp_path / "config", {"exec": settings})
    theirs, ours = pty.openpty()
    stdin, stderr = (ours if name in at_terminal else subprocess.DEVNULL for name in ("stdin", "stderr"))
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASKS, path], stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout == f"{found}\n"


async def test_a_plugin_may_complain_at_length(tmp_path: Path) -> None:
    """More than a pipe holds, before it says anything else."""
    program = f"import sys; sys.stderr.write('x' * 10**6); {HANGS}"
    args = ["-c", program, str(tmp_path / "runs"), VERSION]
    settings = {"apiVersion": VERSION, "command": sys.executable, "args": args}
    connection = await config.load(kubeconfig(tmp_path / "config", {"exec": settings}), environ={})
    assert await connection.credentials.authorization() == "Bearer t"
