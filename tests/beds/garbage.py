"""What Kubernetes' garbage collector has seen, of which it tells nobody."""

from __future__ import annotations

from tests.beds.api import PODS, Api, Resource
from tests.beds.objects import pod

NO_UID = "00000000-0000-0000-0000-000000000000"


async def garbage_collector_knows(api: Api, *resources: Resource) -> None:
    """Wait until it has seen all objects of these kinds (pods, revisions) that are there now.

    It follows each kind by a watch of its own. Of dependents that it has not seen yet when their owner goes it makes
    neither a reason to wait nor orphans. The last object of a kind has none, and is collected when seen.
    """
    nobody = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": NO_UID}
    unbound = pod("last")
    unbound["spec"]["schedulerName"] = "nobody"  # a pod that no node has goes at once
    for resource in resources:
        whole = unbound if resource is PODS else {"revision": 1, "data": {}}
        await api.create(resource, {**whole, "metadata": {"name": "last", "ownerReferences": [nobody]}})
    for resource in resources:
        await api.wait_for(
            resource,
            lambda found: all(one["metadata"]["name"] != "last" for one in found),
            f"all {resource.plural} are known",
        )
