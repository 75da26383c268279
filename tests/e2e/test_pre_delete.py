"""The sample with a preDelete hook and the script beside it, as its comment says, on a real control plane."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.beds.installed.witness import Witness, witnessing
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.manifests import MANIFESTS
from tests.beds.objects import node_of, serves

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = tuple(f"drain-{number}" for number in range(5))
SCRIPT = MANIFESTS / "samples" / "let-go.py"
STATE = "lifecycle.apps.kruise.io/state"


@asynccontextmanager
async def letting_go(bed: Workspace, seconds: float) -> AsyncIterator[None]:
    """The sample's script, taking up to so many seconds for each pod."""
    env = {**os.environ, "PATH": f"{bed.plane.kubectl.parent}{os.pathsep}{os.environ['PATH']}"}
    env["KUBECONFIG"] = str(bed.plane.kubeconfig)
    words = (sys.executable, str(SCRIPT), bed.api.namespace, str(seconds))
    process = await asyncio.create_subprocess_exec(*words, env=env)
    try:
        yield
        assert process.returncode is None, "the script ended by itself"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def prepared(witness: Witness) -> list[str]:
    """Nodes with a pod that is prepared for its deletion, also while it ends."""
    return [node_of(pod) for pod in witness.now.values() if pod["metadata"]["labels"].get(STATE)]


async def test_the_sample_lets_one_pod_go_after_the_other(bed: Workspace) -> None:
    await bed.workers(*NODES)
    demo = sample("ds.preDelete.yaml")
    async with witnessing(bed.api) as witness:
        await bed.apply(demo)
        await bed.settled(len(NODES))
        await witness.until(lambda: len(witness.ready) == len(NODES), "all first pods seen")
        witness.floor = len(NODES) - 1
        async with letting_go(bed, 2.0):
            change = {"spec": {"template": {"metadata": {"labels": {"ver": "v2"}}}}}
            await bed.kubectl("patch", "ads", "demo", "--type=merge", f"-p={json.dumps(change)}")
            order: list[str] = []

            def is_updated() -> bool:
                held = prepared(witness)
                assert len(held) <= 1, f"prepared at once: {held}"
                order.extend(node for node in held if node not in order)
                new = [pod for pod in witness.now.values() if serves(pod) and "ver" in pod["metadata"]["labels"]]
                return len(new) == len(NODES)

            await witness.until(is_updated, "the new version on all nodes")
    assert order == sorted(NODES, reverse=True)
