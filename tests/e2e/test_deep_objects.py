"""The API server takes objects that nest thousands of levels deep: the controller must survive the sight of them."""

from __future__ import annotations

import pytest

from tests.beds.control_plane import ControlPlane
from tests.beds.installed.process import running
from tests.beds.installed.workspace import Workspace
from tests.e2e.conftest import ACCOUNT

pytestmark = pytest.mark.real

LEVELS = 2_500


def deep(name: str) -> str:
    """JSON of a DaemonSet with a nest in its template; Python's own encoder cannot write it."""
    nest = '{"a":' * LEVELS + "{}" + "}" * LEVELS
    return (
        f'{{"apiVersion":"apps.kruise.io/v1beta1","kind":"DaemonSet","metadata":{{"name":"{name}"}},'
        f'"spec":{{"selector":{{"matchLabels":{{"app":"{name}"}}}},'
        f'"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{{"containers":[{{"name":"agent","image":"agent:v1"}}],"nest":{nest}}}}}}}}}'
    )


async def test_a_daemonset_that_nests_too_deep_is_told_and_the_others_go_on(
    bed: Workspace, plane: ControlPlane
) -> None:
    """Found by a watch, and in the first list of the next controller."""
    await bed.workers("deep")
    await bed.apply_sample("ds.demo.yaml")
    collection = f"/apis/apps.kruise.io/v1beta1/namespaces/{bed.namespace}/daemonsets"
    for turn in range(2):
        async with running(plane.folder, plane.kubeconfig_for(ACCOUNT)) as controller:
            if not turn:
                await bed.kubectl("create", "--raw", collection, "-f", "-", stdin=deep("abyss"))
            said = await controller.says("object cannot be read, its last good state is kept")
            assert said["object"] == f"{bed.namespace}/abyss", said
            assert await controller.metric('kruise_ds_malformed_objects_total{resource="daemonsets"}') == 1
            await bed.serves("deep")
            await bed.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
            await bed.serves("deep")
            assert await controller.terminated() == 0
    await bed.kubectl("delete", "--raw", f"{collection}/abyss")
