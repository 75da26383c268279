"""Nothing of a node stays on the machine or has changed it, also when the test is killed and the node is frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.beds.real_node import cgroups
from tests.beds.real_node.boot import KERNEL
from tests.beds.real_node.node import LONG

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("control_plane_binaries", "node_binaries")]


@contextmanager
def another_run() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that has a node, and the name of the cgroup that all of the node's processes are in."""
    command = [sys.executable, "-m", "tests.beds.real_node", "up"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            kubeconfig = process.stdout.readline().strip().partition("=")[2]
            assert kubeconfig, "it ended before its node was Ready; what it has said is below"
            yield process, _cgroup_of("kubelet", f"--kubeconfig={kubeconfig}")
        finally:
            process.kill()


def _cgroup_of(*words: str) -> str:
    """The first part of the path of the cgroup of the process whose command line begins so."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # any other process may end while we look
            if path.read_bytes().startswith("\0".join(words).encode()):
                paths = [line.split(":")[2] for line in path.with_name("cgroup").read_text().splitlines()]
                return next(Path(one).parts[1] for one in paths if cgroups.PREFIX in one)
    raise AssertionError(f"nobody runs {' '.join(words)}")


def machine() -> dict[str, str]:
    """What a node could have changed."""
    settings = {name: Path("/proc/sys", name).read_text() for name in (*KERNEL, "net/ipv4/ip_forward")}
    links = " ".join(sorted(os.listdir("/sys/class/net")))
    return settings | {"mounts": Path("/proc/mounts").read_text(), "links": links}


async def gone(cgroup: str) -> None:
    async with asyncio.timeout(LONG):
        while cgroups.remains(cgroup):  # the kernel sends no notice
            await asyncio.sleep(0.05)


async def test_when_the_test_is_killed_nothing_stays_even_of_a_frozen_node() -> None:
    before = machine()
    with another_run() as (process, cgroup):
        assert machine() == before, "a node changes nothing while it runs"
        assert cgroups.processes(cgroup)
        cgroups.freeze(f"{cgroup}/node-1")
        process.send_signal(signal.SIGKILL)
        await gone(cgroup)
    assert machine() == before


async def test_at_a_clean_end_nothing_stays() -> None:
    before = machine()
    with another_run() as (process, cgroup):
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=LONG)
        assert not cgroups.remains(cgroup)
    assert machine() == before
