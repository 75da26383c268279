"""DaemonSet `demo` as the server sends it, and what is read around it, from the words of `tests.beds.worlds`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from controller.api.daemonset import DaemonSetStatus, DaemonSetView, Rollout, project
from controller.api.objects import JSONObject
from controller.api.pod import Pod
from controller.api.revision import Revision
from kubectl_plugin.rollout.snapshot import RevisionDetail, Snapshot, Unread
from tests.beds.snapshots import detail
from tests.beds.worlds import LABELS, NOW, OURS, numbered, revision, template

NO_PARENTS: tuple[JSONObject | None, ...] = (
    None,
    {},
    {"type": "RollingUpdate"},
    {"type": "RollingUpdate", "rollingUpdate": None},
    {"type": "RollingUpdate", "rollingUpdate": {}},
    {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
)
"""updateStrategy in all the ways in which a setting of the rolling update can be missing; None: not there at all."""
ON_DELETE: JSONObject = {"type": "OnDelete"}


def rolling(**fields: Any) -> JSONObject:
    return {"type": "RollingUpdate", "rollingUpdate": fields}


def live(
    strategy: JSONObject | None = None,
    *,
    rev: str = "v2",
    annotations: Mapping[str, str] | None = None,
    template_annotations: Mapping[str, str] | None = None,
    desired: int | None = None,
    **pod_spec: Any,
) -> JSONObject:
    """`strategy`: updateStrategy, left out for None. `desired`: what the status says, none for None."""
    metadata: JSONObject = {
        "name": "demo",
        "namespace": "default",
        "uid": OURS,
        "resourceVersion": "9",
        "generation": 1,
    }
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    pod_template: Any = template(rev, **pod_spec)
    if template_annotations is not None:
        pod_template["metadata"]["annotations"] = dict(template_annotations)
    spec: JSONObject = {"selector": {"matchLabels": dict(LABELS)}, "template": pod_template}
    if strategy is not None:
        spec["updateStrategy"] = strategy
    document: JSONObject = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": spec,
    }
    if desired is not None:
        document["status"] = {"observedGeneration": 1, "desiredNumberScheduled": desired}
    return document


def seen(
    document: JSONObject | None = None,
    *,
    nodes: int | None = 4,
    pods: Iterable[Pod] = (),
    revisions: Iterable[Revision | str] = ("v2", "v1"),
    unread: tuple[Unread, ...] = (),
    stable: str = "",
    previous: str = "",
) -> Snapshot:
    """With node-0 to node-3 unless told; `nodes=None` is without the right to list them. `stable` and
    `previous` are what the controller has recorded; it has seen everything, and nothing is left to update."""
    document = live() if document is None else document
    stored = [revision(one) if isinstance(one, str) else one for one in revisions]
    ordered = sorted(stored, key=lambda one: one.number, reverse=True)
    daemonset = project(msgspec.convert(document, DaemonSetView))
    if stable or previous:
        live_hash = next((one.hash for one in ordered if one.identity == daemonset.identity), "")
        record = Rollout(
            phase="Healthy",
            completion_time="2027-01-15T07:00:00Z",
            stable_revision=stable or None,
            previous_stable_revision=previous or None,
        )
        status = DaemonSetStatus(observed_generation=1, update_revision=live_hash, rollout=record)
        daemonset = msgspec.structs.replace(daemonset, status=status)
    return Snapshot(
        daemonset=daemonset,
        document=document,
        owners=(),
        revisions=tuple(RevisionDetail(revision=one, created=NOW, change_cause="") for one in ordered),
        pods=tuple(detail(pod) for pod in pods),
        nodes=None if nodes is None else numbered(nodes),
        now=NOW,
        unread=unread,
    )
