"""One node: its first process, containerd, kubelet and the wire to the machine, and what can befall them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.beds.control_plane import Process
from tests.beds.control_plane.access import answer_to, run_to_end
from tests.beds.real_node import cgroups, documents

LONG = 180.0
"""Seconds. Machines are slow or fast: a wait ends with what it waits for, and this one only the rest."""


async def fetch(
    wire: Path, host: str, port: int, path: str = "/", *, method: str = "GET", seconds: float = LONG
) -> tuple[int, str]:
    """Status and body; (0, reason) when there is no HTTP answer within `seconds`."""
    request = f"{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(wire)
            with contextlib.closing(writer):
                writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
                await reader.readuntil(b"\r\n\r\n")
                return await answer_to(request, reader, writer)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        return 0, str(error) or type(error).__name__


HERE = Path(__file__).parent
POD_APISERVER = "10.96.0.1:443"
"""Where pods look for it."""
SPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all nodes of a cluster share; `apiserver` and `registry` are addresses on the machine."""

    folder: Path
    cgroup: str
    programs: Path
    kubeconfig: Path
    apiserver: str
    registry: str


NOBODY = "127.0.0.1:9"
"""Nothing listens there."""


class RealNode:
    """The `number`th node of a cluster, counted from 1; made switched off."""

    def __init__(self, name: str, number: int, around: Surroundings) -> None:
        self.name, self.address = name, f"10.77.0.{number}"
        pods = f"10.244.{number}"
        self._around = around
        self._folder = around.folder / name
        self._cgroup = f"{around.cgroup}/{name}"
        self._path = f"{around.programs}:{os.environ['PATH']}"
        self._running: dict[str, Process] = {}
        for folder in ("node", "lib", "log/pods", "tmp"):
            (self._folder / "var" / folder).mkdir(parents=True)
        (around.folder / f"{pods}.sock").symlink_to(self._socket)
        documents.write(
            self._folder / "var" / "node",
            cgroup=self._cgroup,
            pods=f"{pods}.0/24",
            programs=around.programs,
            registry=around.registry,
        )

    async def power_on(self, *archives: Path) -> None:
        """Until the kubelet is started; `archives` are images that are there before it is."""
        cgroups.make(self._cgroup)
        begin = [sys.executable, "-I", str(HERE / "boot.py"), str(self._folder), self.name, self.address]
        machine = self._start("machine", ["unshare", *SPACES, "--fork", "--kill-child", "--mount-proc", *begin])
        await machine.until(self._is_up, what="up", seconds=LONG)
        await self._plug_in().until(self._is_wired, what="listening", seconds=LONG)
        config = f"--config={documents.SETTINGS}/containerd.toml"
        containerd = self._start("containerd", self._inside("containerd", config))
        await containerd.until(self._has_containers, what="answering", seconds=LONG)
        for archive in archives:
            await self.load(archive)
        self.start_kubelet()

    def power_off(self) -> None:
        """At once, as when the plug is pulled: /var stays, all else is gone. A second time nothing happens."""
        if self._running:
            cgroups.thaw(self._cgroup)  # what is frozen does not end
        for process in self._running.values():
            process.kill()
        cgroups.remove(self._cgroup)

    @asynccontextmanager
    async def without_power(self) -> AsyncIterator[None]:
        """Off while the block runs. It is switched on again however that ends, for the sake of the next test."""
        self.power_off()
        try:
            yield
        finally:
            await self.power_on()

    def start_kubelet(self) -> None:
        flags = [f"--kubeconfig={self._around.kubeconfig}", f"--config={documents.SETTINGS}/{documents.KUBELET}"]
        names = [f"--hostname-override={self.name}", f"--node-ip={self.address}"]
        self._start("kubelet", self._inside("kubelet", *flags, *names))

    @contextmanager
    def without_kubelet(self) -> Iterator[None]:
        """It is killed, and started again after the block; the containers run on."""
        self._running["kubelet"].kill()
        try:
            yield
        finally:
            self.start_kubelet()

    @contextmanager
    def with_kubelet(self, **settings: str) -> Iterator[None]:
        """Its kubelet has other settings while the block runs; the containers run on."""
        file = self._folder / "var" / "node" / documents.KUBELET
        before = file.read_text()
        with self.without_kubelet():
            self._configure(file, json.dumps({**json.loads(before), **settings}))
        try:
            yield
        finally:
            with self.without_kubelet():
                self._configure(file, before)

    def _configure(self, file: Path, settings: str) -> None:
        """It refuses to start where another CPU manager has left its notes."""
        file.write_text(settings)
        (self._folder / "var" / "lib" / "kubelet" / "cpu_manager_state").unlink(missing_ok=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing on the node moves while the block runs."""
        cgroups.freeze(self._cgroup)
        try:
            yield
        finally:
            cgroups.thaw(self._cgroup)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """The node runs on, and nothing gets through to it or from it while the block runs."""
        self._running["wire"].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running["wire"].signal(signal.SIGCONT)

    @contextmanager
    def without_registry(self) -> Iterator[None]:
        """While the block runs no server answers where this node asks for images; other nodes get theirs."""
        hosts = self._folder / "var" / "node" / documents.REGISTRIES
        hosts.write_text(documents.registries(NOBODY))
        try:
            yield
        finally:
            hosts.write_text(documents.registries(self._around.registry))

    async def load(self, archive: Path) -> None:
        """Import the images of an OCI archive, as if they had been pulled."""
        await self.run("ctr", "--namespace=k8s.io", "images", "import", "--local", str(archive))

    async def run(self, *command: str, seconds: float = LONG) -> str:
        """Run a program on the node; it must succeed. Returns what it prints."""
        code, out, err = await self._ran(*command, seconds=seconds)
        assert code == 0, f"{self.name}: {' '.join(command)}: exit {code}\n{out}{err}"
        return out

    async def fetch(
        self, host: str, port: int, path: str = "/", *, method: str = "GET", seconds: float = LONG
    ) -> tuple[int, str]:
        """Ask a pod, or whatever the node can reach; status 0: there was no answer."""
        return await fetch(self._socket, host, port, path, method=method, seconds=seconds)

    @property
    def logs(self) -> str:
        """The end of what machine, wire, containerd and kubelet have said, as far as they were started."""
        return "".join(process.tail() for process in self._running.values())

    @property
    def _socket(self) -> Path:
        """Where its wire takes CONNECT requests, and the API server's exchange looks for it."""
        return self._around.folder / f"{self.address}.sock"

    def _plug_in(self) -> Process:
        self._socket.unlink(missing_ok=True)
        at_home = [f"{one}={one}" for one in (self._around.apiserver, self._around.registry)]
        relays = [*at_home, f"{POD_APISERVER}={self._around.apiserver}"]
        command = [sys.executable, "-I", str(HERE / "wire.py"), "node", str(self._first), str(self._socket), *relays]
        self._running["wire"] = Process("wire", command, folder=self._folder)
        return self._running["wire"]

    def _start(self, name: str, command: Sequence[str | Path]) -> Process:
        whole = [*cgroups.entering(self._cgroup), *command]
        env = {**os.environ, "PATH": self._path, "TMPDIR": "/var/tmp"}
        self._running[name] = Process(name, whole, folder=self._folder, env=env)
        return self._running[name]

    def _inside(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self._first}", *SPACES, "--", *command]

    async def _ran(self, *command: str, seconds: float = LONG) -> tuple[int, str, str]:
        return await run_to_end(self._inside(*command), {**os.environ, "PATH": self._path}, seconds=seconds)

    @property
    def _first(self) -> int:
        """The node's process 1, as the machine counts; 0 while there is none."""
        pid = self._running["machine"].pid
        with suppress(OSError):  # it has ended
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text() or 0)
        return 0

    @property
    def _has_booted(self) -> bool:
        return bool(self._first) and Path(f"/proc/{self._first}/root/run/node-is-up").exists()

    async def _is_up(self) -> bool:
        return self._has_booted

    async def _is_wired(self) -> bool:
        """Its socket is the last thing that the wire makes."""
        return self._socket.exists()

    async def _has_containers(self) -> bool:
        return (await self._ran("ctr", "version"))[0] == 0
