"""A node that really runs its pods: each container's command is a process of ours, with what a kubelet gives it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from controller.api.objects import rfc3339
from controller.kube.requests import Transport
from controller.runtime.clock import system_clock
from tests.beds.api import NODES, PODS, Api, Object, Refusal
from tests.beds.control_plane import ControlPlane, Process
from tests.beds.control_plane.access import get
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.beds.nodes import statuses
from tests.beds.nodes.machine import node_manifest
from tests.beds.nodes.mirror import Mirror
from tests.beds.nodes.statuses import containers
from tests.beds.nodes.writer import write_status

NAME = "control-plane-1"
TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
PROGRAMS, CODE = Path(sys.executable).parent, Path(__file__).parents[2]
"""What the image has: its programs, and what they import."""
HASTE = 10.0
"""So many times more often than the probes say does this kubelet ask."""
MOUNT = """\
from pathlib import Path
from controller.kube import config
config.in_cluster.__defaults__ = (Path({folder!r}),)
"""
"""In place of a mount at /var/run/secrets/kubernetes.io/serviceaccount, of which a machine has one: Python runs this
before the program, which then looks in another folder."""
REFERENCE = re.compile(r"\$\((\w+)\)")


@dataclass(frozen=True)
class Ended:
    """How a pod went that was deleted."""

    pod: str
    code: int
    seconds: float
    grace: float


class Running:
    """One pod of one container as a process. `ports` leads from its container ports to those of this machine."""

    def __init__(self, pod: Object, process: Process, ports: Mapping[int, int]) -> None:
        (self.container,) = containers(pod)
        self.name = pod["metadata"]["name"]
        self.process, self.ports = process, ports

    def port(self, wanted: str | int) -> int:
        """Of this machine, for a port of the container by its name or number."""
        named = {one.get("name"): one["containerPort"] for one in self.container["ports"]}
        return self.ports[named[wanted] if isinstance(wanted, str) else wanted]

    async def page(self, port: str | int, path: str, seconds: float = 5.0) -> tuple[int, str]:
        return await get(f"http://{LOOPBACK}:{self.port(port)}{path}", seconds=seconds)

    async def passes(self, probe: str) -> bool:
        """Ask once what the probe of that name asks."""
        asked = self.container[probe]["httpGet"]
        status, _ = await self.page(asked["port"], asked["path"], self.container[probe].get("timeoutSeconds", 1))
        return 200 <= status < 400

    def bears(self, probe: str, failures: int) -> bool:
        """Whether so many failures in a row are fewer than the probe says."""
        return failures < int(self.container[probe].get("failureThreshold", 3))

    def pause(self, probe: str) -> float:
        return float(self.container[probe].get("periodSeconds", 10)) / HASTE


class Host:
    """`async with Host(plane, transport) as host:` adds the node; at the end all that runs on it is killed.

    `running` has the pods by name, `ended` those that were deleted, `restarts` what ended by itself or failed its
    liveness probe.
    """

    def __init__(self, plane: ControlPlane, transport: Transport) -> None:
        self._plane, self._api = plane, Api(transport, "kube-system")
        self._mirror = Mirror(self._api, PODS, seen=self._seen, lost=lambda pod: None)
        self._newest: dict[str, Object] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self.running: dict[str, Running] = {}
        self.ended: list[Ended] = []
        self.restarts: list[str] = []

    async def __aenter__(self) -> Host:
        manifest = node_manifest(NAME, {}, [TAINT], {}, rfc3339(system_clock()))
        with suppress(Refusal):  # there from the last test
            await self._api.create(NODES, manifest)
        await self._api.patch(NODES, NAME, {"status": manifest["status"]}, sub="status")
        self._watching = asyncio.create_task(self._mirror.run(), name="host")
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [self._watching, *self._lives.values()]
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        for one in self.running.values():
            one.process.kill()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _seen(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"].get("nodeName") == NAME:
            self._newest[uid] = pod
            if uid not in self._lives:
                self._lives[uid] = asyncio.create_task(self._live(uid), name=pod["metadata"]["name"])

    async def _live(self, uid: str) -> None:
        pod = self._newest[uid]
        one = await self._start(pod)
        self.running[one.name] = one
        await self._write(uid, ready=False)
        while not await one.passes("startupProbe") and not self._told_to_go(uid):  # a kubelet polls
            await asyncio.sleep(one.pause("startupProbe"))
        ready, failures = False, Counter[str]()
        while not self._told_to_go(uid):
            for probe in ("livenessProbe", "readinessProbe"):
                failures[probe] = 0 if await one.passes(probe) else failures[probe] + 1
            if one.process.returncode is not None or not one.bears("livenessProbe", failures["livenessProbe"]):
                self.restarts.append(f"{one.name}: {one.process.returncode}{one.process.tail()}")
                return
            unready = failures["readinessProbe"]
            if (now := unready == 0 or (ready and one.bears("readinessProbe", unready))) != ready:
                ready = now
                await self._write(uid, ready=ready)
            await asyncio.sleep(one.pause("readinessProbe"))
        await self._end(uid, one)

    def _told_to_go(self, uid: str) -> bool:
        return "deletionTimestamp" in self._newest[uid]["metadata"]

    async def _end(self, uid: str, one: Running) -> None:
        """SIGTERM, and SIGKILL when the grace period is over."""
        metadata = self._newest[uid]["metadata"]
        grace = float(metadata["deletionGracePeriodSeconds"])
        loop = asyncio.get_running_loop()
        begun = loop.time()
        one.process.signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await one.process.ended()
        one.process.kill()
        for secret in self._plane.folder.glob(f"{uid}/token"):
            assert secret.read_text() not in one.process.log.read_text(), f"{one.name} logs its token"
        self.ended.append(Ended(one.name, await one.process.ended(), loop.time() - begun, grace))
        del self.running[one.name]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._api.delete(PODS, one.name, namespace=metadata["namespace"], options=options)

    async def _start(self, pod: Object) -> Running:
        (container,) = containers(pod)
        folder = self._plane.folder / pod["metadata"]["uid"]
        folder.mkdir()
        ports = {one["containerPort"]: free_port() for one in container.get("ports") or ()}
        env = _environment(pod, container, folder)
        if pod["spec"].get("automountServiceAccountToken"):
            env |= await self._account(pod, folder)
        command = [_here(_expanded(word, env), ports) for word in (*container["command"], *container["args"])]
        process = Process(pod["metadata"]["name"], [PROGRAMS / command[0], *command[1:]], folder=folder, env=env)
        return Running(pod, process, ports)

    async def _account(self, pod: Object, folder: Path) -> dict[str, str]:
        """The service account as the kubelet projects it, with a token bound to the pod; returns what tells of it."""
        metadata, name = pod["metadata"], pod["spec"]["serviceAccountName"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": bound},
        }
        answer = await self._api.send("POST", path, request)
        (folder / "token").write_text(answer["status"]["token"])
        (folder / "ca.crt").write_bytes(self._plane.ca_path.read_bytes())
        (folder / "namespace").write_text(metadata["namespace"])
        (folder / "sitecustomize.py").write_text(MOUNT.format(folder=str(folder)))
        where = urlsplit(self._plane.url)
        return {"KUBERNETES_SERVICE_HOST": str(where.hostname), "KUBERNETES_SERVICE_PORT": str(where.port)}

    async def _write(self, uid: str, *, ready: bool) -> None:
        pod = self._newest[uid]
        await write_status(self._api, pod, statuses.running(pod, rfc3339(system_clock()), ready=ready))


def _environment(pod: Object, container: Object, folder: Path) -> dict[str, str]:
    """What the container's `env` says, the downward API included, and what every container has."""
    fields = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "spec.nodeName": NAME,
    }
    env = {
        "PATH": str(PROGRAMS),
        "PYTHONPATH": f"{folder}{os.pathsep}{CODE}",
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for one in container.get("env") or ():
        env[one["name"]] = one["value"] if "value" in one else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
    return env


def _expanded(word: str, env: Mapping[str, str]) -> str:
    return REFERENCE.sub(lambda found: env[found[1]], word)


def _here(word: str, ports: Mapping[int, int]) -> str:
    """`:8080` for any address becomes a free port of the loopback: all pods share this machine's."""
    head, colon, port = word.rpartition(":")
    return f"{head}{LOOPBACK}:{ports[int(port)]}" if colon and port.isdigit() else word
