"""The measure for decisions: the obvious first version, on the dicts that `json.loads` gives.

It creates what is missing, deletes what is too much and rolls out by maxUnavailable, and can do nothing else: no
adoption, no minReadySeconds, no failed pods, no surge, no partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.tools.bench.api import JSON


def decide(
    daemonset: JSON, nodes: Sequence[JSON], pods: Sequence[JSON], revision_hash: str, limit: int
) -> tuple[list[str], list[str], JSON]:
    """(nodes to create on, pods to delete, status); `limit` is maxUnavailable in pods."""
    uid, by_node = daemonset["metadata"]["uid"], dict[str, list[JSON]]()
    for pod in pods:
        if any(one["uid"] == uid and one.get("controller") for one in pod["metadata"].get("ownerReferences", ())):
            by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    wanted = [node for node in nodes if _should_run(daemonset, node)]
    create, delete, old, ready, updated = list[str](), list[str](), list[str](), 0, 0
    for node in wanted:
        name = node["metadata"]["name"]
        here = sorted(by_node.pop(name, ()), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        if not here:
            create.append(name)
            continue
        delete += [pod["metadata"]["name"] for pod in here[1:]]
        ready += _is_ready(here[0])
        if here[0]["metadata"]["labels"].get("controller-revision-hash") == revision_hash:
            updated += 1
        elif "deletionTimestamp" not in here[0]["metadata"]:
            old.append(here[0]["metadata"]["name"])
    delete += [pod["metadata"]["name"] for left in by_node.values() for pod in left]
    if not create and not delete:
        delete = old[: max(0, limit - (len(wanted) - ready))]
    return create, delete, {"desired": len(wanted), "ready": ready, "updated": updated}


def _should_run(daemonset: JSON, node: JSON) -> bool:
    spec, labels = daemonset["spec"]["template"]["spec"], node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    tolerated = {one.get("key") for one in spec.get("tolerations", ())}
    return all(taint["key"] in tolerated for taint in node.get("spec", {}).get("taints", ()))


def _is_ready(pod: JSON) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
