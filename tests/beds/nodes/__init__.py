"""The nodes' stand-ins: scheduler and kubelets, for simulated and real API servers alike.

    behaviour    how a node treats its pods, as data: times, images that fail, resizes that wait
    play         `Nodes`, which a test holds in its hand: behave, lose, power_off, preload, move a pod by hand
    kubelet      one task a pod; what a pod does by itself is in `stages`, a table without memory
    pod_worker   a pod that has changed while it ran, or whose containers have ended: kill, pull, start, one after the
                 other. Its parts: `runtime` what runs, `puller` images, `back_off` waits, `resizes` resources, `room`
                 what a node has of them
    containers, statuses   what is told of a container and of a pod
    writer, events         how it is told
    scheduler, placement, pod_garbage   what other programs of a cluster do
    machine, fleet         Node objects
    mirror       objects as a watch shows them

What a kubelet does is not invented here: `tests.beds.kubelet_cases` holds it against real ones.
"""

from __future__ import annotations

from tests.beds.nodes.behaviour import DEAD, INSTANT, LIFELIKE, MANUAL, Behaviour
from tests.beds.nodes.play import Nodes

__all__ = ["DEAD", "INSTANT", "LIFELIKE", "MANUAL", "Behaviour", "Nodes"]
