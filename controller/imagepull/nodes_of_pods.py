"""The nodes that a podSelector means: those of pods whoever they belong to, of which no cache is kept."""

from __future__ import annotations

from controller.api.pod import PodView
from controller.api.selector import LabelSelector, as_text
from controller.kube.client import Client
from controller.kube.decode import Seen
from controller.kube.resource import Resource

PAGE = 500


def _node(view: PodView) -> str | None:
    over = view.metadata.deletion_timestamp is not None or view.status.phase in ("Failed", "Succeeded")
    return None if over else view.spec.node_name or None


RUNNING_PODS: Resource[PodView, str] = Resource(
    group="", version="v1", plural="pods", kind="Pod", wire=PodView, project=_node
)


async def nodes_of_pods(client: Client, namespace: str, chosen: LabelSelector) -> frozenset[str]:
    """Those on which such a pod runs or is to run. Raises ApiError."""
    query = () if chosen.empty else (("labelSelector", as_text(chosen)),)
    found: set[str] = set()
    token = ""
    while True:
        page = await client.apart().page(RUNNING_PODS, namespace, limit=PAGE, token=token, query=query)
        found.update(item.obj for item in page.items if isinstance(item, Seen) and item.obj is not None)
        if not (token := page.token):
            return frozenset(found)
