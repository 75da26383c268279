"""Plain `kubectl wait` beside the real controller: it returns when it should, and not on the state before."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from pathlib import Path

import msgspec
import pytest

from tests.beds.api import Object
from tests.beds.installed.process import Controller
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.manifests import MANIFESTS
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.objects import node_of, serves

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = ("wait-0", "wait-1", "wait-2")
MANUAL = MANIFESTS.parent / "docs" / "conditions.md"
READY = "--for=condition=Ready"
REFUSED = [{"name": "demo", "image": "busybox", "imagePullPolicy": "Sometimes"}]


def demo(version: str = "v1") -> Object:
    made = sample("ds.demo.yaml")
    made["spec"]["template"]["metadata"]["labels"]["ver"] = version
    return made


async def wait(bed: Workspace, what: str) -> None:
    """It must succeed within a minute."""
    await bed.kubectl("wait", what, "ads/demo", "--timeout=60s")


async def waits_on(bed: Workspace, what: str) -> None:
    """What is waited for is not so yet, and not for the next moment either."""
    ended = await bed.tried("wait", what, "ads/demo", "--timeout=1s")
    assert ended.returncode == 1, f"kubectl wait {what} must not succeed yet: {ended.stdout}"
    assert "timed out waiting" in ended.stderr


async def unserved(bed: Workspace, version: str) -> list[str]:
    """The nodes without a ready pod of this version, now."""
    pods = [pod for pod in await bed.pods() if serves(pod) and pod["metadata"]["labels"]["ver"] == version]
    return sorted({*NODES} - {*map(node_of, pods)})


async def test_ready_is_never_taken_from_the_state_before(bed: Workspace, controller: Controller) -> None:
    await bed.workers(*NODES)
    bed.nodes.behave("*", Behaviour(ready=None))
    await bed.apply(demo())
    await waits_on(bed, READY)
    async with asyncio.TaskGroup() as group:
        group.create_task(wait(bed, READY))
        bed.nodes.behave("*", INSTANT)
    assert await unserved(bed, "v1") == [], "kubectl wait returned too early"

    for version in ("v2", "v3"):
        await bed.apply(demo(version))
        await wait(bed, READY)
        assert await unserved(bed, version) == [], f"kubectl wait took the state before {version}"

    controller.process.signal(signal.SIGSTOP)
    try:
        await bed.apply(demo("v4"))
        async with asyncio.TaskGroup() as group:
            for what in (READY, "--for=condition=Reconciling=false", "--for=condition=Available"):
                group.create_task(waits_on(bed, what))
    finally:
        controller.process.signal(signal.SIGCONT)
    await wait(bed, READY)
    assert await unserved(bed, "v4") == [], "kubectl wait took what was so while the controller stood still"


async def run_pipeline(bed: Workspace, kubectl: Path, new: Object) -> tuple[int, str]:
    """The script of docs/conditions.md for this DaemonSet: exit code and what it said."""
    [script] = re.findall(r"^```sh\n(.*?)^```", MANUAL.read_text(), re.DOTALL | re.MULTILINE)
    folder = bed.plane.folder / f"pipeline-{bed.namespace}"
    folder.mkdir(exist_ok=True)
    (folder / "demo.yaml").write_bytes(msgspec.json.encode(new))
    options = f"--kubeconfig={bed.plane.kubeconfig} --namespace={bed.namespace} --cache-dir={folder / 'cache'}"
    function = f'kubectl() {{ {kubectl} {options} "$@"; }}'
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f"{function}\n{script.replace('node-agent', 'demo').replace('15m', '60s')}"),
        cwd=folder,
        env={**os.environ, "KUBECTL_KUBERC": "false"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(120):
        said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_the_pipeline_of_the_manual_ends_well_or_with_the_reason(bed: Workspace) -> None:
    """With our kubectl, and that of the machine if it has one."""
    await bed.workers(*NODES)
    other = shutil.which("kubectl")
    for number, kubectl in enumerate([bed.plane.kubectl, *([Path(other)] if other else [])]):
        code, said = await run_pipeline(bed, kubectl, demo(f"good-{number}"))
        assert code == 0, f"{kubectl}: {said}"
        assert await unserved(bed, f"good-{number}") == []
        refused = demo(f"bad-{number}")
        refused["spec"]["template"]["spec"]["containers"] = REFUSED
        code, said = await run_pipeline(bed, kubectl, refused)
        assert code == 1, f"{kubectl}: {said}"
        assert "the server refuses pods of the new template" in said.splitlines()[-1]
        assert await unserved(bed, f"good-{number}") == [], "no pod was touched"
