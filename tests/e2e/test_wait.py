"""Plain `kubectl wait` beside the real controller: it returns when it should, and not on the state before."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.beds.api import DAEMONSETS, EVENTS, Object
from tests.beds.installed.process import Controller
from tests.beds.installed.workspace import Workspace, sample
from tests.beds.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.beds.manifests import MANIFESTS
from tests.beds.nodes import INSTANT, Behaviour
from tests.beds.pods import node_of, serves

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("controller")]

NODES = ("wait-0", "wait-1", "wait-2")
HELD_UP = Behaviour(ready=None)
"""New pods run and are not ready; those that are ready stay so."""
MANUAL = MANIFESTS.parent / "docs" / "conditions.md"
READY = "--for=condition=Ready"
REFUSED = [{"name": "demo", "image": "busybox", "imagePullPolicy": "Sometimes"}]


def demo(version: str = "v1", *, deadline: int = 600, **rolling: Any) -> Object:
    made = sample("ds.demo.yaml")
    made["metadata"]["annotations"] = {"kruise-ds/progress-deadline-seconds": str(deadline)}
    made["spec"]["template"]["metadata"]["labels"]["ver"] = version
    made["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    return made


async def wait(bed: Workspace, what: str, seconds: float = 60.0) -> str:
    """`kubectl wait <what> ads/demo`: what it says; it must succeed within that time."""
    return await bed.kubectl("wait", what, "ads/demo", f"--timeout={seconds}s")


async def waits_on(bed: Workspace, what: str) -> None:
    """What is waited for is not so yet, and not for the next moment either."""
    ended = await bed.tried("wait", what, "ads/demo", "--timeout=1s")
    assert ended.returncode == 1, f"kubectl wait {what} must not succeed yet: {ended.stdout}"
    assert "timed out waiting" in ended.stderr


async def found(bed: Workspace) -> Object:
    return await bed.api.get(DAEMONSETS, "demo")


async def unserved(bed: Workspace, version: str) -> list[str]:
    """The nodes without a ready pod of this version, now."""
    pods = [pod for pod in await bed.pods() if serves(pod) and pod["metadata"]["labels"]["ver"] == version]
    return sorted({*NODES} - {*map(node_of, pods)})


@asynccontextmanager
async def waiting(bed: Workspace, what: str) -> AsyncIterator[asyncio.Task[str]]:
    """`kubectl wait` that is under way."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait(bed, what))
        yield task


async def test_ready_is_waited_for_until_all_are_available_and_never_taken_from_the_state_before(
    bed: Workspace,
) -> None:
    await bed.workers(*NODES)
    bed.nodes.behave("*", HELD_UP)
    await bed.apply(demo())
    await waits_on(bed, READY)
    async with waiting(bed, READY):
        bed.nodes.behave("*", INSTANT)
    assert await unserved(bed, "v1") == [], "kubectl wait returned too early"

    for version in ("v2", "v3", "v4"):
        await bed.apply(demo(version))
        await wait(bed, READY)
        assert await unserved(bed, version) == [], f"kubectl wait took the state before {version}"
    await wait(bed, "--for=jsonpath={.status.rollout.phase}=Healthy")
    assert kstatus(await found(bed)) == CURRENT


async def test_while_the_controller_has_not_seen_the_newest_spec_nothing_is_true_of_it(
    bed: Workspace, controller: Controller
) -> None:
    await bed.workers(*NODES)
    await bed.apply(demo())
    await wait(bed, READY)
    controller.process.signal(signal.SIGSTOP)
    try:
        await bed.apply(demo("v2"))
        async with asyncio.TaskGroup() as group:
            for what in (READY, "--for=condition=Reconciling=false", "--for=condition=Available"):
                group.create_task(waits_on(bed, what))
        assert kstatus(await found(bed)) == IN_PROGRESS
    finally:
        controller.process.signal(signal.SIGCONT)
    await wait(bed, READY)
    assert await unserved(bed, "v2") == []


