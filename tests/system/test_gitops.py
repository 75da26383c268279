"""What Flux and Argo CD make of a DaemonSet, by their own code, in each phase and at each moment of a rollout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path

import pytest

from controller.api.daemonset import Phase
from tests.beds.api import DAEMONSETS, Object
from tests.beds.controller.bed import Bed
from tests.beds.controller.waves import UNREADY, all_ready
from tests.beds.gitops import GitOps, Verdicts
from tests.beds.kstatus import READ_AS, TERMINATING, kstatus, shipped
from tests.beds.objects import V2, V3, daemonset
from tests.unit.controller.planner.written import BRANCHES, IN_PHASE, SCRIPT, TOLD, as_read, looked_at

KIND = {"apiVersion": DAEMONSETS.api_version, "kind": DAEMONSETS.kind}
NEW = {"status": {"observedGeneration": 0}}
"""The CRD's default, which the simulator does not fill in."""


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """The script of docs/conditions.md, as an entry of argocd-cm has it."""
    path = tmp_path / "health.lua"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("phase", Phase)
def test_both_read_a_phase_as_the_page_says(gitops: GitOps, entry: Path, phase: Phase) -> None:
    found = as_read(IN_PHASE[phase])
    (verdicts,) = gitops.judge([KIND | found], entry)
    assert verdicts.flux.status == kstatus(found) == READ_AS[phase]
    assert (verdicts.argo_cd.status, verdicts.ours.status) == TOLD[phase]
    assert verdicts.argo_cd.status == shipped(found)


def test_our_reading_of_the_shipped_script_has_its_branches(gitops: GitOps, entry: Path) -> None:
    found = [KIND | as_read(looked_at(of)) for of, _ in BRANCHES.values()]
    told = [verdicts.argo_cd.status for verdicts in gitops.judge(found, entry)]
    assert told == [theirs for _, theirs in BRANCHES.values()] == [shipped(one) for one in found]


@asynccontextmanager
async def recording(bed: Bed) -> AsyncIterator[list[Object]]:
    """Every version of the DaemonSet that a watch tells of, until it is gone."""
    seen: list[Object] = []

    async def record() -> None:
        async for event in bed.api.watch(DAEMONSETS, resourceVersion="0"):
            if event.type == "DELETED":
                return
            seen.append(KIND | NEW | event.object)

    watching = asyncio.create_task(record())
    yield seen
    await watching


def in_turn(verdicts: Sequence[str]) -> list[str]:
    return [verdict for verdict, _ in groupby(verdicts)]


async def test_no_moment_of_a_rollout_is_taken_for_another(bed: Bed, gitops: GitOps, entry: Path) -> None:
    """After each edit there is something to wait for, before anything is done; and only `status` is ever written."""
    applied = daemonset(rolling={"maxUnavailable": 2, "partition": 0})
    applied["metadata"]["annotations"] = {"kruise-ds/progress-deadline-seconds": "5"}
    await bed.add_nodes(4)
    async with recording(bed) as seen:
        await bed.api.create(DAEMONSETS, applied)
        await bed.settled()
        specs = [(await bed.daemonset())["spec"]]

        async def edited(phase: str, image: str = "", **rolling: object) -> None:
            spec: Object = {"updateStrategy": {"rollingUpdate": rolling}}
            if image:
                container = applied["spec"]["template"]["spec"]["containers"][0]
                spec["template"] = {"spec": {"containers": [{**container, "image": image}]}}
            specs.append((await bed.edit(spec))["spec"])
            await bed.phase(phase)

        await edited("Held", V2, partition=2)
        await edited("Paused", paused=True, partition=0)
        await edited("Healthy", paused=False)
        bed.nodes.behave("*", UNREADY)
        await edited("Stalled", V3)
        bed.nodes.behave("*")
        await all_ready(bed)
        await bed.phase("Healthy")
        await bed.idle()
        deleted = {**seen[-1], "metadata": {**seen[-1]["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Background"})
    verdicts = gitops.judge([*seen, deleted], entry)
    each_edit_is_waited_for(seen, verdicts)
    progress = ["InProgress", "Current"]
    assert in_turn([one.flux.status for one in verdicts]) == [
        *(progress * 4),
        "InProgress",
        "Failed",
        *progress,
        TERMINATING,
    ]
    assert in_turn([one.ours.status for one in verdicts]) == [
        *("Progressing", "Healthy", "Progressing", "Suspended", "Progressing", "Suspended"),
        *("Progressing", "Healthy", "Progressing", "Degraded", "Progressing", "Healthy", "Progressing"),
    ]
    assert [spec for spec, _ in groupby(one["spec"] for one in seen)] == specs, "nothing but what was applied"
    for one in seen:
        kept = {key: one["metadata"].get(key) for key in ("labels", "annotations", "finalizers", "ownerReferences")}
        assert kept == {key: applied["metadata"].get(key) for key in kept}


async def test_a_walk_waits_for_a_person_and_fails_at_an_abort(bed: Bed, gitops: GitOps, entry: Path) -> None:
    steps = [{"nodes": 1, "soak": "30s"}, {"nodes": 2, "approval": "Required"}, {"nodes": "100%"}]
    await bed.add_nodes(3)
    async with recording(bed) as seen:
        on_failure = {"unavailableNodes": 1, "after": "30s"}
        await bed.deploy(daemonset(rolling={"maxUnavailable": 3, "steps": steps, "onFailure": on_failure}))
        await asyncio.sleep(40.0)
        await bed.set_image(V2)
        await bed.phase("AwaitingApproval")
        approval = {"kruise-ds/approve": f"{(await bed.daemonset())['status']['updateRevision']}/2"}
        await bed.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": approval}})
        await bed.phase("Healthy")
        bed.nodes.behave("*", UNREADY)
        await bed.set_image(V3)
        await bed.phase("Aborted")
        await bed.api.delete(DAEMONSETS, "agent", options={"propagationPolicy": "Background"})
    verdicts = gitops.judge(seen, entry)
    each_edit_is_waited_for(seen, verdicts)
    flux, ours = (in_turn(one) for one in zip(*((one.flux.status, one.ours.status) for one in verdicts), strict=True))
    assert flux == [*(["InProgress", "Current"] * 3), "InProgress", "Failed"]
    waits = ["Progressing", "Suspended", "Progressing", "Healthy"]
    assert ours == ["Progressing", "Healthy", *waits, "Progressing", "Degraded"]


def each_edit_is_waited_for(seen: Sequence[Object], verdicts: Sequence[Verdicts]) -> None:
    known = 0
    for one, told in zip(seen, verdicts, strict=False):
        if one["metadata"]["generation"] != known:
            known = one["metadata"]["generation"]
            assert (told.flux.status, told.ours.status) == ("InProgress", "Progressing"), f"generation {known}"
