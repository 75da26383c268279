"""Images go ahead of a rollout: which ImagePullJobs are made for it, when, under which account, and how they end."""

from __future__ import annotations

import asyncio

import pytest

from tests.beds.api import ACCOUNTS, DAEMONSETS, IMAGE_PULL_JOBS, NAMESPACES, PODS, Object
from tests.beds.controller.bed import Bed, Check, uids
from tests.beds.nodes import Behaviour
from tests.beds.objects import PROBED, V1, V2, daemonset, image_of
from tests.beds.simulator.cluster import service_accounts
from tests.system.admission import judged, webhook_down
from tests.system.both import both_beds
from tests.system.in_place import restarts
from tests.system.pulls import counts, job, over, status_of
from tests.system.test_in_place_admission import MIRROR, move, not_in_place, of_containers

SLOW = Behaviour(pull=60.0)
BRIEF = Behaviour(pull=0.5)
"""Also where it takes its time."""


async def made(bed: Bed, count: int = 1) -> list[Object]:
    """Wait until there are so many jobs, by name."""

    def missing(found: list[Object]) -> str:
        names = sorted(one["metadata"]["name"] for one in found)
        return "" if len(names) == count else f"jobs: {names}"

    found = await bed.until(IMAGE_PULL_JOBS, missing, f"{count} jobs")
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


@both_beds
async def test_a_new_image_is_pulled_ahead_where_old_pods_are(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(), nodes=5)
    pulls.nodes.behave("*", BRIEF)
    await pulls.set_image(V2)
    (job,) = await made(pulls)
    (revision,) = [one for one in await pulls.revisions() if one["revision"] == 2]
    assert job["metadata"]["name"] == f"{revision['metadata']['name']}-agent"
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("DaemonSet", "agent", True)
    spec = job["spec"]
    assert (spec["image"], spec["parallelism"]) == (V2, 1)
    assert spec["pullPolicy"] == {"timeoutSeconds": 300, "backoffLimit": 1}
    assert spec["completionPolicy"] == {"type": "Always", "ttlSecondsAfterFinished": 600}
    told = await pulls.event("CreatedImagePullJob", V2)
    assert (told["type"], told["involvedObject"]["kind"]) == ("Normal", "DaemonSet")
    await pulls.settled()
    await made(pulls, 0)
    await pulls.runs_on(*nodes, image=V2)


async def test_nodes_that_are_updated_meanwhile_drop_out(pulls: Bed) -> None:
    """Nothing is pulled ahead here, so that only the rollout itself changes who is left."""
    await pulls.deploy(daemonset(rolling={"partition": 2}), nodes=5)
    none = {"apps.kruise.io/image-predownload-parallelism": "0"}
    await pulls.api.patch(DAEMONSETS, "agent", {"metadata": {"annotations": none}})
    await pulls.set_image(V2)

    def missing(found: list[Object]) -> str:
        counts = [(one.get("status") or {}).get("desired") for one in found]
        return "" if counts == [2] else f"nodes that shall have the image: {counts}"

    await pulls.until(IMAGE_PULL_JOBS, missing, "two old pods are left")
    assert all(pod["metadata"]["name"].startswith("agent-") for pod in await pulls.api.list(PODS))


async def test_progress_never_runs_backwards_while_nodes_are_updated(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling={"rollingUpdateType": "InPlaceIfPossible"}), nodes=4)
    pulls.nodes.behave("*", SLOW)
    seen: list[tuple[int, int]] = []

    async def watch() -> None:
        async for event in pulls.api.watch(IMAGE_PULL_JOBS, silence=600.0):
            if event.type == "MODIFIED" and (status := event.object.get("status")):
                seen.append((status["succeeded"], status["desired"]))  # as they come

    watching = asyncio.create_task(watch())
    await pulls.update(V2)
    watching.cancel()
    assert {desired for _, desired in seen} == {4}
    assert [there for there, _ in seen] == sorted(there for there, _ in seen)
    assert {0, 1, 2, 3} <= {there for there, _ in seen}


def images(*wanted: str) -> Check:
    """A check: there are jobs for these images and no others."""

    def missing(found: list[Object]) -> str:
        there = sorted(one["spec"]["image"] for one in found)
        return "" if there == sorted(wanted) else f"jobs for {there}"

    return missing


@both_beds
async def test_a_rollback_gets_a_job_of_its_own_and_ends_the_one_before(pulls: Bed) -> None:
    """The partition keeps old pods, so that there is a job for as long as it is looked at."""
    nodes = await pulls.deploy(daemonset(rolling={"partition": 2}), nodes=4)
    for image, other in ((V2, V1), (V1, V2), (V2, V1)):
        await pulls.set_image(image)
        (made,) = await pulls.until(IMAGE_PULL_JOBS, images(image), f"a job for {image}, and none for {other}")
        (hash_,) = made["spec"]["podSelector"]["matchExpressions"][0]["values"]
        assert made["metadata"]["labels"]["controller-revision-hash"] == hash_
        await pulls.status(updated=2)
    await pulls.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    await pulls.runs_on(*nodes, image=V2)
    await pulls.until(IMAGE_PULL_JOBS, images(), "no job is left")


