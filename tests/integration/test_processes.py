"""Children are ended whatever happens to us, and one that fails says why."""

from __future__ import annotations

import fcntl
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.beds.control_plane.other_run import Pipe, other_run
from tests.beds.control_plane.processes import PREFIX, Process, ProcessError, free_port, temporary_folder


async def never() -> bool:
    return False


async def test_a_process_that_ends_before_it_is_ready_shows_its_last_lines(tmp_path: Path) -> None:
    process = Process("etcd", ["/bin/sh", "-c", "echo bad flag; exit 3"], folder=tmp_path)
    with pytest.raises(ProcessError, match=r"(?s)etcd ended with 3 before healthy.*bad flag"):
        await process.until(never, what="healthy", seconds=30)


async def test_a_process_that_is_not_ready_in_time_is_named(tmp_path: Path) -> None:
    process = Process("etcd", ["sleep", "600"], folder=tmp_path)
    with pytest.raises(ProcessError, match=r"etcd: not healthy after 0\.1 s"):
        await process.until(never, what="healthy", seconds=0.1)
    await process.stop()
    assert process.returncode == -signal.SIGKILL


async def test_stopping_with_grace_reaches_a_frozen_process(tmp_path: Path) -> None:
    process = Process("etcd", ["sleep", "600"], folder=tmp_path)
    process.signal(signal.SIGSTOP)
    await process.stop(grace=30)
    assert process.returncode == -signal.SIGTERM


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells children of a parent's end")
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "pipe")
    child = f"exec 3> {pipe.path}; echo here >&3; exec sleep 600"
    code = f"""if True:
        import time
        from pathlib import Path
        from tests.beds.control_plane.processes import Process
        process = Process("child", ["/bin/sh", "-c", {child!r}], folder=Path({str(tmp_path)!r}))
        time.sleep(600)"""
    with pipe as held_by_child, other_run(code) as parent:
        assert held_by_child.read() == "here\n"
        parent.send_signal(signal.SIGKILL)
        assert held_by_child.read() == "", "nobody holds the pipe any more"


def test_the_folder_of_a_run_that_was_killed_goes_with_the_next_run() -> None:
    with tempfile.TemporaryDirectory() as base:
        left, alive = Path(base, f"{PREFIX}left"), Path(base, f"{PREFIX}alive")
        for folder in (left, alive):
            folder.mkdir()
            (folder / "owner.lock").touch()
        with open(alive / "owner.lock", "r+") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX)
            with temporary_folder(Path(base)) as ours:
                assert {path.name for path in Path(base).iterdir()} == {alive.name, ours.name}
        assert not ours.exists()


def drawing(*first: int) -> Callable[[int, int], int]:
    """`random.randrange`, but for the first numbers."""
    drawn = iter(first)
    return lambda least, end: next(drawn, 0) or random.randrange(least, end)


def test_a_port_is_given_out_once_and_no_other_run_is_given_it(
    tmp_path: Path,
) -> None:
    ours, pipe = free_port(), Pipe(tmp_path / "pipe")
    code = f"""if True:
        import time
        from tests.beds.control_plane.processes import free_port
        from tests.integration.test_processes import drawing
        with open({str(pipe.path)!r}, "w") as told:
            print(free_port(drawing({ours})), file=told, flush=True)
            time.sleep(600)"""
    with pipe as other, other_run(code):
        theirs = int(other.read())
        assert len({ours, theirs, free_port(drawing(ours, theirs))}) == 3


@pytest.mark.parametrize(
    ("given", "first"), [("32768\t60999", 32_768), ("21500\t60999", 21_500), ("1024\t65535", 32_768)]
)
def test_a_free_port_is_no_port_that_outgoing_connections_are_given(given: str, first: int, tmp_path: Path) -> None:
    """But where those are nearly all that there are."""
    (tmp_path / "range").write_text(f"{given}\n")
    for _ in range(20):
        port = free_port(ephemeral=tmp_path / "range")
        with socket.create_server(("127.0.0.1", port)):
            assert port < first
