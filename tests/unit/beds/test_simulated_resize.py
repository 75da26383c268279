"""What no contract can show of resizing: servers that cannot, and servers that do not look at the node."""

from __future__ import annotations

import pytest

from tests.beds.api import NODES, PODS, STRATEGIC_MERGE_PATCH, Api, Refusal
from tests.beds.objects import pod
from tests.beds.simulator import Cluster, InProcess
from tests.beds.virtual_time import clock, virtual_time


async def resized(cluster: Cluster, cpu: str) -> str:
    """The request for cpu after a resize of a pod on a node that has two."""
    api = Api(InProcess(cluster))
    await api.create(NODES, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}})
    new = pod("one", on="n")
    new["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    await api.create(PODS, new)
    patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    changed = await api.patch(PODS, "one", patch, sub="resize", content_type=STRATEGIC_MERGE_PATCH)
    return str(changed["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@virtual_time
async def test_an_old_server_knows_no_resize() -> None:
    cluster = Cluster(clock)
    cluster.resize = False
    with pytest.raises(Refusal) as caught:
        await resized(cluster, "2")
    assert caught.value.status == 404
    assert caught.value.message == "the server could not find the requested resource"
    names = [one["name"] for one in (await Api(InProcess(cluster)).send("GET", "/api/v1"))["resources"]]
    assert "pods/status" in names
    assert "pods/resize" not in names


@virtual_time
async def test_without_its_admission_any_size_is_accepted() -> None:
    with pytest.raises(Refusal) as caught:
        await resized(Cluster(clock), "3")
    assert caught.value.status == 403
    cluster = Cluster(clock)
    cluster.resize_admission = False
    assert await resized(cluster, "3") == "3"
