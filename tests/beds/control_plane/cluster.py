"""A control plane that starts, stops, and fails in the ways that tests ask for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.beds.control_plane import access
from tests.beds.control_plane.access import (
    KubectlResult,
    User,
    administrator,
    run_kubectl,
    write_kubeconfig,
    write_tokens,
)
from tests.beds.control_plane.binaries import Binaries
from tests.beds.control_plane.processes import Process, free_port, temporary_folder

Command = list[str | Path]
LOOPBACK = "127.0.0.1"


def etcd(binaries: Binaries, *, data: Path, client_port: int, peer_port: int) -> Command:
    """One member that never waits for the disk: the data is thrown away with the folder."""
    client, peer = f"http://{LOOPBACK}:{client_port}", f"http://{LOOPBACK}:{peer_port}"
    flags = {
        "name": "etcd",
        "data-dir": str(data),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"etcd={peer}",
        "log-level": "warn",
        "quota-backend-bytes": str(8 * 2**30),  # 15,000 pods, and all that they were in the last ten minutes
    }
    return [binaries.etcd, "--unsafe-no-fsync", *_flags(flags)]


def kube_apiserver(
    binaries: Binaries,
    *,
    etcd_port: int,
    port: int,
    certificates: Path,
    tokens: Path,
    taint_new_nodes: bool,
    service_accounts: bool,
) -> Command:
    """It signs its own certificate into the folder `certificates`, whose key signs service account tokens too."""
    plugins = {"ServiceAccount": service_accounts, "TaintNodesByCondition": taint_new_nodes}
    flags = {
        "etcd-servers": f"http://{LOOPBACK}:{etcd_port}",
        "bind-address": LOOPBACK,
        "advertise-address": LOOPBACK,  # otherwise it looks for a network card, and offline there is none
        "secure-port": str(port),
        "cert-dir": str(certificates),
        "token-auth-file": str(tokens),
        "authorization-mode": "RBAC",
        "service-account-key-file": str(certificates / "apiserver.key"),
        "service-account-signing-key-file": str(certificates / "apiserver.key"),
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": "10.96.0.0/16",
        "disable-admission-plugins": ",".join(name for name, wanted in plugins.items() if not wanted),
        "endpoint-reconciler-type": "none",
        "allow-privileged": "true",
        "profiling": "false",
    }
    return [binaries.kube_apiserver, *_flags(flags)]


def audit_flags(policy: Path, log: Path) -> list[str]:
    """Log one line of JSON for each finished request; writes the policy, which says so."""
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    policy.write_text(json.dumps(document))
    rotate_never = {"audit-log-maxsize": "100000"}  # MiB
    return _flags({"audit-policy-file": str(policy), "audit-log-path": str(log), **rotate_never})


def kube_controller_manager(binary: Path, *, kubeconfig: Path, port: int, controllers: Sequence[str]) -> Command:
    """Only the named controllers, without a brake on their requests."""
    flags = {
        "kubeconfig": str(kubeconfig),
        "authentication-skip-lookup": "true",
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "bind-address": LOOPBACK,
        "secure-port": str(port),
        "kube-api-qps": "5000",
        "kube-api-burst": "10000",
    }
    return [binary, *_flags(flags)]


def kube_scheduler(binary: Path, *, kubeconfig: Path, port: int, config: Path) -> Command:
    """The default profile without a brake on its requests; writes the file `config`."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000},
    }
    config.write_text(json.dumps(document))
    flags = {"authentication-skip-lookup": "true", "bind-address": LOOPBACK, "secure-port": str(port)}
    return [binary, f"--config={config}", *_flags(flags)]