async def test_a_rollout_that_is_held_or_paused_is_ready_at_once_and_reconciles_no_more(bed: Workspace) -> None:
    await bed.workers(*NODES)
    await bed.apply(demo())
    await wait(bed, READY)
    await bed.apply(demo("v2", partition=2))
    await wait(bed, "--for=condition=Reconciling=false")
    await wait(bed, READY, 0)
    assert await unserved(bed, "v2") == ["wait-0", "wait-1"]
    assert (await found(bed))["status"]["rollout"]["phase"] == "Held"
    await bed.apply(demo("v3", paused=True))
    await wait(bed, READY)
    assert (await found(bed))["status"]["rollout"]["phase"] == "Paused"
    assert kstatus(await found(bed)) == CURRENT


async def test_a_rollout_that_is_stuck_ends_the_wait_for_it(bed: Workspace) -> None:
    await bed.workers(*NODES)
    await bed.apply(demo(deadline=2))
    await wait(bed, READY)
    bed.nodes.behave("*", HELD_UP)
    await bed.apply(demo("v2", deadline=2))
    await wait(bed, "--for=condition=Stalled")
    await wait(bed, "--for=condition=Reconciling=false", 0)
    await waits_on(bed, READY)
    assert kstatus(await found(bed)) == FAILED
    bed.nodes.behave("*", INSTANT)
    await wait(bed, READY)
    await wait(bed, "--for=condition=Stalled=false", 0)
    both = {"ProgressDeadlineExceeded", "RolloutComplete"}
    await bed.api.wait_for(EVENTS, lambda events: both <= {one["reason"] for one in events}, "both were told")
    described = await bed.kubectl("describe", "ads", "demo")
    for words in (
        "Rollout stalled: no progress for 2 seconds",
        "Rollout complete: 3 of 3 nodes have an available pod",
    ):
        assert words in described


def pipeline() -> str:
    """The script of docs/conditions.md, for this test's DaemonSet."""
    [script] = re.findall(r"^```sh\n(.*?)^```", MANUAL.read_text(), re.DOTALL | re.MULTILINE)
    return str(script).replace("node-agent", "demo").replace("15m", "60s")


def kubectls(bed: Workspace) -> list[Path]:
    """Ours, and that of the machine if it has one."""
    other = shutil.which("kubectl")
    return [bed.plane.kubectl, *([Path(other)] if other else [])]


async def run_pipeline(bed: Workspace, kubectl: Path, new: Object) -> tuple[int, str]:
    """Exit code and what it said."""
    folder = bed.plane.folder / f"pipeline-{bed.namespace}"
    folder.mkdir(exist_ok=True)
    (folder / "demo.yaml").write_bytes(msgspec.json.encode(new))
    options = f"--kubeconfig={bed.plane.kubeconfig} --namespace={bed.namespace} --cache-dir={folder / 'cache'}"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f'kubectl() {{ {kubectl} {options} "$@"; }}\n{pipeline()}'),
        cwd=folder,
        env={**os.environ, "KUBECTL_KUBERC": "false"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(120):
        said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_the_pipeline_of_the_manual_ends_well_or_with_the_reason(bed: Workspace) -> None:
    await bed.workers(*NODES)
    for number, kubectl in enumerate(kubectls(bed)):
        code, said = await run_pipeline(bed, kubectl, demo(f"good-{number}"))
        assert code == 0, f"{kubectl}: {said}"
        assert await unserved(bed, f"good-{number}") == []
        refused = demo(f"bad-{number}")
        refused["spec"]["template"]["spec"]["containers"] = REFUSED
        code, said = await run_pipeline(bed, kubectl, refused)
        assert code == 1, f"{kubectl}: {said}"
        assert "the server refuses pods of the new template" in said.splitlines()[-1]
        assert await unserved(bed, f"good-{number}") == [], "no pod was touched"
