"""From OpenKruise's controller to ours by the commands of docs/upgrade.md: its objects stay as they are."""

from __future__ import annotations

import json

import pytest

from tests.beds.absence import not_to_be_had
from tests.beds.api import CRDS, DAEMONSETS_ALPHA, PODS, REVISIONS, Object
from tests.beds.control_plane import ControlPlane, ControlPlaneUnavailable
from tests.beds.openkruise import published_crd
from tests.beds.pods import is_ready
from tests.e2e.openkruise import HASHES, HELD, NAME, SYSTEM, crd, hand_written, in_charge
from tests.e2e.site import Site, site_on

pytestmark = pytest.mark.real

NODES = ("mon", "tue", "wed")


def is_prepared(pod: Object) -> bool:
    """Held before its deletion, and out of its traffic."""
    state = pod["metadata"]["labels"].get("lifecycle.apps.kruise.io/state")
    return state == "PreparingDelete" and not is_ready(pod)


async def theirs_installed(site: Site, theirs: Object) -> None:
    """Their CRD instead of ours, as somebody else applied it."""
    await site.sh("kubectl annotate --overwrite crd daemonsets.apps.kruise.io kruise-ds/allow-delete=true")
    await site.sh("kubectl delete -k manifests/crds")
    await site.bed.kubectl("create", "-f", "-", stdin=json.dumps(theirs))
    await site.bed.kubectl("wait", "--for=condition=Established", "crd/daemonsets.apps.kruise.io")
    await site.new_kinds_are_seen()


@pytest.fixture(params=["published", "two-versions"])
def theirs(request: pytest.FixtureRequest, site_plane: ControlPlane) -> Object:
    """The CRD of a release, and one as of another release: it serves two versions, and converts by a webhook."""
    if request.param == "two-versions":
        return crd(site_plane.ca_path.read_bytes())
    try:
        return published_crd()
    except ControlPlaneUnavailable as reason:
        not_to_be_had(reason)


async def test_pods_and_history_of_openkruise_are_taken_over_as_they_are(
    site_plane: ControlPlane, theirs: Object
) -> None:
    async with site_on(site_plane) as site:
        bed = site.bed
        await theirs_installed(site, theirs)
        await site.workers(*NODES)
        await in_charge(bed, site_plane, NODES)
        held = (await bed.serves(*NODES))["mon"]["metadata"]["name"]
        await bed.kubectl("label", "pod", held, *(f"{key}={value}" for key, value in HELD.items()))
        before = await site.pods()
        revisions = await bed.api.list(REVISIONS)

        listed = await site.follow("Hand-over")
        assert NAME in listed
        await bed.progressing("RolloutComplete", NAME)  # ours has looked: OpenKruise counts alike, without conditions
        seen = await bed.settled(len(NODES), NAME)
        assert await site.pods() == before, "no pod was touched"
        assert await bed.api.list(REVISIONS) == revisions, "and no revision"
        assert seen["updateRevision"] == seen["daemonSetHash"] == HASHES["v2"]
        stored = await bed.api.get(CRDS, "daemonsets.apps.kruise.io")
        assert stored["status"]["storedVersions"] == ["v1alpha1", "v1beta1"]
        assert (await bed.api.get(DAEMONSETS_ALPHA, NAME))["apiVersion"] == "apps.kruise.io/v1alpha1", "still served"

        await bed.apply(hand_written())
        await bed.settled(len(NODES), NAME)
        assert await site.pods() == before, "the same template in the form that its user wrote"

        await site.sh(f"kubectl kruise-ds rollback {NAME} -y -n {bed.namespace}")
        after = await bed.serves(*NODES, labels={"controller-revision-hash": HASHES["v1"]})
        assert {pod["spec"]["containers"][0]["image"] for pod in after.values()} == {"agent:v1"}
        await bed.settled(len(NODES), NAME)
        numbers = {one["metadata"]["name"]: one["revision"] for one in await bed.api.list(REVISIONS)}
        assert numbers == {f"{NAME}-{HASHES['v1']}": 3, f"{NAME}-{HASHES['v2']}": 2}, "theirs, renumbered, no new one"

        anew = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}
        await bed.kubectl("patch", "ads", NAME, "--type=merge", f"-p={json.dumps(anew)}")
        await bed.api.wait_for(PODS, lambda pods: any(map(is_prepared, pods)), "a pod that its hook holds")
        await bed.kubectl("label", "pod", held, *(f"{key}-" for key in HELD))
        await bed.settled(len(NODES), NAME)
        assert not {*(await site.pods()).values()} & {*before.values()}, "new pods everywhere"
        await bed.kubectl("delete", "namespace", SYSTEM)