def _flags(values: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


DEFAULT_CONTROLLERS = (
    "clusterrole-aggregation-controller",  # without it the roles view, edit and admin are empty
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
)
NODE_LIFECYCLE = "node-lifecycle-controller"
UNHURRIED = 60.0  # seconds for a start: 3 are usual, a loaded machine takes longer


class ControlPlane:
    """`async with ControlPlane(binaries) as plane:` runs etcd, kube-apiserver and the asked controllers.

    Nothing in it belongs to an event loop, so one plane may serve tests that each have a loop of their own.
    Enter it in the main thread. New nodes get their not-ready taint only where the node life-cycle controller runs
    to lift it, unless `taint_new_nodes` says otherwise. Pods get a token only with `service_accounts`, and then wait
    until a controller has made their namespace's account.
    """

    def __init__(
        self,
        binaries: Binaries,
        *,
        controllers: Sequence[str] = DEFAULT_CONTROLLERS,
        scheduler: bool = False,
        users: Sequence[User] = (),
        audit: bool = False,
        taint_new_nodes: bool | None = None,
        service_accounts: bool = False,
        apiserver_flags: Sequence[str] = (),
    ) -> None:
        self.binaries = binaries
        self.kubectl = binaries.kubectl
        self.runs_scheduler = scheduler
        self.admin = administrator()
        self.token = self.admin.token
        self._controllers = tuple(controllers)
        self._users = (self.admin, *users)
        self._audit = audit
        self._taint_new_nodes = NODE_LIFECYCLE in controllers if taint_new_nodes is None else taint_new_nodes
        self._service_accounts = service_accounts
        self._apiserver_flags = tuple(apiserver_flags)
        self._cleanup = contextlib.ExitStack()
        self._processes: dict[str, Process] = {}

    @property
    def ca_path(self) -> Path:
        """The certificates that vouch for `url`, in PEM."""
        return self._certificates / "apiserver.crt"

    @property
    def audit_path(self) -> Path:
        """The audit log, one JSON event a line; it is there only with `audit=True`."""
        return self.folder / "audit.log"

    def process(self, name: str) -> Process:
        """The running process `etcd`, `kube-apiserver`, `kube-controller-manager` or `kube-scheduler`."""
        return self._processes[name]

    def kubeconfig_for(self, user: User) -> Path:
        """Write a kubeconfig for one of the users given at the start, and give its path."""
        path = self.folder / f"kubeconfig-{user.name.replace(':', '-')}"
        write_kubeconfig(path, url=self.url, certificates=self.ca_path, user=user)
        return path

    async def __aenter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            self.folder = undo.enter_context(temporary_folder())
            undo.callback(self._kill_all)
            self._certificates = self.folder / "certificates"
            self._etcd_port, self._apiserver_port = free_port(), free_port()
            self.url = f"https://{LOOPBACK}:{self._apiserver_port}"
            self.kubeconfig = self.folder / "kubeconfig"
            write_tokens(self.folder / "tokens.csv", self._users)
            await self._start_etcd()
            await self.start_apiserver()
            write_kubeconfig(self.kubeconfig, url=self.url, certificates=self.ca_path, user=self.admin)
            await self._start_optional()
            self._cleanup = undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    async def start_apiserver(self) -> None:
        """Start kube-apiserver on its port and its etcd, and wait until it is ready and has its namespaces."""
        command = kube_apiserver(
            self.binaries,
            etcd_port=self._etcd_port,
            port=self._apiserver_port,
            certificates=self._certificates,
            tokens=self.folder / "tokens.csv",
            taint_new_nodes=self._taint_new_nodes,
            service_accounts=self._service_accounts,
        )
        if self._audit:
            command += audit_flags(self.folder / "audit-policy.json", self.audit_path)
        apiserver = self._start("kube-apiserver", [*command, *self._apiserver_flags])
        await apiserver.until(self.ready, what="ready", seconds=UNHURRIED)
        await apiserver.until(self._has_default_namespace, what="serving the default namespace", seconds=UNHURRIED)

    async def kill_apiserver(self) -> None:
        """End kube-apiserver as a power cut would; `start_apiserver` brings it back at the same address."""
        await self._processes["kube-apiserver"].stop()

    async def start_controller_manager(
        self,
        controllers: Sequence[str],
        *,
        name: str = "kube-controller-manager",
        flags: Sequence[str] = (),
        kubeconfig: Path | None = None,
    ) -> Process:
        """Start a kube-controller-manager with exactly these controllers, and wait until it is healthy.

        `name` must be new or stopped.
        """
        command = kube_controller_manager(
            self.binaries.kube_controller_manager,
            kubeconfig=kubeconfig or self.kubeconfig,
            port=(port := free_port()),
            controllers=controllers,
        )
        process = self._start(name, [*command, *flags])
        await self._healthy(process, port)
        return process

    async def ready(self) -> bool:
        """Whether kube-apiserver answers its /readyz with 200; it notices some seconds late that etcd froze."""
        return self.ca_path.exists() and (await self._get("/readyz"))[0] == 200

    async def run_kubectl(
        self,
        *args: str,
        stdin: str | None = None,
        seconds: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> KubectlResult:
        """Run kubectl as the administrator; `stdin` is what `-f -` reads, `environ` more of the environment."""
        return await run_kubectl(
            self.kubectl,
            *args,
            kubeconfig=self.kubeconfig,
            cache=self.folder / "kubectl-cache",
            stdin=stdin,
            seconds=seconds,
            environ=environ,
        )

    async def _start_etcd(self) -> None:
        command = etcd(self.binaries, data=self.folder / "etcd", client_port=self._etcd_port, peer_port=free_port())

        async def serving() -> bool:
            return (await access.get(f"http://{LOOPBACK}:{self._etcd_port}/health"))[0] == 200

        await self._start("etcd", command).until(serving, what="healthy", seconds=UNHURRIED)

    async def _start_optional(self) -> None:
        async with asyncio.TaskGroup() as starting:
            if self._controllers:
                starting.create_task(self.start_controller_manager(self._controllers))
            if self.runs_scheduler:
                starting.create_task(self._start_scheduler())

    async def _start_scheduler(self) -> None:
        config, port = self.folder / "scheduler.json", free_port()
        command = kube_scheduler(self.binaries.kube_scheduler, kubeconfig=self.kubeconfig, port=port, config=config)
        await self._healthy(self._start("kube-scheduler", command), port)

    async def _healthy(self, process: Process, port: int) -> None:
        async def healthy() -> bool:
            return (await access.get(f"https://{LOOPBACK}:{port}/healthz"))[0] == 200

        await process.until(healthy, what="healthy", seconds=UNHURRIED)

    async def _has_default_namespace(self) -> bool:
        return (await self._get("/api/v1/namespaces/default"))[0] == 200

    async def _get(self, path: str) -> tuple[int, str]:
        return await access.get(self.url + path, token=self.token, certificates=self.ca_path)

    def _start(self, name: str, command: Sequence[str | Path]) -> Process:
        running = self._processes.get(name)
        if running is not None and running.returncode is None:
            raise RuntimeError(f"{name} is running already (process {running.pid})")
        self._processes[name] = Process(name, command, folder=self.folder)
        return self._processes[name]

    def _kill_all(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