async def test_what_goes_back_by_itself_gets_a_job_for_the_stable_image(pulls: Bed) -> None:
    """In place, where nodes wait for it: as does the one whose pod of the aborted revision is available."""
    on_failure = {"unavailableNodes": 1, "after": "1m", "action": "RollBack"}
    rolling = {"rollingUpdateType": "InPlaceIfPossible", "onFailure": on_failure}
    nodes = await pulls.deploy(daemonset(rolling=rolling, pod=PROBED), nodes=3)
    await asyncio.sleep(60)
    pulls.patience = 600.0
    pulls.nodes.behave("node-1", Behaviour(never_ready=(V2,)))
    await pulls.set_image(V2)
    await pulls.phase("Aborted")
    await pulls.runs_on(*nodes, image=V1)
    jobs = pulls.journal.of("imagepulljobs.apps.kruise.io", "create")
    assert [one.answer["spec"]["image"] for one in jobs] == [V2, V1]


@both_beds
async def test_a_job_that_is_refused_is_reported_and_made_when_it_is_not(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling={"partition": 2}), nodes=3)
    async with webhook_down(pulls, "create", of=IMAGE_PULL_JOBS):
        await pulls.set_image(V2)
        await pulls.event("FailedCreateImagePullJob", "failed calling webhook")
        await pulls.status(updated=1)
    await pulls.until(IMAGE_PULL_JOBS, images(V2), "the job after all")


@both_beds
async def test_in_place_a_puller_that_is_refused_is_reported_and_made_when_it_is_not(pulls: Bed) -> None:
    nodes = await pulls.deploy(daemonset(rolling={"rollingUpdateType": "InPlaceIfPossible"}), nodes=2)
    async with webhook_down(pulls, "create"):
        await pulls.set_image(V2)
        await pulls.event("FailedCreate", "failed calling webhook")
        await pulls.runs_on(*nodes, image=V1)
    await pulls.runs_on(*nodes, image=V2)


@both_beds
async def test_a_template_with_container_annotations_has_its_image_pulled(pulls: Bed) -> None:
    """The server refuses any pod with an AppArmor profile for a container that it does not have."""
    nodes = await pulls.add_nodes(2)
    new = daemonset(rolling={"rollingUpdateType": "InPlaceIfPossible"})
    profile = {"container.apparmor.security.beta.kubernetes.io/agent": "runtime/default"}
    new["spec"]["template"]["metadata"]["annotations"] = profile
    await pulls.deploy(new)
    await pulls.set_image(V2)
    await pulls.runs_on(*nodes, image=V2)


