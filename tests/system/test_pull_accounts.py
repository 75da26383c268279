"""Under which ServiceAccount pullers run: that of the rollout's template, or that which a job names."""

from __future__ import annotations

from tests.beds.api import ACCOUNTS, IMAGE_PULL_JOBS, PODS, Object
from tests.beds.controller.bed import Bed
from tests.beds.nodes import Behaviour
from tests.beds.objects import V1, V2, daemonset
from tests.beds.simulator.cluster import service_accounts
from tests.system.both import both_beds
from tests.system.pulls import counts, job, over, status_of

NAME = "kruise-ds/service-account-name"
IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible"}
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


async def test_pull_secrets_of_the_account_reach_the_pullers(pulls: Bed) -> None:
    await make_account(pulls)
    await admits_by_account(pulls)
    nodes = await deployed(pulls)
    pulls.nodes.behave("*", Behaviour(pull=60.0))
    await pulls.set_image(V2)
    assert (await puller(pulls)).get("imagePullSecrets") == KEY
    await pulls.runs_on(*nodes, image=V2)


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
async def test_a_job_may_name_an_account_and_a_bad_name_is_told(pulls: Bed) -> None:
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
