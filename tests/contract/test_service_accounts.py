"""What a pod takes from its ServiceAccount, where the server admits pods by them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from controller.runtime.clock import system_clock
from tests.beds.api import ACCOUNTS, PODS, Object
from tests.beds.control_plane import Binaries, ControlPlane
from tests.beds.objects import pod
from tests.beds.simulator import Cluster
from tests.beds.simulator.cluster import service_accounts
from tests.contract.bed import ApiServer, refused


@pytest.fixture
def simulated() -> Cluster:
    cluster = Cluster(system_clock, strict_namespaces=True)
    cluster.admission.append(service_accounts(cluster))
    return cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane_with_crds(control_plane_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Without our kinds, which are not asked for here."""
    async with ControlPlane(control_plane_binaries, controllers=(), service_accounts=True) as plane:
        yield plane


def without_token(name: str, **spec: object) -> Object:
    new = pod(name)
    new["spec"] |= {"automountServiceAccountToken": False, **spec}
    return new


async def account(bed: ApiServer, name: str, *secrets: str) -> None:
    listed = [{"name": secret} for secret in secrets]
    await bed.api.create(ACCOUNTS, {"metadata": {"name": name}, "imagePullSecrets": listed})


async def test_a_pod_has_its_accounts_pull_secrets_and_no_unwanted_token(bed: ApiServer) -> None:
    await account(bed, "agent", "one", "two")
    made = (await bed.api.create(PODS, without_token("named", serviceAccountName="agent")))["spec"]
    assert made["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert "volumes" not in made


async def test_secrets_that_a_pod_names_itself_are_all_that_it_has(bed: ApiServer) -> None:
    await account(bed, "agent", "one")
    mine = without_token("mine", serviceAccountName="agent", imagePullSecrets=[{"name": "other"}])
    assert (await bed.api.create(PODS, mine))["spec"]["imagePullSecrets"] == [{"name": "other"}]


async def test_a_pod_that_names_no_account_has_that_of_its_namespace(bed: ApiServer) -> None:
    await account(bed, "default", "one")
    made = (await bed.api.create(PODS, without_token("any")))["spec"]
    assert (made["serviceAccountName"], made["serviceAccount"]) == ("default", "default")
    assert made["imagePullSecrets"] == [{"name": "one"}]


async def test_a_pod_whose_account_is_not_there_is_forbidden(bed: ApiServer) -> None:
    where = f"error looking up service account {bed.name}/agent"
    words = f'pods "one" is forbidden: {where}: serviceaccount "agent" not found'
    with refused(403, "Forbidden", words, kind="pods", name="one"):
        await bed.api.create(PODS, without_token("one", serviceAccountName="agent"))
