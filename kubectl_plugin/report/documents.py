"""Reports for programs: plain documents with a kind and an API version of their own. Keys are only ever added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from controller.api.base import JSON, JSONObject
from controller.api.meta import rfc3339
from kubectl_plugin.report.node_row import NodeRow
from kubectl_plugin.report.overview import Line

API_VERSION: Final = "kruise-ds/v1"


def node_list(namespace: str, name: str, rows: Iterable[NodeRow]) -> JSONObject:
    """What `nodes -o json` prints."""
    items: list[JSON] = [_node(row) for row in rows]
    return {"apiVersion": API_VERSION, "kind": "NodeList", "namespace": namespace, "name": name, "items": items}


def rollout_list(lines: Iterable[Line]) -> JSONObject:
    """What `list -o json` prints."""
    items: list[JSON] = [_line(line) for line in lines]
    return {"apiVersion": API_VERSION, "kind": "RolloutList", "items": items}


def _node(row: NodeRow) -> JSONObject:
    document: JSONObject = {
        "node": row.node,
        "group": row.group,
        "state": row.state.value,
        "revision": row.revision,
        "pod": None,
        "how": row.how,
        "why": row.why,
        "preparing": [msgspec.to_builtins(one) for one in row.preparing],
    }
    if row.pod is not None:
        detail, pod = row.pod, row.pod.pod
        document["pod"] = {
            "name": pod.name,
            "ready": pod.ready,
            "readyContainers": detail.ready_containers,
            "containers": len(detail.containers),
            "restarts": detail.restarts,
            "createdAt": rfc3339(pod.created),
            "hash": pod.hash,
        }
    if row.image is not None:
        document["image"] = {"stage": row.image.stage.value, "why": row.image.why}
    if row.trouble is not None:
        trouble = row.trouble
        document["trouble"] = {
            "reason": trouble.reason,
            "container": trouble.container,
            "restarts": trouble.restarts,
            "exitCode": trouble.exit_code,
            "message": trouble.message,
        }
    return document


def _line(line: Line) -> JSONObject:
    return {
        "namespace": line.namespace,
        "name": line.name,
        "phase": line.phase.value,
        "done": line.done,
        "target": line.target,
        "desired": line.desired,
        "partition": line.partition,
        "revision": line.revision,
        "images": list(line.images),
        "since": None if line.since is None else rfc3339(line.since),
        "why": line.why,
    }
