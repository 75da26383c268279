"""One node: its first process, containerd, kubelet and the wire to the machine, and what can befall them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.beds.control_plane import Process
from tests.beds.control_plane.kubectl import run_to_end
from tests.beds.real_node import cgroups, documents
from tests.beds.real_node.reach import fetch

HERE = Path(__file__).parent
POD_APISERVER = "10.96.0.1:443"
"""Where pods look for it."""
SPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")
PATIENCE = 60.0
"""Seconds for what takes one or two: the machine may be busy."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all nodes of a cluster share; `apiserver` and `registry` are addresses on the machine."""

    folder: Path
    cgroup: str
    programs: Path
    kubeconfig: Path
    apiserver: str
    registry: str


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
        await machine.until(self._is_up, what="up", seconds=PATIENCE)
        self._plug_in()
        config = f"--config={documents.SETTINGS}/containerd.toml"
        containerd = self._start("containerd", self._inside("containerd", config))
        await containerd.until(self._has_containers, what="answering", seconds=PATIENCE)
        for archive in archives:
            await self.load(archive)
        self.start_kubelet()

    def power_off(self) -> None:
        """At once, as when the plug is pulled: /var stays, all else is gone. A second time nothing happens."""
        if self._running:
            self.thaw()  # what is frozen does not end
        for process in self._running.values():
            process.kill()
        cgroups.remove(self._cgroup)

    def start_kubelet(self) -> None:
        flags = [f"--kubeconfig={self._around.kubeconfig}", f"--config={documents.SETTINGS}/kubelet.json"]
        names = [f"--hostname-override={self.name}", f"--node-ip={self.address}"]
        self._start("kubelet", self._inside("kubelet", *flags, *names))

    def kill_kubelet(self) -> None:
        """The containers run on."""
        self._running["kubelet"].kill()

    def freeze(self) -> None:
        """Nothing on the node moves any more, until `thaw`."""
        cgroups.freeze(self._cgroup)

    def thaw(self) -> None:
        cgroups.thaw(self._cgroup)

    def cut_off(self) -> None:
        """The node runs on, and nothing gets through to it or from it, until `reconnect`."""
        self._running["wire"].signal(signal.SIGSTOP)

    def reconnect(self) -> None:
        self._running["wire"].signal(signal.SIGCONT)

    async def load(self, archive: Path) -> None:
        """Import the images of an OCI archive, as if they had been pulled."""
        await self.run("ctr", "--namespace=k8s.io", "images", "import", "--local", str(archive))

    async def run(self, *command: str, seconds: float = PATIENCE) -> str:
        """Run a program on the node; it must succeed. Returns what it prints."""
        code, out, err = await self._ran(*command, seconds=seconds)
        assert code == 0, f"{self.name}: {' '.join(command)}: exit {code}\n{out}{err}"
        return out

    async def fetch(
        self, host: str, port: int, path: str = "/", *, method: str = "GET", seconds: float = 5.0
    ) -> tuple[int, str]:
        """Ask a pod, or whatever the node can reach; status 0: there was no answer."""
        return await fetch(self._socket, host, port, path, method=method, seconds=seconds)

    def log(self, program: str, lines: int = 40) -> str:
        """The end of what machine, containerd, kubelet or wire have said."""
        return self._running[program].tail(lines)

    @property
    def _socket(self) -> Path:
        """Where its wire takes CONNECT requests, and the API server's exchange looks for it."""
        return self._around.folder / f"{self.address}.sock"

    def _plug_in(self) -> None:
        self._socket.unlink(missing_ok=True)
        at_home = [f"{one}={one}" for one in (self._around.apiserver, self._around.registry)]
        relays = [*at_home, f"{POD_APISERVER}={self._around.apiserver}"]
        command = [sys.executable, "-I", str(HERE / "wire.py"), "node", str(self._first), str(self._socket), *relays]
        self._running["wire"] = Process("wire", command, folder=self._folder)

    def _start(self, name: str, command: Sequence[str | Path]) -> Process:
        whole = [*cgroups.entering(self._cgroup), *command]
        env = {**os.environ, "PATH": self._path, "TMPDIR": "/var/tmp"}
        self._running[name] = Process(name, whole, folder=self._folder, env=env)
        return self._running[name]

    def _inside(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self._first}", *SPACES, "--", *command]

    async def _ran(self, *command: str, seconds: float = PATIENCE) -> tuple[int, str, str]:
        return await run_to_end(self._inside(*command), {**os.environ, "PATH": self._path}, seconds=seconds)

    @property
    def _first(self) -> int:
        """The node's process 1, as the machine counts; 0 while there is none."""
        pid = self._running["machine"].pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text() or 0)

    @property
    def _has_booted(self) -> bool:
        return Path(f"/proc/{self._first}/root/run/node-is-up").exists()

    async def _is_up(self) -> bool:
        return self._has_booted

    async def _has_containers(self) -> bool:
        return (await self._ran("ctr", "version"))[0] == 0
