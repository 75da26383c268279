"""ImagePullJobs with components/image-pull on the real control plane: its rights, Pod Security, what is collected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.beds.api import EVENTS, IMAGE_PULL_JOBS, NAMESPACES, PODS, Object
from tests.beds.audit import Audit
from tests.beds.control_plane import DEFAULT_CONTROLLERS, Binaries, ControlPlane
from tests.beds.installed.plugin import Plugin
from tests.beds.installed.process import PATIENCE, running
from tests.beds.installed.workspace import Workspace, bed_on, built, sample
from tests.beds.manifests import MANIFESTS, overlay_with
from tests.beds.nodes import Behaviour
from tests.beds.pods import node_of
from tests.beds.rights import Right, granted
from tests.e2e.conftest import ACCOUNT, bare_plane

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

GATE = "--feature-gates=PreDownloadImageForDaemonSetUpdate=true"
NODES = ("one", "two", "three")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
LIST = Right("apps.kruise.io", "imagepulljobs", "list")
"""Only where the server cannot send the first list as a watch."""


class Site(NamedTuple):
    plane: ControlPlane
    rights: set[Right]
    """That the component adds."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(complete_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    overlay = overlay_with(tmp_path_factory.mktemp("overlay"), "default", "image-pull")
    async with bare_plane(complete_binaries, [ACCOUNT]) as plane:
        await kubectl(plane, "apply", "--server-side", "-k", str(overlay))
        await kubectl(plane, "wait", "--for=condition=Established", "crd/imagepulljobs.apps.kruise.io")
        await plane.start_controller_manager(DEFAULT_CONTROLLERS)
        with_it, without = await built(plane, str(overlay)), await built(plane, "overlays/default")
        yield Site(plane, granted(with_it) - granted(without))


@pytest_asyncio.fixture(loop_scope="module")
async def bed(site: Site) -> AsyncIterator[Workspace]:
    async with bed_on(site.plane) as made:
        await made.api.patch(NAMESPACES, made.namespace, {"metadata": {"labels": RESTRICTED}})
        yield made


async def kubectl(plane: ControlPlane, *words: str) -> str:
    done = await plane.run_kubectl(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def job(**spec: Any) -> Object:
    kind = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "ImagePullJob", "metadata": {"name": "pull"}}
    return {**kind, "spec": {"image": "agent:v2", "completionPolicy": {"type": "Always"}, **spec}}


async def over(bed: Workspace) -> Object:
    def is_over(found: list[Object]) -> bool:
        return bool(found) and bool((found[0].get("status") or {}).get("completionTime"))

    (found,) = await bed.api.wait_for(IMAGE_PULL_JOBS, is_over, "the job is over")
    await bed.api.wait_for(PODS, lambda pods: not pods, "no puller is left")
    return found


async def test_its_rights_are_enough_and_all_used_and_the_pods_are_restricted(bed: Workspace, site: Site) -> None:
    audit = Audit(site.plane, ACCOUNT)
    await bed.workers(*NODES)
    bed.nodes.behave("two", Behaviour(missing_images=("*",)))
    async with running(site.plane.folder, site.plane.kubeconfig_for(ACCOUNT), GATE, secrets=(ACCOUNT.token,)):
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
    assert [one for one in audit.requests() if one.is_write and one.code >= 400] == []
    assert site.rights - await audit.rights_with(site.rights - {LIST}) == {LIST}


async def roll_out(bed: Workspace) -> None:
    """Of a DaemonSet, for which a job is made and removed."""
    bed.nodes.behave("two")
    bed.nodes.behave("*", Behaviour(pull=0.5))
    demo = sample("ds.demo.yaml")
    restricted(demo)
    await bed.apply(demo)
    await bed.settled(len(NODES))
    demo["spec"]["template"]["spec"]["containers"][0]["image"] += "-new"
    await bed.apply(demo)
    await bed.api.wait_for(
        EVENTS, lambda found: any(one["reason"] == "CreatedImagePullJob" for one in found), "a job for the rollout"
    )
    await bed.settled(len(NODES))
    await bed.api.wait_for(IMAGE_PULL_JOBS, lambda found: not found, "the job goes with the rollout")


