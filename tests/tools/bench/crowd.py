"""Many DaemonSets while nodes come and go; a webhook refuses the pods of one, and another never answers for those of
a second. For how long does the key of any other wait?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.beds.control_plane import Binaries
from tests.beds.control_plane.cluster import LOOPBACK
from tests.beds.control_plane.processes import free_port
from tests.tools.bench import figures, manifests
from tests.tools.bench.api import JSON
from tests.tools.bench.bed import NAMESPACE, BenchCluster, bed
from tests.tools.bench.figures import Values
from tests.tools.bench.in_pod import longest
from tests.tools.bench.manifests import FIRST_IMAGE, POOL, POOLS
from tests.tools.bench.measure import PODS
from tests.tools.bench.peers import WAITS, our_peer

SETS = 200
"""Each on the nodes of one pool."""
REFUSED, HANGING = "agent-000", "agent-001"
CHURN, EVERY = 20, 6.0
"""So many nodes are replaced, one in so many seconds."""


async def crowd(binaries: Binaries, kwok: Path, nodes: int, values: Values, say: Callable[[str], None]) -> None:
    async with bed(binaries, kwok, nodes) as it, _silence() as silent:
        our = our_peer()
        async with our.running(it.plane):
            await it.script.create_all(our.collection, map(_daemonset, range(SETS)))
            await it.until(lambda: it.pods.ready(FIRST_IMAGE) == nodes * SETS // POOLS, what="all available")
            say(f"{SETS} DaemonSets, {nodes * SETS // POOLS} pods")
            await _break(it, silent)
            begun = time.time()
            for name in (REFUSED, HANGING):
                await it.script.delete(f"{PODS}?labelSelector=app%3D{name}", gracePeriodSeconds=0)
            for index in range(CHURN):
                await it.script.delete(f"/api/v1/nodes/{manifests.node(index)['metadata']['name']}")
                await it.script.create("/api/v1/nodes", manifests.node(nodes // POOLS * POOLS + index))
                await asyncio.sleep(EVERY)
            there = {name.rpartition("-")[0] for name in it.pods.pods}
            assert there.isdisjoint((REFUSED, HANGING)), "the webhooks were not asked"
        broken = {f"{NAMESPACE}/{name}" for name in (REFUSED, HANGING)}
        lines = (it.plane.folder / WAITS).read_text().splitlines()
    wait, count = longest(lines, begun, but=broken)
    say(f"{CHURN} nodes replaced: {count} passes of the others")
    values[figures.WAIT]["ours"].append(wait)


def _daemonset(number: int) -> JSON:
    found = manifests.daemonset("apps.kruise.io/v1beta1", NAMESPACE)
    name, template = f"{manifests.NAME}-{number:03}", found["spec"]["template"]
    template["metadata"]["labels"] = found["spec"]["selector"]["matchLabels"] = {"app": name}
    template["spec"]["nodeSelector"] = {POOL: str(number % POOLS)}
    found["metadata"]["name"] = name
    return found


async def _break(it: BenchCluster, silent: int) -> None:
    """Register both webhooks, and wait until the API server asks them."""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    hooks = [_webhook(REFUSED, free_port()), _webhook(HANGING, silent)]
    path = f"/apis/{kind['apiVersion']}/validatingwebhookconfigurations"
    await it.script.create(path, {**kind, "metadata": {"name": "crowd"}, "webhooks": hooks})
    pod = {"metadata": {"generateName": "try-", "labels": {"app": REFUSED}}, "spec": manifests.template("")["spec"]}
    async with asyncio.timeout(60):
        while await it.script.accepts(f"{PODS}?dryRun=All", pod):
            await asyncio.sleep(0.2)


def _webhook(app: str, port: int) -> JSON:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    return {
        "name": f"{app}.example.com",
        "clientConfig": {"url": f"https://{LOOPBACK}:{port}/"},
        "objectSelector": {"matchLabels": {"app": app}},
        "rules": [rule],
        "timeoutSeconds": 30,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


@asynccontextmanager
async def _silence() -> AsyncIterator[int]:
    """The port of a server that accepts every connection and never answers."""

    async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass

    server = await asyncio.start_server(say_nothing, LOOPBACK, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
