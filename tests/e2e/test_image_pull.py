"""ImagePullJobs with components/image-pull on the real control plane: its rights, Pod Security, what is collected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.beds.api import EVENTS, IMAGE_PULL_JOBS, NAMESPACES, PODS, Object
from tests.beds.audit import Asked, Audit, Right, granted
from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running
from tests.beds.installed.workspace import Workspace, bed_on, built, sample
from tests.beds.manifests import overlay_with
from tests.beds.nodes import Behaviour
from tests.e2e.conftest import ACCOUNT, PULLS

pytestmark = pytest.mark.real

NODES = ("one", "two", "three")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
LIST = Right("apps.kruise.io", "imagepulljobs", "list")
"""Only where the server cannot send the first list as a watch, as the one of test_start.py."""


@pytest_asyncio.fixture
async def bed(plane: ControlPlane) -> AsyncIterator[Workspace]:
    async with bed_on(plane) as made:
        await made.api.patch(NAMESPACES, made.namespace, {"metadata": {"labels": RESTRICTED}})
        yield made


def job(**spec: Any) -> Object:
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": {"name": "pull"}}
    return {**kind, "spec": {"image": "agent:v2", "completionPolicy": {"type": "Always"}, **spec}}


async def over(bed: Workspace) -> Object:
    def is_over(found: list[Object]) -> bool:
        return bool(found) and bool((found[0].get("status") or {}).get("completionTime"))

    (found,) = await bed.api.wait_for(IMAGE_PULL_JOBS, is_over, "the job is over")
    await bed.api.wait_for(PODS, lambda pods: not pods, "no puller is left")
    return found


async def roll_out(bed: Workspace) -> None:
    """Of a DaemonSet that Pod Security takes, for which a job is made and removed."""
    bed.nodes.behave("two")
    bed.nodes.behave("*", Behaviour(pull=0.5))
    demo = sample("ds.demo.yaml")
    spec = demo["spec"]["template"]["spec"]
    spec["securityContext"] = {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = spec["containers"]
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    await bed.apply(demo)
    await bed.settled(len(NODES))
    container["image"] += "-new"
    await bed.apply(demo)
    await bed.api.wait_for(
        EVENTS, lambda found: any(one["reason"] == "CreatedImagePullJob" for one in found), "a job for the rollout"
    )
    await bed.settled(len(NODES))
    await bed.api.wait_for(IMAGE_PULL_JOBS, lambda found: not found, "the job goes with the rollout")


def gone_with_their_job(writes: list[Asked]) -> list[Asked]:
    """Writes to a job that was deleted before, or to its pullers, which the garbage collector may delete first."""
    deleted = {one.name: one.began for one in writes if (one.verb, one.resource) == ("delete", "imagepulljobs")}

    def job_of(write: Asked) -> str:
        return write.name if write.resource == "imagepulljobs/status" else write.name.rpartition("-")[0]

    return [one for one in writes if one.code == 404 and deleted.get(job_of(one), one.began) < one.began]


async def test_its_rights_are_enough_and_all_used_and_the_pods_are_restricted(
    bed: Workspace, plane: ControlPlane, tmp_path: Path
) -> None:
    with_it = granted(await built(plane, str(overlay_with(tmp_path, "default", "image-pull"))))
    added = with_it - granted(await built(plane, "overlays/default"))
    audit = Audit(plane, ACCOUNT)
    await bed.workers(*NODES)
    bed.nodes.behave("two", Behaviour(missing_images=("*",)))
    async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), PULLS, secrets=(ACCOUNT.token,)):
        asked = job(parallelism="50%", pullPolicy={"backoffLimit": 1})
        await bed.apply(asked)
        status = (await over(bed))["status"]
        assert (status["desired"], status["succeeded"], status["failedNodes"]) == (3, 2, ["two"])
        printed = await bed.kubectl("get", "imagepulljobs")
        assert printed.split()[:7] == ["NAME", "TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE", "MESSAGE"]
        assert printed.splitlines()[1].split()[:5] == ["pull", "3", "0", "2", "1"]
        await bed.api.wait_for(EVENTS, lambda found: any(one["reason"] == "ImagePullFailed" for one in found), "told")
        asked["spec"]["completionPolicy"]["ttlSecondsAfterFinished"] = 1  # now that all was looked at
        await bed.apply(asked)
        await bed.api.wait_for(IMAGE_PULL_JOBS, lambda found: not found, "the job goes")
        await roll_out(bed)
    assert audit.refused() == []
    writes = audit.writes()
    expected = gone_with_their_job(writes)
    assert [one for one in writes if one.code >= 400 and one not in expected] == []
    assert added - await audit.rights_with(added - {LIST}) == {LIST}