def restricted(daemonset: Object) -> None:
    spec = daemonset["spec"]["template"]["spec"]
    spec["securityContext"] = {"runAsNonRoot": True, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in spec["containers"]:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


async def test_the_plugin_pulls_and_tells_where_it_failed(bed: Workspace, site: Site) -> None:
    await bed.workers(*NODES)
    bed.nodes.behave("*", Behaviour(pull=0.5))
    bed.nodes.behave("two", Behaviour(missing_images=("agent:v2",), registry="401 Unauthorized"))
    plugin = Plugin(site.plane.kubectl, site.plane.kubeconfig, bed.namespace)
    async with running(site.plane.folder, site.plane.kubeconfig_for(ACCOUNT), GATE):
        ran = await plugin.run("pull", "agent:v2", "--parallelism", "100%", "--timeout", "5m")
    assert ran.code == 4, ran.err
    assert "image there on 2 of 3 nodes, failed on 1\n" in ran.out
    assert 'failed on two: ErrImagePull: Failed to pull image "agent:v2": 401 Unauthorized' in ran.out


async def test_a_controller_that_is_killed_in_mid_job_is_carried_on(bed: Workspace, site: Site) -> None:
    await bed.workers(*NODES)
    bed.nodes.behave("*", Behaviour(pull=1.0))
    account = site.plane.kubeconfig_for(ACCOUNT)
    async with running(site.plane.folder, account, GATE) as first:
        await bed.apply(job())
        await bed.api.wait_for(
            IMAGE_PULL_JOBS, lambda found: (found[0].get("status") or {}).get("succeeded") == 1, "one has it"
        )
        await first.killed()
    async with running(site.plane.folder, account, GATE):
        assert (await over(bed))["status"]["succeeded"] == 3


async def test_pullers_go_with_their_job_while_no_controller_runs(bed: Workspace, site: Site) -> None:
    await bed.workers(*NODES)
    bed.nodes.behave("*", Behaviour(pull=3600.0))
    async with running(site.plane.folder, site.plane.kubeconfig_for(ACCOUNT), GATE) as first:
        await bed.apply(job(parallelism=3))
        pods = await bed.api.wait_for(PODS, lambda found: len(found) == 3 and all(map(node_of, found)), "all pull")
        assert sorted(map(node_of, pods)) == sorted(NODES)
        await first.killed()
    await bed.kubectl("delete", "imagepulljob", "pull")
    await bed.api.wait_for(PODS, lambda found: not found, "the garbage collector has seen to them")


async def test_jobs_and_pullers_go_with_the_daemonset_in_mid_pull(bed: Workspace, site: Site) -> None:
    await bed.workers(*NODES)
    async with running(site.plane.folder, site.plane.kubeconfig_for(ACCOUNT), GATE):
        demo = sample("ds.demo.yaml")
        restricted(demo)
        demo["metadata"]["annotations"] = {"apps.kruise.io/image-predownload-parallelism": "100%"}
        await bed.apply(demo)
        await bed.settled(len(NODES))
        bed.nodes.behave("*", Behaviour(pull=3600.0))
        demo["spec"]["template"]["spec"]["containers"][0]["image"] += "-new"
        await bed.apply(demo)
        await bed.api.wait_for(PODS, lambda found: sum(map(is_puller, found)) >= 2, "the others pull ahead")
        await bed.kubectl("delete", "ads", "demo", "--wait=false")
        await bed.api.wait_for(IMAGE_PULL_JOBS, lambda found: not found, "the job goes as a dependent")
        await bed.api.wait_for(PODS, lambda found: not any(map(is_puller, found)), "no puller is left")


def is_puller(pod: Object) -> bool:
    return "kruise-ds/image-pull-job" in pod["metadata"]["labels"]


async def test_in_one_namespace_the_rights_are_enough_and_none_too_many(
    complete_binaries: Binaries, tmp_path: Path
) -> None:
    overlay = overlay_with(tmp_path, "namespaced", "image-pull-namespaced")
    kind = MANIFESTS / "components" / "image-pull" / "imagepulljobs.apps.kruise.io.yaml"
    async with bare_plane(complete_binaries, [ACCOUNT]) as plane:
        await kubectl(plane, "apply", "--server-side", "-k", str(MANIFESTS / "crds"))
        await kubectl(plane, "apply", "--server-side", "-f", str(kind))
        await kubectl(plane, "wait", "--for=condition=Established", "crd", "--all")
        await plane.start_controller_manager(DEFAULT_CONTROLLERS)
        async with bed_on(plane, "team-a") as bed:
            await kubectl(plane, "apply", "--server-side", "-k", str(overlay))
            audit = Audit(plane, ACCOUNT)
            added = granted(await built(plane, str(overlay))) - granted(await built(plane, "overlays/namespaced"))
            await bed.workers(*NODES)
            bed.nodes.behave("*", Behaviour(pull=0.5))
            async with running(plane.folder, plane.kubeconfig_for(ACCOUNT), GATE, "--namespace=team-a"):
                await bed.apply(job(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": 3}))
                assert (await over(bed))["status"]["succeeded"] == 3
                await bed.api.wait_for(IMAGE_PULL_JOBS, lambda found: not found, "the job goes after three seconds")
                await roll_out(bed)
        assert audit.refused() == []
        assert added - await audit.rights_with(added - {LIST}) == {LIST}
        assert {one.namespace for one in audit.requests()} <= {"", "team-a"}


async def test_without_the_component_a_controller_with_the_gate_serves_daemonsets(
    complete_binaries: Binaries, tmp_path: Path
) -> None:
    """The kind is not there, nor the right to read it."""
    async with bare_plane(complete_binaries, [ACCOUNT]) as plane:
        await kubectl(plane, "apply", "--server-side", "-k", str(overlay_with(tmp_path, "default")))
        await kubectl(plane, "wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
        async with bed_on(plane) as bed, running(plane.folder, plane.kubeconfig_for(ACCOUNT), GATE) as controller:
            await bed.workers("one")
            await bed.apply_sample("ds.demo.yaml")
            await bed.settled(1)
            told = ("cannot watch imagepulljobs", "CRD of imagepulljobs")
            await controller.until(lambda: any(map(controller.said, told)), "says what is missing", PATIENCE)
            assert await controller.terminated() == 0
