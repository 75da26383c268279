"""The command lines of the control plane's processes, and the small files that they read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.beds.control_plane.binaries import Binaries

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


def kube_controller_manager(
    binary: Path, *, kubeconfig: Path, port: int, controllers: Sequence[str], rate: tuple[float, int] | None
) -> Command:
    """Only the named controllers; `rate` is (requests a second, burst), None for its own default of 20 and 30."""
    flags = {
        "kubeconfig": str(kubeconfig),
        "authentication-skip-lookup": "true",
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "bind-address": LOOPBACK,
        "secure-port": str(port),
    }
    if rate is not None:
        flags |= {"kube-api-qps": f"{rate[0]:g}", "kube-api-burst": str(rate[1])}
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
