"""Real nodes: a kubelet and containerd in name spaces of their own, joined to the tests' control plane.

Nothing else tells what a container does. A node takes a core's attention for some seconds and 130 MiB, so three are
many; how a rollout looks on a thousand is a question for `beds.nodes` and `beds.kwok`.

    binaries   whether this machine can have them; kubelet, containerd, runc, CNI: built, unpacked
    cluster    control plane, registry, nodes, Ready      node       one of them, its faults as methods, HTTP to a pod
    boot       a node's first process                     documents  the configuration of kubelet and containerd
    cgroups    made, frozen, and removed in any case      wire       the only way in and out of a node's network
    registry   images made from one program, and served, slowly or not at all
    agent      the program that is in those images        workloads  pods and DaemonSets of it, our own Deployment
    clients    one on each node, who asks its ready pod or the pod's address: how long they have no answer

A node is a tree of processes below `unshare`, with its own network, mounts, processes and host name; to it, the
machine's files are read-only. Its /var lasts, its /run does not, and the end of its first process is a power cut. It
has no network but its own: the wire listens inside on the API server's and the registry's addresses.
"""

from __future__ import annotations

from tests.beds.real_node.binaries import NodeBinaries, obtain_node
from tests.beds.real_node.cluster import RealCluster, real_cluster
from tests.beds.real_node.node import RealNode
from tests.beds.real_node.registry import Manners

__all__ = [
    "Manners",
    "NodeBinaries",
    "RealCluster",
    "RealNode",
    "obtain_node",
    "real_cluster",
]
