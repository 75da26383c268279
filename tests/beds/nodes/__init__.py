"""The nodes' stand-ins: scheduler and kubelets, for simulated and real API servers alike.

    play         `Nodes`, which a test holds in its hand: behave, lose, power_off, preload, move a pod by hand
    kubelet      one task a pod; what a pod does by itself is in `stages`, a table without memory
    stages       how a node treats its pods, as data: times, images that fail, resizes that wait; and what comes next
    pod_worker   a pod that has changed while it ran, or whose containers have ended: kill, pull, start, one after the
                 other; `runtime` has what runs, and what a node has of resources
    statuses     the status of a container and of a pod; `writer` writes it
    scheduler    what other programs of a cluster do
    machine, fleet   Node objects
    mirror       objects as a watch shows them

What a kubelet does is not invented here: `tests.beds.kubelet_cases` holds it against real ones.
"""

from __future__ import annotations

from tests.beds.nodes.play import Nodes
from tests.beds.nodes.stages import DEAD, INSTANT, LIFELIKE, MANUAL, Behaviour

__all__ = ["DEAD", "INSTANT", "LIFELIKE", "MANUAL", "Behaviour", "Nodes"]
