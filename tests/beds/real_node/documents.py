"""The files that kubelet and containerd read. What is not obvious in them is what makes a node fit into a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SETTINGS = "/var/node"
"""Where a node sees them."""
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE = "registry.test/pause:1"
KUBELET_PORT = 10250


def kubelet(*, cgroup: str) -> dict[str, Any]:
    """Never evicts a pod, whatever the machine's disk says; stays below its own cgroup; answers every client.

    It says four times in 16 seconds that it is there.
    """
    nothing = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "port": KUBELET_PORT,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 16,
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "enforceNodeAllocatable": [],
        "evictionHard": dict.fromkeys(nothing, "0%"),
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDNS": ["10.96.0.10"],  # no server is there, but without one each pod gets a warning
        "clusterDomain": "cluster.local",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
    }


def network(*, pods: str) -> dict[str, Any]:
    """Pods of the node `pods` (a range such as 10.244.1.0/24) reach each other and the node, and nothing else."""
    ranges = {"ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": {"type": "host-local", **ranges}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def containerd(*, programs: Path) -> str:
    """Root may lack CAP_SYS_RESOURCE here, and then cannot lower a container's OOM score."""
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "{SETTINGS}/registries"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{programs}"]
  conf_dir = "{SETTINGS}/network"
  use_internal_loopback = true
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{programs}/runc"
  SystemdCgroup = false
"""


def registries(address: str) -> str:
    """Every image comes from the one registry that there is, whatever its name says."""
    return f'server = "http://{address}"\n'


KUBELET = "kubelet.json"
REGISTRIES = "registries/_default/hosts.toml"
"""Where containerd looks for the registry, at each pull anew."""


def write(folder: Path, *, cgroup: str, pods: str, programs: Path, registry: str) -> None:
    """All of them, into the folder that the node sees as SETTINGS."""
    files = {
        KUBELET: json.dumps(kubelet(cgroup=cgroup)),
        "containerd.toml": containerd(programs=programs),
        "network/pods.conflist": json.dumps(network(pods=pods)),
        REGISTRIES: registries(registry),
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
