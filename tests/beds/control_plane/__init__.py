"""The real control plane for the test beds, `make cluster`, `make demo-real` and `make bench`.

`obtain()` finds or builds the binaries; `ControlPlane` starts etcd, kube-apiserver and, where wanted,
kube-controller-manager and kube-scheduler on loopback, and takes them down again whatever happens.
Nothing here runs a node: pods get a node's life from the kubelet stand-in, or from kwok in benches.
"""

from __future__ import annotations

from tests.beds.control_plane.access import KubectlResult, User, service_account
from tests.beds.control_plane.binaries import Binaries, obtain
from tests.beds.control_plane.cluster import DEFAULT_CONTROLLERS, ControlPlane
from tests.beds.control_plane.processes import Process, ProcessError

__all__ = [
    "DEFAULT_CONTROLLERS",
    "Binaries",
    "ControlPlane",
    "KubectlResult",
    "Process",
    "ProcessError",
    "User",
    "obtain",
    "service_account",
]