@both_beds
async def test_a_namespace_that_ends_in_mid_pull_is_left_in_peace(
    pulls: Bed, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the jobs is held by a finalizer, and dies slowly."""
    await pulls.add_nodes(3)
    pulls.nodes.behave("*", Behaviour(pull=3600.0))
    held = job("held", parallelism=3)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    for one in (job(parallelism=2), held):
        await pulls.api.create(IMAGE_PULL_JOBS, one)

    def missing(found: list[Object]) -> str:
        there = [counts(status_of(found, name)) for name in ("pull", "held")]
        return "" if there == [(3, 2, 0, 0), (3, 3, 0, 0)] else f"the jobs count {there}"

    await pulls.until(IMAGE_PULL_JOBS, missing, "both are under way")
    await pulls.api.delete(NAMESPACES, pulls.api.namespace)
    await pulls.until(PODS, lambda found: f"{len(found)} pods" if found else "", "no pods")
    await pulls.until(IMAGE_PULL_JOBS, lambda found: "" if len(found) == 1 else f"{len(found)}", "one job is held")
    await pulls.idle(1.0)
    capsys.readouterr()
    before = len(pulls.journal.writes)
    if pulls.simulation is not None:
        await asyncio.sleep(7200)  # of virtual time
    await pulls.idle()
    assert pulls.journal.writes[before:] == []
    assert "level='error'" not in capsys.readouterr().out
    refused = {write.status for write in pulls.journal.of("pods", failed=True) if write.status >= 400}
    assert refused <= {403, 404, 409}
    await pulls.api.patch(IMAGE_PULL_JOBS, "held", {"metadata": {"finalizers": None}})


IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible"}
ONLY_MIRROR = Behaviour(missing_images=(V2,))


async def rolled_out(pulls: Bed) -> None:
    pulls.nodes.behave("*", ONLY_MIRROR)
    await pulls.set_image(V2)
    pulls.patience = 1200.0
    await pulls.settled()


@pytest.mark.parametrize("writes", [("create",), ("create", "update")], ids=["at creation only", "at updates too"])
@pytest.mark.parametrize("since", ["before the pods", "after them"])
async def test_a_moved_image_is_there_under_its_new_name_only(
    pulls: Bed, since: str, writes: tuple[str, ...]
) -> None:
    """By the name in the template it cannot be pulled."""
    webhook = of_containers(move, *writes)
    if since == "after them":
        await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    with judged(pulls, webhook):
        if since == "before the pods":
            await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
        before = uids(await pulls.pods())
        await rolled_out(pulls)
        pods = await pulls.pods()
    assert {image_of(pod) for pod in pods.values()} == {MIRROR + V2}
    in_place = "update" in writes
    assert (uids(pods) == before) is in_place
    assert {restarts(pod) for pod in pods.values()} == {int(in_place)}
    assert ("admission changes their image at creation" in await not_in_place(pulls)) is not in_place


NAME = "kruise-ds/service-account-name"
KEY = [{"name": "key"}]


async def deployed(bed: Bed) -> list[str]:
    """Two nodes, updated in place, whose pods run under the account `agent`."""
    nodes = await bed.add_nodes(2)
    new = daemonset(rolling=IN_PLACE)
    new["spec"]["template"]["spec"]["serviceAccountName"] = "agent"
    await bed.deploy(new)
    return nodes


async def puller(bed: Bed) -> Object:
    """Wait until there is one, and return its spec."""

    def pullers(found: list[Object]) -> list[Object]:
        return [one for one in found if "kruise-ds/image-pull-job" in one["metadata"]["labels"]]

    found = await bed.until(PODS, lambda pods: "" if pullers(pods) else "no puller", "a puller")
    spec: Object = pullers(found)[0]["spec"]
    return spec


async def admits_by_account(bed: Bed) -> None:
    """From now on the server admits pods by their accounts, as it does by default; every namespace has one."""
    await bed.api.create(ACCOUNTS, {"metadata": {"name": "default"}})
    cluster = bed.simulator.cluster
    cluster.admission.append(service_accounts(cluster))


async def make_account(bed: Bed) -> None:
    await bed.api.create(ACCOUNTS, {"metadata": {"name": "agent"}, "imagePullSecrets": KEY})


async def tells(bed: Bed, words: str, name: str = "pull") -> None:
    """Wait until the status of the job says so."""

    def missing(found: list[Object]) -> str:
        message = str(status_of(found, name).get("message"))
        return "" if words in message else message

    await bed.until(IMAGE_PULL_JOBS, missing, f"{name} tells: {words}")


@both_beds
async def test_pullers_of_a_rollout_run_under_its_account_without_a_token(pulls: Bed) -> None:
    nodes = await deployed(pulls)
    pulls.nodes.behave("*", Behaviour(pull=3600.0))
    await pulls.set_image(V2)
    spec = await puller(pulls)
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("agent", False)
    await pulls.runs_on(*nodes, image=V1)


async def test_while_the_account_is_not_there_the_job_and_the_rollout_say_so(pulls: Bed) -> None:
    await make_account(pulls)
    await admits_by_account(pulls)
    nodes = await deployed(pulls)
    await pulls.api.delete(ACCOUNTS, "agent")
    await pulls.set_image(V2)
    words = 'serviceaccount "agent" not found'
    await pulls.event("FailedCreate", words)
    (made,) = await pulls.api.list(IMAGE_PULL_JOBS)
    await tells(pulls, words, made["metadata"]["name"])
    told = await pulls.condition("Reconciling", "ImagesNotPulled")
    assert words in told["message"]
    await pulls.runs_on(*nodes, image=V1)
    await make_account(pulls)
    await pulls.runs_on(*nodes, image=V2)


@both_beds
async def test_a_job_may_name_an_account_and_a_bad_name_is_reported(pulls: Bed) -> None:
    await pulls.add_nodes(2)
    new = job()
    new["metadata"]["annotations"] = {NAME: "Not valid"}
    await pulls.api.create(IMAGE_PULL_JOBS, new)
    words = 'spec.serviceAccountName: Invalid value: "Not valid"'
    await pulls.event("FailedCreate", words)
    await tells(pulls, words)
    pulls.nodes.behave("*", Behaviour(pull=5.0))
    await pulls.api.patch(IMAGE_PULL_JOBS, "pull", {"metadata": {"annotations": {NAME: "agent"}}})
    assert (await puller(pulls))["serviceAccountName"] == "agent"
    assert counts(await over(pulls)) == (2, 0, 2, 0)
